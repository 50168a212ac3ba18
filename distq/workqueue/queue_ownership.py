"""Ownership of a queue: two different programs on one queue would silently take each other's keys.

Each program writes its purpose to Redis before it reads those of the others. Of two programs that differ,
the later one claims nothing: its session ends, and a new session looks again. It gives up once the other has
shown a sign of life; the session of a dead one lapses.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from distq.clock import SYSTEM_CLOCK, Clock
from distq.errors import QueueTaken
from distq.redisio import queue_reads
from distq.redisio.queue_store import QueueStore
from distq.redisio.records import words_of
from distq.redisio.round_trips import Read, gather, run

if TYPE_CHECKING:
    from distq.workqueue.queue import Queue

LOOK_EVERY = 1.0
"""Seconds between looks while another program may work on the queue."""

_SILENCE = 30.0
"""Seconds without a sign of life after which a participant is gone: heartbeats are at most 10 s apart."""

_LONGEST_GAP = 5.0
"""The most seconds between two looks that count as silence: in an outage of Redis no sign can arrive."""

_WARN_EVERY = 60.0
"""Seconds between warnings while a program that has worked before waits."""

_logger = logging.getLogger("distq.queue")

_READ_ANEW = 60.0
"""Seconds after which a cluster's authorities are read again."""


@dataclass(frozen=True, slots=True)
class Purpose:
    """The program that a handle claims for, as its session describes it to others.

    ``resource`` is that of the Controller's For. ``cluster`` holds a fingerprint of each certificate
    authority of its API server; empty if they are unknown. ``lease`` is empty if the process competes for
    none. ``lease`` and ``watches`` may differ from one release to the next.
    """

    resource: str
    cluster: Sequence[str] = ()
    lease: str = ""
    watches: Sequence[str] = ()

    @classmethod
    def parse(cls, about: Any) -> Self | None:
        """Read it from a description; None if that has no readable purpose, as in 0.1.0."""
        fields = about.get("purpose") if isinstance(about, dict) else None
        if not isinstance(fields, dict) or (resource := words_of(fields.get("resource"))) is None:
            return None
        cluster, watches = (
            tuple(map(str, fields.get(name) or ())) if isinstance(fields.get(name), list) else ()
            for name in ("cluster", "watches")
        )
        return cls(resource, cluster, str(fields.get("lease") or ""), watches)

    def about(self) -> dict[str, Any]:
        """Return its part of a description."""
        return {"purpose": {name: getattr(self, name) for name in self.__slots__}}

    def differs_from(self, other: Self) -> bool:
        """Return whether one's keys have no meaning for the other; an unknown field is no difference.

        Nor is another version of the resource. One common authority means the same cluster: during a
        replacement the cluster has both.
        """
        return self.group_kind != other.group_kind or (
            bool(self.cluster and other.cluster) and not {*self.cluster} & {*other.cluster}
        )

    @property
    def group_kind(self) -> tuple[str, str]:
        """Return the part that all versions of the resource share."""
        api_version, _, kind = self.resource.rpartition("/")
        return api_version.rpartition("/")[0], kind

    def __str__(self) -> str:
        cluster = f" of cluster {', '.join(self.cluster[:2])}" if self.cluster else ""
        return f"{self.resource:.100}{cluster:.60}"


