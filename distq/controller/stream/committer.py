"""Moves one stream's position in Redis, as the leader and only as the leader.

Compare-and-set on the batch before makes it safe to repeat a commit. The epoch, and the check of the lease
before each commit, stop a deposed leader early.
"""

import logging
import math
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, NamedTuple, Protocol, TypeVar, TypeVarTuple

from distq.clock import Clock
from distq.errors import LayoutTooNew, LeaseLost, RedisError, RedisRefused
from distq.informer.backoff import Backoff
from distq.informer.objects import is_older
from distq.informer.sink import PositionMoved
from distq.outage import Outage
from distq.redisio.checkpoints import MARK, step_of
from distq.redisio.commit import Commit
from distq.redisio.keys import bytes_of, text_of
from distq.redisio.limits import BATCH_LIMIT, OLD_OBJECTS
from distq.redisio.object_cache import CachedObject
from distq.redisio.records import StreamRecord
from distq.redisio.stream_store import Fenced, Mismatch, StreamStore, TooLarge

logger = logging.getLogger(__name__)

Asked = TypeVarTuple("Asked")
Answer = TypeVar("Answer")

TIME_INTERVAL = 60.0
"""Seconds between reads of the server's time; in between the local clock counts on."""

_WORDS = {"": "nothing", MARK: "the mark of a resync"}
"""Positions that are no versions, for the log: a resync by hand leaves the mark."""


class Known(NamedTuple):
    """The version up to which an object was handed over, None for never, and the keys other than its own."""

    version: str | None = None
    keys: Sequence[bytes] = ()

    @classmethod
    def parse(cls, line: str | None) -> "Known":
        """Read the known set's line: the version, then a key a line."""
        if line is None:
            return NEVER
        version, *keys = line.split("\n")
        return cls(version, list(map(bytes_of, keys)))

    def line(self) -> str:
        """Return the line that is stored."""
        return "\n".join((self.version or "", *map(text_of, self.keys)))


NEVER = Known()
"""Of an object that was never handed over."""


class Leadership(Protocol):
    """The term that a stream serves (``controller.term_work.Term``)."""

    identity: str
    epoch: str
    """The version of the Lease write that began the term."""
    began: float
    """When the term began, by the monotonic clock."""

    def may_act(self) -> bool:
        """Return whether the term was renewed so lately that no other process can lead."""


