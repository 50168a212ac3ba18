"""The leader's record, and the interface of the store that keeps it for a LeaderElector.

A lock stores one record, and replaces it only if no other process did. The elector has the algorithm, and
measures time.
"""

import math
import secrets
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

from distq.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class LeaderElectionRecord:
    """The leader, since when it leads, and for how long each renewal holds.

    Source: client-go tools/leaderelection/resourcelock LeaderElectionRecord.
    """

    holder_identity: str = ""
    """The leader's name; empty when the lease was released."""

    lease_duration: float = 0.0
    """Seconds that a renewal holds; 0 when the record does not have it."""

    acquire_time: datetime | None = None
    """When the term began, by the leader's wall clock."""

    renew_time: datetime | None = None
    """When the leader renewed last, by its wall clock; others use only its changes."""

    leader_transitions: int = 0
    """How often the leader changed; starts again when the record is deleted, so it is no fencing token."""

    version: str = field(default="", compare=False)
    """The store's version of this record: strictly increasing, and other writes may move it too."""


def new_identity() -> str:
    """Return the host's name and a random part: two processes of one identity would both lead."""
    return f"{socket.gethostname()}_{secrets.token_hex(8)}"


class Lock(Protocol):
    """Keep one LeaderElectionRecord.

    Reads and writes raise ApiError or RedisError when they fail or take longer than ``timeout`` seconds, and
    return the record as the store has it, with its version.

    Source: client-go tools/leaderelection/resourcelock Interface.
    """

    @property
    def identity(self) -> str:
        """Return this process's name in records; no other process has it."""

    def describe(self) -> str:
        """Return the lock's name for people, e.g. ``prod/distq-foos``."""

    def get(self, *, timeout: float) -> LeaderElectionRecord | None:
        """Return the record, None if there is none."""

    def create(self, record: LeaderElectionRecord, *, timeout: float) -> LeaderElectionRecord:
        """Store the first record; raise Conflict if there is one."""

    def update(self, record: LeaderElectionRecord, *, timeout: float) -> LeaderElectionRecord:
        """Replace the record last read or written here; raise Conflict if it is another one by now."""

    def watch(self, on_record: Callable[[LeaderElectionRecord], None]) -> AbstractContextManager[None]:
        """Call ``on_record`` from another thread with each new record, as well as the store reports them."""

    def record_event(self, message: str) -> None:
        """Record an event about the lock; may raise."""


MOST_TRANSITIONS = 2**31 - 1
"""The largest number that a Lease can hold; counts stop there, since the API server refuses a greater one."""


def record_from(fields: Mapping[str, Any], *, version: str, transitions: str) -> LeaderElectionRecord:
    """Read a record from its fields as client-go names them, of any writer; absent and null ones are empty.

    ``transitions`` is the name of the field that counts changes; it differs by lock. Raises TypeError or
    ValueError if they are no record.
    """
    # other writers may have numbers as text
    holder, duration = fields.get("holderIdentity") or "", float(fields.get("leaseDurationSeconds") or 0)
    if not isinstance(holder, str):
        raise TypeError(f"holderIdentity is {holder!r:.80}, no text")
    changes = float(fields.get(transitions) or 0)
    for name, number in (("leaseDurationSeconds", duration), (transitions, changes)):
        if not math.isfinite(number):  # Python's JSON has NaN, which ends at once, and Infinity
            raise ValueError(f"{name} is {number}")
    return LeaderElectionRecord(
        holder_identity=holder,
        lease_duration=duration,
        acquire_time=_parse(fields.get("acquireTime")),
        renew_time=_parse(fields.get("renewTime")),
        leader_transitions=int(changes),
        version=version,
    )


def fields_of(
    record: LeaderElectionRecord, *, transitions: str, precision: Literal["seconds", "microseconds"]
) -> dict[str, Any]:
    """Return a record's fields as client-go names them; the duration is in whole seconds."""

    def text(time: datetime | None) -> str | None:
        if time is None:
            return None
        # the API server refuses other than six decimals in a Lease, and any where it wants seconds
        return time.astimezone(UTC).isoformat(timespec=precision).replace("+00:00", "Z")

    return {
        "holderIdentity": record.holder_identity,
        # up: followers must not come before the leader's renew deadline
        "leaseDurationSeconds": math.ceil(record.lease_duration),
        "acquireTime": text(record.acquire_time),
        "renewTime": text(record.renew_time),
        transitions: min(record.leader_transitions, MOST_TRANSITIONS),
    }


def _parse(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


_competing: set[int] = set()
_competing_lock = threading.Lock()


@contextmanager
def exclusive(lock: Lock) -> Iterator[None]:
    """Keep other electors of this process off a lock. Raises ConfigError if one competes for it already."""
    with _competing_lock:
        if id(lock) in _competing:  # its record would name both, and each would take it for its own
            raise ConfigError(
                f"bad leader election: {lock.describe()} is competed for with this lock already. Give each "
                "elector a lock of its own, and run it once at a time."
            )
        _competing.add(id(lock))
    try:
        yield
    finally:
        _competing.discard(id(lock))