class PresentPurpose:
    """A purpose that reads the cluster's authorities again now and then: they may be replaced."""

    def __init__(
        self, purpose: Purpose, authorities: Callable[[], Sequence[str]], clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._authorities = authorities
        self._clock = clock
        self._purpose = replace(purpose, cluster=authorities())
        self._read_at = clock.monotonic()

    def __call__(self) -> Purpose:
        """Return the purpose, at most a minute old."""
        now = self._clock.monotonic()
        if now - self._read_at >= _READ_ANEW:
            self._read_at = now
            self._purpose = replace(self._purpose, cluster=self._authorities())
        return self._purpose


@dataclass(frozen=True, slots=True)
class Participant:
    """A worker or leader on a queue, with its purpose. Its ``sign`` changes as long as it lives."""

    who: str
    purpose: Purpose
    sign: object


class QueueOwnership:
    """Lets one handle or informer work on a queue once it has checked the others on it."""

    def __init__(self, store: QueueStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._allowed: str | None = None
        """The session that may claim."""
        self._has_worked = False
        """Whether a look has let this program work; then it waits for a rival, and does not give up."""
        self.rivals: dict[str, Participant] = {}
        """The rivals of the last look, as they were when first seen; empty if this program may work."""
        self.refusal: QueueTaken | None = None
        """Set once another program works on the queue: from then on calls that want claims raise it."""
        self._silence = self._looked_at = self._warned_at = 0.0
        self._mentioned = False

    def allows(self, session: str, purpose: Callable[[], Purpose] | None) -> bool:
        """Return whether this session may claim: without a purpose, or once it has checked the others."""
        if purpose is None or self._allowed == session:
            return True
        try:
            # numbers of sessions grow: of two programs that begin at once the later one gives way
            if self.look(purpose(), before=int(session.partition("-")[0])):
                self._allowed = session
        except QueueTaken as error:
            self.refusal = error
        return self._allowed == session

    def look(self, purpose: Purpose, *, before: int | None = None) -> bool:
        """Return whether no participant, of those that began ``before`` that session, has another purpose.

        Raises QueueTaken if such a rival shows a sign of life, unless this program has worked before: then
        it waits.
        """
        others = dict(self._participants(before))
        found = {name: other for name, other in others.items() if other.purpose.differs_from(purpose)}
        now = self._clock.monotonic()
        self._silence += min(now - self._looked_at, _LONGEST_GAP)
        self._looked_at = now
        if found and not self.rivals:
            self._silence, self._warned_at = 0.0, -_WARN_EVERY
        if found:
            self._face(found, purpose, now)
            if self._silence < _SILENCE:
                return False
        self.rivals = {}
        self._has_worked = True
        self._mention(others, purpose)
        return True

    def _face(self, found: Mapping[str, Participant], purpose: Purpose, now: float) -> None:
        """Warn of rivals; raise QueueTaken if one shows a sign of life."""
        first = self.rivals
        living = [each for name, each in found.items() if name in first and each.sign != first[name].sign]
        self.rivals = dict(found) | {name: first[name] for name in found if name in first}
        if living and not self._has_worked:
            raise QueueTaken(_taken(self._store.name, living[0], purpose))
        if living:  # it may stay for long: count its silence from here
            self.rivals, self._silence = dict(found), 0.0
        if now - self._warned_at >= _WARN_EVERY:
            self._warned_at = now
            rival = next(iter(living or found.values()))
            _logger.warning(
                "queue %s: claiming nothing: %s is on it for %s, this process for %s",
                self._store.name,
                rival.who,
                rival.purpose,
                purpose,
            )

    def _mention(self, others: Mapping[str, Participant], purpose: Purpose) -> None:
        """Warn once of a participant with the same purpose but another Lease or other watches."""
        for other in others.values():
            theirs = other.purpose
            other_lease = bool(theirs.lease and purpose.lease) and theirs.lease != purpose.lease
            other_watches = theirs.watches != purpose.watches
            if self._mentioned or not (other_lease or other_watches):
                continue
            self._mentioned = True
            _logger.warning(
                "queue %s: %s has %s, this process %s; fine in a rolling update, else use %s",
                self._store.name,
                other.who,
                _differences(theirs, lease=other_lease, watches=other_watches),
                _differences(purpose, lease=other_lease, watches=other_watches),
                "another queue" if other_watches else "one --lease-name (DISTQ_LEASE_NAME) for both",
            )

    def _participants(self, before: int | None) -> Iterator[tuple[str, Participant]]:
        """Yield the participants with a purpose: sessions, and leaders that feed the queue."""
        connection = self._store.connection
        reads: list[Read[Any]] = [queue_reads.worker_records(self._store), queue_reads.streams(self._store)]
        workers, streams = run(connection, gather(reads))
        for number, about in workers.items():
            purpose = Purpose.parse(about)
            if purpose is not None and (before is None or number < before):
                yield str(number), Participant(_worker(about), purpose, about)
        now: float | None = None  # asked for once a stream has a purpose: that takes a round trip
        for name, record in streams.items():
            purpose = Purpose.parse(record.about)
            if purpose is None:
                continue
            now = connection.now() if now is None else now
            if record.gone_since(now) is None:
                leader = f"the informer {record.about.get('leader')!s:.80}"
                yield name, Participant(leader, purpose, record)


class QueueOwnerships:
    """Keeps an informer from queues on which another program works."""

    def __init__(self, queues: "Sequence[Queue]") -> None:
        self._of_each = [
            (queue.purpose, QueueOwnership(QueueStore(queue.connection, queue.name), SYSTEM_CLOCK))
            for queue in queues
            if queue.purpose is not None
        ]

    def may_feed(self) -> bool:
        """Return whether no rival is on the queues. Raises QueueTaken, RedisError."""
        return all(ownership.look(purpose()) for purpose, ownership in self._of_each)


def _worker(about: Mapping[str, Any]) -> str:
    return f"{about.get('id')!s:.80} (pid {about.get('pid')!s:.10} on {about.get('host')!s:.80})"


def _differences(purpose: Purpose, *, lease: bool, watches: bool) -> str:
    parts = [f"the Lease {purpose.lease:.80}"] if lease else []
    parts += [f"watches {', '.join(purpose.watches):.200}"] if watches else []
    return " and ".join(parts)


def _taken(queue: str, other: Participant, purpose: Purpose) -> str:
    return (
        f"queue {queue} is taken: {other.who} is on it for {other.purpose}, this process for {purpose}. "
        "Give the queue another name, each installation its DISTQ_PREFIX, or the Controller shared=True."
    )
