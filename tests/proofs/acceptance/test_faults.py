"""The sample controller outlives more than deaths: a worker that wakes up, a Redis that is away."""

import logging
import time
from functools import partial
from pathlib import Path

import pytest

from distq.cli.demo.journal import Entry, count_overlaps
from distq.testing.embedded_valkey import EmbeddedValkey
from tests.proofs.acceptance.journaled_sample import QUEUE
from tests.proofs.acceptance.outsider import Change, Load, Outsider
from tests.proofs.acceptance.processes import Process
from tests.proofs.acceptance.scene import Scene
from tests.support.redis_servers import KINDS, server_of

NAMES = [f"foo-{number:04}" for number in range(100)]
PER_SECOND = 50.0
SLOTS = 8  # a worker's
LATE_HEARTBEAT = 15.0  # claims whose heartbeat may be 5 s late after an outage, as on a busy machine

logger = logging.getLogger(__name__)


@pytest.mark.conformance("RD-02")
@pytest.mark.parametrize("redis_server", ["redis7"], indirect=True)
@pytest.mark.parametrize(
    "its_handlers", ["end-at-once", pytest.param("wait-to-be-cancelled", marks=pytest.mark.slow)]
)
def test_a_frozen_worker_settles_nothing_that_others_took_over(
    outsider: Outsider, scene: Scene, its_handlers: str
) -> None:
    """What it had begun runs elsewhere once its claims lapsed; when it wakes up, no queue minds it."""
    scene.start_informers(outsider.kubeconfig)
    (zombie,) = scene.start_workers(outsider.kubeconfig)
    zombie.hold()
    load = Load([Change(name, partial(outsider.create, name, 1)) for name in NAMES], PER_SECOND)
    load.start()
    scene.until(lambda: len(zombie.open()) == SLOTS, "it has no free slot")
    others = scene.start_workers(*[outsider.kubeconfig] * 2)
    scene.until(lambda: load.is_over() and has_all_that_is_left(scene, zombie), "it has all that is left")
    zombie.freeze()
    held = zombie.open()
    for other in others:
        other.hold()
    scene.until(lambda: keys(held) <= open_keys(others), "the others took over")
    theirs = claims(scene, keys(held))
    assert theirs.keys() == keys(held)

    if its_handlers == "end-at-once":
        zombie.go_on()
    thawed = time.monotonic()
    zombie.thaw()
    scene.until(lambda: not zombie.open(), "its handlers ended")
    scene.until(lambda: len(scene.inspector.workers(QUEUE)) == 3, "it is back with a new session")
    assert claims(scene, keys(held)) == theirs, "it ended what others hold"

    for other in others:
        other.go_on()
    scene.until(lambda: scene.is_done(dict.fromkeys(NAMES, 1)), "each Foo is reconciled")
    scene.until(lambda: not scene.left_over(handles=3, objects=len(NAMES)), "nothing is left over")
    assert not [other.name for other in others if "not settled" in other.log()]
    require_overlap_of_the_awakened_only(scene, zombie, held, thawed)


def has_all_that_is_left(scene: Scene, worker: Process) -> bool:
    """Return whether the queue has nothing left but what a worker without a free slot holds."""
    (queue,) = scene.inspector.queues(QUEUE)
    return (queue.depth, queue.delayed, queue.processing) == (0, 0, SLOTS) and len(worker.open()) == SLOTS


def claims(scene: Scene, held: set[str]) -> dict[str, tuple[str | None, float | None]]:
    """Return by key who holds the items, and since when."""
    items = scene.inspector.items(QUEUE, state="processing")
    return {item.key: (item.worker, item.since) for item in items if item.key in held}


def require_overlap_of_the_awakened_only(
    scene: Scene, zombie: Process, held: list[Entry], thawed: float
) -> None:
    """Check that nothing ran twice at a time, but what the awakened worker had to cancel."""
    began = {(entry.key, entry.start) for entry in held}
    ended = {entry.key: entry.end for entry in zombie.journal() if (entry.key, entry.start) in began}
    late = max(end or 0.0 for end in ended.values()) - thawed
    logger.info("%d reconciles overlapped for up to %.3f s after the worker woke up", len(held), late)
    rest = [entry for entry in scene.journals() if (entry.key, entry.start) not in began]
    assert count_overlaps(rest) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_redis_restarted_over_its_log_has_lost_nothing(
    outsider: Outsider, tmp_path: Path, kind: str
) -> None:
    """It is killed in mid-run; what ends meanwhile is settled later, what changes is handed over."""
    folder = tmp_path / "redis"
    folder.mkdir()
    options = ("--dir", str(folder), "--appendonly", "yes", "--appendfsync", "everysec")
    with (
        EmbeddedValkey(server=server_of(kind), options=options) as redis,
        Scene(tmp_path, redis.url, outsider, claim_duration=LATE_HEARTBEAT) as scene,
    ):
        scene.start_informers(outsider.kubeconfig)
        workers = scene.start_workers(*[outsider.kubeconfig] * 3)
        half = len(NAMES) // 2
        creations = Load([Change(name, partial(outsider.create, name, 1)) for name in NAMES], PER_SECOND)
        creations.start()
        scene.until(lambda: creations.done > half, "half is created")
        for worker in workers:
            worker.hold()
        scene.until(lambda: all(worker.open() for worker in workers), "all are in mid-reconcile")

        redis.stop()  # a SIGKILL
        stopped = time.monotonic()
        meanwhile = _scale(outsider, NAMES[:half])
        for worker in workers:
            worker.go_on()
        scene.until(lambda: not any(worker.open() for worker in workers), "all reconciles ended")
        scene.until(lambda: meanwhile.is_over() and creations.is_over(), "half is changed")
        redis.start()
        afterwards = _scale(outsider, NAMES[half:])
        scene.until(afterwards.is_over, "the other half is changed")
        scene.until(lambda: scene.is_done(dict.fromkeys(NAMES, 2)), "all is reconciled")
        scene.until(lambda: not scene.left_over(handles=3, objects=len(NAMES)), "nothing is left over")
        logger.info("at rest %.1f s after the kill", time.monotonic() - stopped)
        assert count_overlaps(scene.journals()) == 0
        assert [stream.lists for stream in scene.streams()] == [1, 1], "its log was not enough"
        assert set(scene.terminate_all()) == {0}


def _scale(outsider: Outsider, names: list[str]) -> Load:
    load = Load([Change(name, partial(outsider.scale, name, 2)) for name in names], PER_SECOND)
    load.start()
    return load


def keys(entries: list[Entry]) -> set[str]:
    """Return whose reconciles they are."""
    return {entry.key for entry in entries}


def open_keys(processes: list[Process]) -> set[str]:
    """Return what is being reconciled."""
    return {key for process in processes for key in keys(process.open())}
