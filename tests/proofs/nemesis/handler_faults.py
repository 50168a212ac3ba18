"""Faults of what handlers do, of what is added, and of workers that wait."""

import time

from distq.errors import InvalidKey
from distq.inspector import Inspector
from distq.workqueue.queue import Queue
from tests.proofs.nemesis.catalogue import fault
from tests.proofs.nemesis.fleet_process import FleetProcess
from tests.proofs.nemesis.stage import Stage

REFUSED = ("", "\0", "new\nline", "a" * 1025, "half a pair \udcff", "10 MB " + "a" * 10_000_000)
TAKEN = (
    "{}",
    "{jobs}:ready",
    "__proto__",
    "1e400",
    "-inf",
    " ",
    "a b",
    "../..",
    "%s{0}",
    "日本/🦊",
    "a" * 1024,
)
MANY, AT_A_TIME = 100_000, 1000
LATER = 24 * 3600.0
"""Seconds; more than the server's clock steps in other faults."""


@fault("F28", "its claim ends at max_hold, its item runs elsewhere, its slot is lost; others go on")
def handler_never_returns(stage: Stage) -> None:
    """Let a reconcile never return, and not look whether to stop."""
    key = f"endless/{time.monotonic_ns()}"
    stage.add(key)
    stage.until(
        lambda: any(run.key == key and run.kept for run in stage.fleet.reconciles()), "it runs elsewhere"
    )
    hanging = [each for each in stage.fleet.named("worker") if f"{key}" in each.log()]
    if len(hanging) != 1:
        stage.surprises.append(f"{len(hanging)} workers said that it hangs")
    for each in hanging:
        each.kill()


@fault("F28b", "others take over; what it settles later is refused; it says what it was", thaws=True)
def interpreter_held(stage: Stage) -> None:
    """Let a reconcile hold the interpreter (GIL) for one and a half claim durations."""
    (stage.folder / "greedy").unlink(missing_ok=True)
    key = f"greedy/{time.monotonic_ns()}"
    stage.add(key)
    stage.until((stage.folder / "greedy").exists, "it holds it")
    begun = time.monotonic()
    stage.until(lambda: any(map(_has_stalled, stage.fleet.named("worker"))), "it lets it go")
    logged = "a handler held the interpreter"
    stage.until(lambda: stage.fleet.said(logged), "its process says what it was")
    stage.healed_from = begun


@fault("F29", "each is refused by name, or comes back as it is")
def hostile_keys(stage: Stage) -> None:
    """Add keys that are empty, of 10 MB, with control characters, no Unicode, or like those of Redis."""
    queue = Queue("jobs", stage.connection)
    for key in REFUSED:
        try:
            queue.add(key)
        except InvalidKey:
            continue
        stage.surprises.append(f"{key[:40]!r} was taken")
    for key in TAKEN:
        stage.add(key)


@fault("F31", "no worker waits for them", server="redis7", spares_sessions=True)
def many_items(stage: Stage) -> None:
    """Add 100,000 items for tomorrow, and delete them again."""
    queue, keys = Queue("jobs", stage.connection), [f"many/{number}" for number in range(MANY)]
    for start in range(0, MANY, AT_A_TIME):
        queue.add(*keys[start : start + AT_A_TIME], after=LATER)
        stage.sleep(0.01)
    deleted = Inspector(stage.connection).delete("jobs", state="delayed", match="many/*")
    if deleted != MANY:
        stage.surprises.append(f"{deleted} of {MANY} were there")


@fault("F33", "their tokens are lost, and the worker that is awake finds the items", thaws=True)
def sleepers_frozen(stage: Stage) -> None:
    """Freeze two of three workers as they wait for work, add items, and let them go on."""
    stage.end_load()
    workers = stage.fleet.named("worker")
    stage.until(lambda: not stage.left_over() and _all_idle(workers), "all wait")
    for each in workers[:2]:
        each.freeze()
    for number in range(20):
        stage.add(f"idle/{number}-{time.monotonic_ns()}")
        stage.sleep(0.05)
    stage.cause_is_gone()  # the processes that are awake heal them
    stage.sleep(0.5 * stage.claim_duration)
    for each in workers[:2]:
        each.thaw()
    stage.go_on()


def _has_stalled(worker: FleetProcess) -> bool:
    worker.journal.read_on()
    return bool(worker.journal.stalled)


def _all_idle(workers: list[FleetProcess]) -> bool:
    return not any(each.running() for each in workers)