@dataclass(eq=False)
class Committer:
    """The position of one stream, and the only way to move it; load it first."""

    store: StreamStore
    leadership: Leadership
    clock: Clock
    stop: threading.Event
    _: KW_ONLY
    about: Callable[[], Mapping[str, Any]]
    """Returns the data that each commit leaves, beside its own, for people and for the next leader."""
    present_version: Callable[[], str]
    """Asks the cluster for its version now: it decides whether a higher epoch is a later leader, or one of
    a cluster that was since restored."""
    committed: Callable[[int], None]
    """Called after each commit with the number of keys that were not pending before."""
    span: Callable[[int], AbstractContextManager[str]]
    """Entered with the number of keys of a commit that is not empty; gives the link to it."""
    failed: Callable[[RedisError], None] = lambda _: None
    """Called with each error of Redis that is waited out."""
    parked_as: str = ""
    """The prefix of the names of dead objects."""
    delay: int = 0
    """µs after which keys become pending."""

    position: str = field(default="", init=False)
    """Where Redis is by our last commit, unless it ``moved``."""
    moved: bool = field(default=False, init=False)
    """Redis is elsewhere, by a commit that is not ours: nothing is committed until ``load``."""
    tried_at: float = field(default=-math.inf, init=False)
    """The monotonic time at which Redis was asked last."""
    committed_at: float = field(init=False)
    server_ahead: float = field(default=0.0, init=False)
    """Seconds by which the server's time is ahead of the monotonic clock, as asked within a minute."""
    _asked_time_at: float = field(default=0.0, init=False)
    _last_batch: str = field(default="", init=False)
    """The batch that must be the last one in Redis for the next one to be taken."""
    _listed: str = field(default="", init=False)
    """The version of a list whose pages are all in; see ``end_pages``."""
    _nonce: str = field(default_factory=lambda: uuid.uuid4().hex[:12], init=False)
    """Two Committers, of one process or two, must not name a batch alike."""
    _batches: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.committed_at = self.clock.monotonic()

    def load(self) -> StreamRecord | None:
        """Read the stream's record, and go on from its position."""
        self._ask_time()  # first: once the position is known, a refusal would write a report over the record
        record = self._ask(self.store.load)
        self.position, self._last_batch = (record.position, record.batch) if record else ("", "")
        self.moved = False
        return record

    def commit(self, change: Commit) -> None:
        """Move to another position, together with the changes.

        Raises PositionMoved if Redis is at another position, LeaseLost if another process leads, or the last
        RedisError if this one is to stop.
        """
        self._batches += 1
        # one name for all tries, so that a lost reply makes no second batch
        batch = f"{self._nonce}-{self._batches}"
        with nullcontext("") if change.is_empty else self.span(len(change.keys)) as link:
            commit = replace(
                change,
                epoch=self.leadership.epoch,
                after=self._last_batch,
                batch=batch,
                parked_as=self.parked_as,
                delay=self.delay,
                about={**self.about(), **change.about},
                link=link,
            )
            answer = self._ask(self.store.commit, commit)
            if isinstance(answer, Fenced) and self._outlived_its_cluster(answer.epoch):
                answer = self._ask(self.store.commit, replace(commit, replaces=answer.epoch))
            if isinstance(answer, Fenced):
                raise LeaseLost(f"{self.store.stream} belongs to a later leader, of epoch {answer.epoch}.")
            if isinstance(answer, Mismatch):
                self._move_to(answer.position)
                raise PositionMoved(answer.position)
        if isinstance(answer, TooLarge):
            for half in change.halves(self.step()):
                self.commit(half)
            return
        # a commit to "" removes the record, and its batch with it
        self.position, self._last_batch = change.new, batch if change.new else ""
        self.committed_at = self.clock.monotonic()
        self.committed(answer.added)

    def confirm(self, **about: Any) -> None:
        """Commit nothing but ``about``, to find out whether another leads or Redis is at another position."""
        if self.clock.monotonic() - self._asked_time_at >= TIME_INTERVAL:
            self._ask_time()
        if self.position:
            self.commit(Commit(new=self.position, about=about))

    def step(self) -> str:
        """Return a position that is another one, but resumes from the same checkpoint."""
        return step_of(self.position, f"{self._nonce}:{self._batches}", listed=self._listed)

    def begin_list(self, *, clear_cache: bool = False) -> None:
        """Begin a chain of commits that leaves the checkpoint where it is."""
        self._listed = ""
        self.commit(Commit(new=self.step(), clear_cache=clear_cache))

    def end_pages(self, version: str) -> None:
        """Let no write up to the list's version into the cache any more: the list would have shown it."""
        self._listed = version
        self.commit(Commit(new=self.step()))

    def known_of(self, names: Sequence[str]) -> list[Known]:
        """Return the known set's entries of these objects."""
        return list(map(Known.parse, self._in_parts(self.store.known_of, names, BATCH_LIMIT)))

    def handed_over(self, names: Sequence[str]) -> list[CachedObject]:
        """Return those of these objects that the cache has as they were handed over last."""
        return list(self._in_parts(self.store.handed_over, names, OLD_OBJECTS))

    def cached_of(self, names: Sequence[str]) -> list[CachedObject]:
        """Return those of these objects that the cache has, the fleet's own writes included."""
        return list(self._in_parts(self.store.cached_of, names, OLD_OBJECTS))

    def known_pages(self) -> Iterator[list[tuple[str, Known]]]:
        """Yield the known set, a page at a time, as it is at that moment; an object may come twice."""
        for page in self._asking(self.store.known_pages()):
            yield [(name, Known.parse(line)) for name, line in page]

    def cached_names(self) -> Iterator[list[str]]:
        """Yield the names of cached objects, a page at a time."""
        return self._asking(self.store.cached_names())

    def parked_names(self) -> Iterator[list[str]]:
        """Yield the names of objects that are parked under names that are no keys, a page at a time."""
        return self._asking(self.store.parked_names(self.parked_as)) if self.parked_as else iter(())

    def known_count(self) -> int:
        """Return the size of the known set."""
        return self._ask(self.store.known_count)

    def _asking(self, pages: Iterator[Answer]) -> Iterator[Answer]:
        self.tried_at = self.clock.monotonic()
        for page in pages:
            yield page
            self.tried_at = self.clock.monotonic()  # for each page: a long scan is no standstill

    def _ask_time(self) -> None:
        now = self._ask(self.store.now)
        self._asked_time_at = self.clock.monotonic()
        self.server_ahead = now - self._asked_time_at

    def _in_parts(
        self, ask: Callable[[Sequence[str]], list[Answer]], names: Sequence[str], size: int
    ) -> Iterator[Answer]:
        for start in range(0, len(names), size):
            yield from self._ask(ask, names[start : start + size])

    def _ask(self, question: Callable[[*Asked], Answer], *asked: *Asked) -> Answer:
        """Ask Redis until it answers, without a time limit, but only while this process leads."""
        backoff: Backoff | None = None
        outage: Outage | None = None
        while True:
            if not self.leadership.may_act():
                raise LeaseLost(f"{self.store.stream}: the lease was not renewed in time.")
            self.tried_at = self.clock.monotonic()
            try:
                answer = question(*asked)
            except LayoutTooNew:  # a wait does not help
                raise
            except RedisError as error:
                if self.stop.is_set():
                    raise
                self.failed(error)
                backoff = backoff or Backoff(self.clock, base=0.1, cap=5.0)
                outage = outage or Outage(self.store.stream, logger, self.clock)
                outage.failed(error)
                if isinstance(error, RedisRefused):
                    self._report()
                self.clock.wait(self.stop, backoff.delay())
            else:
                if outage is not None:
                    outage.over()
                return answer

    def _report(self) -> None:
        """Report to people that this process leads, with its error."""
        if self.position and self.leadership.may_act():  # the refusal may have come late
            batch = self._last_batch
            epoch, about = self.leadership.epoch, self.about()
            with suppress(RedisError):
                # the last batch after itself writes only ``about``: a full Redis takes no other commit
                self.store.commit(
                    Commit(new=self.position, epoch=epoch, after=batch, batch=batch, about=about)
                )

    def _outlived_its_cluster(self, epoch: str) -> bool:
        """Return whether an epoch is from the future of a cluster that was restored."""
        present = self.present_version()
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
        found, expected = (_WORDS.get(each, each) for each in (position, self.position))
        if position == MARK:
            logger.info(
                "%s: listing everything: a resync asked for it, or the cache is incomplete", self.store.stream
            )
        elif found == expected:
            logger.warning("%s: checkpoint %s is not by our last commit", self.store.stream, found)
        else:
            logger.warning(
                "%s: checkpoint mismatch: expected %s, found %s", self.store.stream, expected, found
            )
        self.position, self.moved = position, True
