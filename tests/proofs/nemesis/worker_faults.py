"""Faults of workers, producers, and their ways to Redis."""

import time
from collections.abc import Sequence

from distq.cli.program import UNSETTLED
from distq.inspector import Inspector
from distq.redisio.keys import queue_key
from distq.workqueue.queue import Queue
from distq.workqueue.redis_session import CLOSING_TIME
from tests.proofs.nemesis import release
from tests.proofs.nemesis.catalogue import fault
from tests.proofs.nemesis.fleet_process import FleetProcess
from tests.proofs.nemesis.stage import Stage

SUSPECTS, QUICK = 1300, 50


def _victim(stage: Stage) -> FleetProcess:
    """Return a worker that has just begun something that outlasts a claim."""
    key = f"longest/{time.monotonic_ns()}"
    stage.add(key)
    found: list[FleetProcess] = []

    def runs() -> bool:
        found[:] = [
            each for each in stage.fleet.named("worker") if any(run.key == key for run in each.running())
        ]
        return bool(found)

    stage.until(runs, "it runs")
    return found[0]


@fault("F1", "its items run again, after the claim duration at the latest")
def worker_killed(stage: Stage) -> None:
    """Kill a worker (-9) in the middle of reconciles."""
    _victim(stage).kill()


@fault("F1b", "acknowledged adds are there; others go on")
def producer_killed(stage: Stage) -> None:
    """Kill a producer (-9) as it adds, four times."""
    for _ in range(4):
        stage.chance.choice(stage.fleet.named("producer")).kill()
        stage.sleep(0.7)


@fault("F2", "others take over; what it settles later is refused; it cancels what it ran", thaws=True)
def worker_frozen(stage: Stage) -> None:
    """Freeze a worker (SIGSTOP) for twice the claim duration, and let it go on."""
    freeze_for_two_claims(stage, _victim(stage))


def freeze_for_two_claims(stage: Stage, victim: FleetProcess) -> None:
    """Freeze a worker for twice the claim duration, and let it go on."""
    victim.freeze()
    stage.cause_is_gone()  # what it held is healed by others
    begun = stage.healed_from
    stage.sleep(2 * stage.claim_duration)
    victim.thaw()
    stage.sleep(1.0)
    stage.healed_from = begun


@fault("F6", "it is noticed; sessions outlive it")
def connections_half_open(stage: Stage) -> None:
    """Let no byte pass, in connections that stay open, for half a claim duration."""
    stage.each_gate("hang")
    stage.sleep(stage.claim_duration / 2)
    stage.each_gate("pass")


@fault("F7", "it fences itself before others take over", cuts_off=True)
def worker_cut_off(stage: Stage) -> None:
    """Put one worker into a black hole for twice the claim duration."""
    victim = _victim(stage)
    stage.gates[victim.name].mode = "hang"
    begun = time.monotonic()
    stage.sleep(2 * stage.claim_duration)
    stage.gates[victim.name].mode = "pass"
    stage.sleep(1.0)
    stage.healed_from = begun


@fault("F7b", "all fence themselves, settle nothing, and begin anew", cuts_off=True)
def all_are_cut_off(stage: Stage) -> None:
    """Put all processes into a black hole for one and a half claim durations."""
    stage.each_gate("hang")
    stage.sleep(1.5 * stage.claim_duration)
    stage.each_gate("pass")


@fault("F26", "the same call again has the same effect, once", server="redis7")
def replies_lost(stage: Stage) -> None:
    """Lose replies of Redis, again and again: the call took effect, and its caller does not know."""
    until = time.monotonic() + 4.0
    while time.monotonic() < until:
        gate = stage.chance.choice(list(stage.gates.values()))
        gate.mode = "lose"
        stage.sleep(0.08)
        gate.mode = "pass"
        stage.sleep(0.04)


@fault("F26b", "the same call again has the same effect, once", server="redis6")
def connections_broken(stage: Stage) -> None:
    """Break connections in the middle of a request or an answer, again and again."""
    until = time.monotonic() + 4.0
    while time.monotonic() < until:
        gate = stage.chance.choice(list(stage.gates.values()))
        gate.turn("reset", after=stage.chance.randrange(200))
        stage.sleep(0.1)
        gate.turn("pass", after=0)
        gate.mode = "pass"


