"""Moves one stream's position in Redis, as the leader and only as the leader.

A batch is kept until Redis has it: outages are waited out with the same batch id, so that a
reply that was lost makes no second batch. Compare-and-set on the position is what makes it safe;
the epoch, and looking at the lease before each commit, stop a deposed leader early.
"""

import logging
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Protocol, TypeVar

from distq.clock import Clock
from distq.errors import LayoutTooNew, LeaseLost, RedisError
from distq.informer.backoff import Backoff
from distq.informer.objects import is_older
from distq.informer.sink import PositionMoved
from distq.redisio.checkpoints import MARK, step_of
from distq.redisio.limits import BATCH_LIMIT
from distq.redisio.records import Stream as StreamRecord
from distq.redisio.stream_store import Committed, Fenced, Mismatch, StreamStore

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")

_WORDS = {"": "nothing", MARK: "the mark to list everything"}
"""Positions that are no versions, for the log: a resync by hand leaves the mark."""


class Leadership(Protocol):
    """What a stream asks of the elector whose term it serves (``leaderelection.LeaderElector``)."""

    @property
    def identity(self) -> str:
        """Return the leader's name."""

    @property
    def epoch(self) -> str:
        """Return the version of the Lease write that began the term."""

    def may_act(self) -> bool:
        """Return whether the term was renewed so lately that nobody else can lead."""


class Committer:
    """The position of one stream, and the only way to move it.

    ``present_version`` asks the cluster for its version now: it decides whether a higher epoch is a later
    leader or a memory of a cluster that was since restored. ``committed`` hears of each commit how many keys
    it added.
    """

    def __init__(
        self,
        store: StreamStore,
        leadership: Leadership,
        present_version: Callable[[], str],
        clock: Clock,
        stop: threading.Event,
        *,
        committed: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.store = store
        self.position = ""
        self._last_batch = ""
        self.committed_at = clock.monotonic()
        self._leadership = leadership
        self._present_version = present_version
        self._clock = clock
        self._stop = stop
        self._committed = committed
        self._nonce = uuid.uuid4().hex[:12]
        self._batches = 0

    def load(self) -> StreamRecord | None:
        """Read the stream's record and stand at its position."""
        record = self.patiently(self.store.load)
        self.position, self._last_batch = (record.position, record.batch) if record else ("", "")
        return record

    def commit(
        self,
        new: str,
        *,
        keys: Sequence[str] = (),
        known: Mapping[str, str] | None = None,
        gone: Sequence[str] = (),
        priority: int = 0,
        keep_pending: bool = False,
        about: Mapping[str, Any],
    ) -> int:
        """Enqueue a batch and move to ``new``; return how many keys were not pending before.

        Raises PositionMoved when Redis stands elsewhere, LeaseLost when another leads, or the last
        RedisError when the process is to stop.
        """
        self._batches += 1
        batch, replaces = f"{self._nonce}-{self._batches}", ""

        def attempt() -> Committed | Fenced | Mismatch:
            self._require_lease()
            return self.store.commit(
                epoch=self._leadership.epoch,
                after=self._last_batch,
                new=new,
                batch=batch,
                keys=keys,
                priority=priority,
                keep_pending=keep_pending,
                known=known,
                gone=gone,
                about=about,
                replaces=replaces,
            )

        answer = self.patiently(attempt)
        if isinstance(answer, Fenced) and self._outlived_its_cluster(answer.epoch):
            replaces = answer.epoch
            answer = self.patiently(attempt)
        if isinstance(answer, Fenced):
            raise LeaseLost(f"{self.store.stream} belongs to a later leader, of epoch {answer.epoch}.")
        if isinstance(answer, Mismatch):
            self._move_to(answer.position)
            raise PositionMoved(answer.position)
        self.position, self._last_batch = new, batch if new else ""
        self.committed_at = self._clock.monotonic()
        self._committed(answer.added)
        return answer.added

    def step(self) -> str:
        """Return a position that is another one, but resumes from the same checkpoint."""
        return step_of(self.position, f"{self._nonce}:{self._batches}")

    def known_of(self, names: Sequence[str]) -> list[str | None]:
        """Return what was handed over of objects, None for those never seen."""
        chunks = [names[start : start + BATCH_LIMIT] for start in range(0, len(names), BATCH_LIMIT)]
        lines = [self.patiently(partial(self.store.known_of, chunk)) for chunk in chunks]
        return list(chain.from_iterable(lines))

    def known_count(self) -> int:
        """Return of how many objects something was handed over."""
        return self.patiently(self.store.known_count)

    def patiently(self, ask: Callable[[], Answer]) -> Answer:
        """Ask Redis until it answers, however long that takes."""
        backoff = Backoff(self._clock, base=0.1, cap=5.0)
        while True:
            try:
                return ask()
            except LayoutTooNew:
                raise
            except RedisError as error:
                if self._stop.is_set():
                    raise
                delay = backoff.delay()
                logger.warning("%s: %s Trying again in %.1f s.", self.store.stream, error, delay)
                self._clock.wait(self._stop, delay)

    def _require_lease(self) -> None:
        if not self._leadership.may_act():
            raise LeaseLost(f"{self.store.stream}: the lease was not renewed in time.")

    def _outlived_its_cluster(self, epoch: str) -> bool:
        present = self._present_version()
        if not is_older(present, epoch):
            return False
        logger.error(
            "%s: leader of epoch %s replaced: the cluster is at version %s, it was restored",
            self.store.stream,
            epoch,
            present,
        )
        return True

    def _move_to(self, position: str) -> None:
        stands, stood = (_WORDS.get(each, each) for each in (position, self.position))
        if stands == stood:
            logger.warning("%s: stands at %s, but not by our last commit", self.store.stream, stands)
        else:
            logger.warning("%s: stands at %s instead of %s", self.store.stream, stands, stood)
        self.position = position
