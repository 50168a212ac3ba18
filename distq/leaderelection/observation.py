"""What one process knows of the leader, timed by its own monotonic clock.

Wall clocks of others play no part: a record counts from the moment it was heard of.
"""

from dataclasses import replace

from distq.leaderelection.lock import LeaderElectionRecord

UNKNOWN = "unknown"
"""The holder of a record that was deleted."""


class Observation:
    """The last record heard of, and when; callers see to it that one thread at a time uses it."""

    def __init__(self, identity: str, lease_duration: float) -> None:
        self.record: LeaderElectionRecord | None = None
        self._identity = identity
        self._lease_duration = lease_duration
        self._heard_at = 0.0

    def note(self, record: LeaderElectionRecord, now: float) -> bool:
        """Keep a record if it is another than the last; return whether it is."""
        if record == self.record:
            return False
        self.record, self._heard_at = record, now
        return True

    def note_gone(self, now: float) -> None:
        """Keep that there is no record: who held it last need not know yet, so somebody may still lead."""
        if self.record is not None:
            duration = max(self.record.lease_duration, self._lease_duration)
            self.note(replace(self.record, holder_identity=UNKNOWN, lease_duration=duration), now)

    def remaining(self, now: float) -> float:
        """Return for how many seconds another process may still lead; 0 or less when none may."""
        if self.record is None or self.record.holder_identity in {"", self._identity}:
            return 0.0
        return self._heard_at + (self.record.lease_duration or self._lease_duration) - now