@fault("F27", "dead after three crashes; the items that ran beside it are not")
def poison(stage: Stage) -> None:
    """Add an item that kills each worker that runs it."""
    Queue("jobs", stage.connection).add("poison/one")
    inspector = Inspector(stage.connection)

    def is_parked() -> bool:
        item = inspector.item("jobs", "poison/one")
        return item is not None and item.state == "dead"

    stage.until(is_parked, "it is parked", within=20 * stage.claim_duration)
    stage.cause_is_gone()
    runs = [run for run in stage.fleet.reconciles() if run.key == "poison/one"]
    if len(runs) != 3:
        stage.surprises.append(f"the poison ran {len(runs)} times")
    inspector.delete("jobs", "poison/one", state="dead")


@fault("F44", "the items behind them run within two claim durations", spares_sessions=True, untraced=True)
def many_suspects(stage: Stage) -> None:
    """Add 1,300 suspects that each take long, and behind them fifty quick items."""
    queue, inspector = Queue("jobs", stage.connection), Inspector(stage.connection)
    suspects = [f"suspect/long-{number}-{time.monotonic_ns()}" for number in range(SUSPECTS)]
    for key in suspects:
        stage.run("HSET", queue_key("jobs", "failures"), key, "0 2 0 - ")
    for half in (suspects[: SUSPECTS // 2], suspects[SUSPECTS // 2 :]):
        queue.add(*half, priority=5)
    quick = {f"quick/{number}-{time.monotonic_ns()}" for number in range(QUICK)}
    for key in sorted(quick):
        stage.add(key)

    def all_ran() -> bool:
        return quick <= {run.key for run in stage.fleet.reconciles()}

    stage.until(all_ran, "what comes behind the suspects ran", within=2 * stage.claim_duration)
    stage.until(lambda: _ran_alone(stage, suspects), "a suspect ran", within=4 * stage.claim_duration)
    inspector.delete("jobs", *suspects)


def _ran_alone(stage: Stage, suspects: Sequence[str]) -> bool:
    return any(run.key in suspects for run in stage.fleet.reconciles())


@fault("F37", "each does its part, and nothing is lost", server="redis7", older=True, untraced=True)
def two_releases(stage: Stage) -> None:
    """Replace a worker and a producer by those of 0.1.0, and these by new ones again."""
    older = stage.folder / "release"
    if not older.exists():
        release.unpack(older)
    for root in (older, stage.root):
        for name in ("worker-1", "producer-1"):
            stage.replace_by(name, root)
            leaving = stage.fleet.processes[name]
            leaving.terminate()
            stage.until(leaving.has_ended, "it ends")
        stage.sleep(5.0)
    stage.surprises += [note for note in stage.notes if " ended with " in note]


@fault("F38", "exit status 0; its items run elsewhere at once")
def each_worker_is_terminated(stage: Stage) -> None:
    """Send a SIGTERM to each worker, one after another: a rollout."""
    for name in ("worker-1", "worker-2", "worker-3"):
        leaving = stage.fleet.processes[name]
        leaving.terminate()
        stage.until(leaving.has_ended, "it ends")
        # if the machine was frozen for longer, Redis did not answer in time, and 3 says so
        in_time = stage.lateness.slack() < CLOSING_TIME
        if leaving.status and (in_time or leaving.status != UNSETTLED):
            stage.surprises.append(f"{name} ended with {leaving.status}")
        stage.sleep(0.5)


@fault("F38b", "it ends by itself, and lets its session lapse", server="redis6", cuts_off=True)
def worker_is_terminated_in_an_outage(stage: Stage) -> None:
    """Send a SIGTERM to a worker while Redis hangs."""
    leaving = _victim(stage)
    stage.each_gate("hang")
    leaving.terminate()
    stage.sleep(2.0)
    stage.each_gate("pass")
    stage.until(leaving.has_ended, "it ends")
