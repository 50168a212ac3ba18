"""Faults of a fleet that processes only so many items of a namespace at a time."""

import time

from distq.redisio.queue_store import QueueStore
from tests.proofs.nemesis.catalogue import fault
from tests.proofs.nemesis.fleet_process import FleetProcess
from tests.proofs.nemesis.informer_faults import leader_killed
from tests.proofs.nemesis.redis_faults import redis_rolled_back
from tests.proofs.nemesis.stage import Stage
from tests.proofs.nemesis.worker_faults import freeze_for_two_claims

ITEMS = 16
"""Of one namespace; each takes long."""


def _at_limit(stage: Stage) -> FleetProcess:
    """Return a worker that runs an item of a namespace at its limit, of which others are held back."""
    for number in range(ITEMS):
        stage.add(f"full/long-{number}-{time.monotonic_ns()}")

    def workers() -> list[FleetProcess]:
        every = stage.fleet.named("worker")
        return [each for each in every for run in each.running() if run.key.startswith("full/")]

    stage.until(lambda: len(workers()) >= (stage.limit or 0), "so many run")
    stage.sleep(0.2)
    if QueueStore(stage.connection, "jobs").read(("ZCARD", "held_back")) == [0]:
        stage.surprises.append("nothing was held back")
    return workers()[0]


@fault("F46", "its limit holds, and each item that was held back runs", limited=True)
def worker_at_limit_killed(stage: Stage) -> None:
    """Kill a worker (-9) that runs items of a namespace at its limit."""
    _at_limit(stage).kill()


@fault("F46b", "its limit holds for valid claims, and others take its turns over", limited=True, thaws=True)
def worker_at_limit_frozen(stage: Stage) -> None:
    """Freeze a worker (SIGSTOP) that runs items of a namespace at its limit, for twice the claim duration."""
    freeze_for_two_claims(stage, _at_limit(stage))


@fault("F46c", "what was held back then, and is not yet done, runs", limited=True, forgets=True)
def redis_at_limit_rolled_back(stage: Stage) -> None:
    """Kill Redis (-9) while items are held back, and start it as it was three seconds before."""
    _at_limit(stage)
    redis_rolled_back(stage)


@fault("F46d", "what is held back of its objects runs with their last state", limited=True)
def leader_at_limit_killed(stage: Stage) -> None:
    """Kill the leading informer (-9) while the namespace of its objects is at its limit."""
    store = QueueStore(stage.connection, "maps")
    stage.until(lambda: store.read(("ZCARD", "held_back")) != [0], "objects are held back")
    leader_killed(stage)
