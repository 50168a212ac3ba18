"""The plot: objects come and go, the leader is killed, a worker is killed, and then all is counted."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from distq.cli.demo.controller import QUEUE, RESOURCE
from distq.cli.demo.display import Display
from distq.cli.demo.generator import Generator
from distq.cli.demo.journal import Entry, count_overlaps
from distq.cli.demo.observer import Observer
from distq.cli.demo.stage import NAMESPACE, Stage
from distq.errors import DistqError
from distq.testing.promises import left_over
from distq.wording import counted

KILL_LEADER_AT = 0.3
KILL_WORKER_AT = 0.6
"""Parts of the duration."""

_WORKERS = 3
_POLL_INTERVAL = 0.2
_START_WITHIN = 60.0
_SETTLE_WITHIN = 60.0


@dataclass(frozen=True)
class Verdict:
    """The demo's summary; the names are those of its JSON."""

    objects: int
    reconciled: int
    lost: int
    overlaps: int
    left_over: int
    leader_changes: int
    lists_by_new_leader: int

    @property
    def good(self) -> bool:
        """Return whether every promise that the demo puts to the test was kept."""
        return self.leader_changes >= 1 and not (
            self.lost or self.overlaps or self.left_over or self.lists_by_new_leader
        )

    def __str__(self) -> str:
        objects, overlaps = counted(self.objects, "object"), counted(self.overlaps, "overlap")
        changes, lists = (
            counted(self.leader_changes, "leader change"),
            counted(self.lists_by_new_leader, "list"),
        )
        return (
            f"{objects}, {self.reconciled} reconciled to their last version, {self.lost} lost, "
            f"{overlaps}, {self.left_over} left over, {changes}, {lists} by the new leader"
        )


class Performance:
    """One run of the demo; ``complaints`` say in words what the verdict counts."""

    def __init__(self, stage: Stage, display: Display, objects: int, duration: float) -> None:
        self.complaints: list[str] = []
        self._stage = stage
        self._duration = duration
        self._generator = Generator(stage.client, NAMESPACE, objects, duration)
        self._observer = Observer(stage.inspector, display)
        self._leader_killed_at = 0.0

    def run(self) -> Verdict:
        """Play it to its end; raises DistqError when a process ends by itself."""
        self._start()
        self._generator.start()
        self._until(lambda: self._observer.time >= KILL_LEADER_AT * self._duration)
        self._kill_leader()
        self._until(lambda: self._observer.leader_changes > 0, _START_WITHIN)
        self._until(lambda: self._observer.time >= KILL_WORKER_AT * self._duration)
        self._kill_worker()
        self._until(lambda: not self._generator.is_alive())
        if self._generator.error:
            raise self._generator.error
        return self._judge()

    def _start(self) -> None:
        self._informers = [self._stage.start("informer-1", "informer")]
        self._workers = [self._stage.start(f"worker-{n}", "worker") for n in range(1, _WORKERS + 1)]
        self._until(self._has_started, _START_WITHIN, watched=False)
        # only now, so that informer-1, which is killed, is the leader
        self._informers.append(self._stage.start("informer-2", "informer"))
        self._observer.begin()

    def _has_started(self) -> bool:
        inspector = self._stage.inspector
        return bool(inspector.streams(QUEUE)) and len(inspector.workers(QUEUE)) == _WORKERS

    def _until(self, condition: Callable[[], bool], timeout: float = 3600.0, *, watched: bool = True) -> bool:
        """Watch until the condition holds; return whether it did in time."""
        deadline = time.monotonic() + timeout
        while not condition():
            self._stage.require_alive()
            if time.monotonic() > deadline:
                return False
            if watched:
                self._observer.look()
            time.sleep(_POLL_INTERVAL)
        return True

    def _kill_leader(self) -> None:
        if not self._until(self._informers[1].says_follower, _START_WITHIN):
            raise DistqError("the second informer did not start in time. Is the machine busy?")
        self._leader_killed_at = time.time()
        self._informers[0].kill()
        self._observer.leader_is_gone()
        self._observer.report("informer-1 killed")

    def _kill_worker(self) -> None:
        worker = self._workers[0]
        worker.kill_in_mid_reconcile()
        cut_short = {entry.key for entry in worker.journal() if entry.end == worker.killed_at}
        self._observer.report(f"worker-1 killed in the middle of {counted(len(cut_short), 'reconcile')}")
        self._observer.expect_again(cut_short, worker.killed_at or 0.0, self._journals)

    def _judge(self) -> Verdict:
        """Wait until all is done, count, then stop everything and count once more."""
        generator = self._generator
        self._until(lambda: not self._left_over(handles=_WORKERS - 1), _SETTLE_WITHIN)
        until = time.time()  # before _lost(), whose lists are not the leader's
        self._until(lambda: not self._lost(), _SETTLE_WITHIN)
        lost, left = self._lost(), self._left_over(handles=_WORKERS - 1)
        self._stage.stop_all()
        left_at_end = self._left_over(handles=0)
        overlaps = count_overlaps(self._journals())
        lists = max(self._stage.full_lists(self._leader_killed_at, until), self._observer.lists_by_new_leader)
        self.complaints += [f"lost: {key}" for key in sorted(lost)[:10]]
        self.complaints += [f"left over: {count} in {name}" for name, count in left.items()]
        self.complaints += [f"left over at the end: {count} in {name}" for name, count in left_at_end.items()]
        return Verdict(
            objects=len(generator.keys),
            reconciled=len(generator.keys) - len(lost),
            lost=len(lost),
            overlaps=overlaps,
            left_over=sum(left.values()) + sum(left_at_end.values()),
            leader_changes=self._observer.leader_changes,
            lists_by_new_leader=lists,
        )

    def _lost(self) -> set[str]:
        """Return the keys whose last state was not reconciled."""
        alive = self._generator.alive
        up_to_date = {
            f"{NAMESPACE}/{foo['metadata']['name']}"
            for foo in self._stage.client.list(RESOURCE, NAMESPACE)
            if foo.get("status", {}).get("observedGeneration") == foo["metadata"]["generation"]
        }
        # a deletion is in the journals alone: its last reconcile found nothing
        ended = (entry for entry in self._journals() if entry.end is not None and not entry.failed)
        last = {entry.key: entry for entry in sorted(ended, key=lambda entry: entry.start)}
        found_gone = {key for key, entry in last.items() if entry.gone}
        return self._generator.keys - (up_to_date & alive) - (found_gone - alive)

    def _left_over(self, *, handles: int) -> dict[str, int]:
        return left_over(
            self._stage.redis, QUEUE, handles=handles, objects=len(self._generator.alive), streams=1
        )

    def _journals(self) -> list[Entry]:
        return [entry for worker in self._workers for entry in worker.journal()]
