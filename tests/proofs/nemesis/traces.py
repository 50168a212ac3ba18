"""The traces of the fleet's queues while a fault is played, and what their checker finds in them."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import redis

from distq.errors import DistqError
from distq.redisio.connection import Argument, Connection
from distq.redisio.keys import queue_key, queues_key
from distq.redisio.queue_store import QueueStore
from tests.proofs.history import Interval, Recorder, Segment, check
from tests.proofs.nemesis.journal import Reconcile
from tests.proofs.nemesis.judge import FOREVER, Span, awake
from tests.support.eventually import eventually

QUEUES = ("jobs", "maps")
PERIOD = 0.5
"""Seconds between two looks: an entry that was not read when Redis goes back is not checked."""
READ_WITHIN, READ_AT_LAST_WITHIN = 1.0, 60.0
"""Seconds that Redis has for an answer, and for all answers when the fault is over."""


class _NearConnection(Connection):
    """Soon tired; in a cluster it sends what names no key, a MULTI, to the node that has the queue."""

    def __init__(self, url: str, queue: str) -> None:
        super().__init__(url)
        self._timeout, self._tired_after, self._pauses = READ_WITHIN, READ_WITHIN / 2, ()
        self._near = queue_key(queue, "meta")

    def _key_of(self, command: Sequence[Argument]) -> str:
        key = super()._key_of(command)
        return self._near if key == queues_key(self.prefix) else key


class Traces:
    """A recorder a queue, which reads directly from the queue's Redis: no gate of the fleet is in its way.

    ``url`` returns where Redis is now; it is asked again after each failure.
    """

    def __init__(self, url: Callable[[], str]) -> None:
        self._url = url
        self._recorders: dict[str, Recorder] = {}
        self._next_look = 0.0

    def begin(self) -> None:
        """Switch the traces on; before the load begins."""
        for queue in QUEUES:
            recorder = self._recorders[queue] = Recorder(self._store(queue))
            eventually(
                lambda queue=queue, recorder=recorder: self._succeeds(queue, recorder.start),  # type: ignore[misc]
                f"the trace of {queue} begins",
                timeout=READ_AT_LAST_WITHIN,
            )

    def look(self) -> None:
        """Read what is new, if it is time; what cannot be read now is read later."""
        if time.monotonic() < self._next_look:
            return
        for queue, recorder in self._recorders.items():
            self._succeeds(queue, recorder.poll)
        self._next_look = time.monotonic() + PERIOD

    def end(self) -> dict[str, list[Segment]]:
        """Switch the traces off, and return them by queue."""
        segments: dict[str, list[Segment]] = {}
        for queue, recorder in self._recorders.items():
            eventually(
                lambda queue=queue, recorder=recorder: self._succeeds(  # type: ignore[misc]
                    queue, lambda: segments.update({queue: recorder.finish()})
                ),
                f"the trace of {queue} is read",
                timeout=READ_AT_LAST_WITHIN,
            )
            recorder.store.connection.close()
        self._recorders = {}
        return segments

    def _store(self, queue: str) -> QueueStore:
        return QueueStore(_NearConnection(self._url(), queue), queue)

    def _succeeds(self, queue: str, read: Callable[[], object]) -> bool:
        """Read, and return whether that worked; where not, ask anew where the queue is."""
        try:
            read()
        except (DistqError, redis.RedisError):
            recorder = self._recorders[queue]
            recorder.store.connection.close()
            recorder.store = self._store(queue)
            return False
        return True


def violations(
    traces: Mapping[str, Sequence[Segment]],
    runs: Iterable[Reconcile],
    frozen: Mapping[str, Sequence[Span]],
    *,
    overlap: float,
    drained: bool,
) -> list[str]:
    """Return what the checker finds: of the calls, and of the runs joined with their claims.

    Whether each add was kept is not asked again: ``judge.unmet`` asks for more, a run that went to its end.
    """
    found: list[str] = []
    for queue, segments in traces.items():
        ours = [run for run in runs if run.queue == queue]
        broken = check(
            segments,
            intervals=list(_intervals(ours, frozen)),
            overlap=overlap,
            overlap_of_lapsed=overlap,
            drained=drained,
        )
        found += [f"{queue}: {violation}" for violation in broken]
    return found


def _intervals(runs: Iterable[Reconcile], frozen: Mapping[str, Sequence[Span]]) -> Iterable[Interval]:
    """Yield when each run ran, in parts where its process was frozen meanwhile."""
    for run in runs:
        for began, ended in awake(run, frozen.get(run.process, ())):
            yield Interval(run.key, run.fence, began, None if ended == FOREVER else ended, run.process)
