"""What a LeaderElector asks of the place where the leader's record is kept.

A lock stores one record and replaces it only when no other process did meanwhile; the
election itself, time included, is the elector's.
"""

import secrets
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol


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
    """When the leader renewed last, by its wall clock; only its changes mean something to others."""

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
        """Return the record, or None where there is none."""

    def create(self, record: LeaderElectionRecord, *, timeout: float) -> LeaderElectionRecord:
        """Store the first record; raise Conflict if there is one."""

    def update(self, record: LeaderElectionRecord, *, timeout: float) -> LeaderElectionRecord:
        """Replace the record last read or written here; raise Conflict if it is another one by now."""

    def watch(self, on_record: Callable[[LeaderElectionRecord], None]) -> AbstractContextManager[None]:
        """Call ``on_record`` from another thread with each new record, as well as the store reports them."""

    def record_event(self, message: str) -> None:
        """Record an event about the lock; may raise."""
