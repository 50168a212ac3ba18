"""One process's view of the leader, timed by its own monotonic clock.

Wall clocks of others play no part: a record counts from the moment it was received.
"""

from dataclasses import replace

from distq.leaderelection.lock import LeaderElectionRecord

UNKNOWN = "unknown"
"""The holder of a record that was deleted, or whose holder was erased."""

RELEASED = 1.0
"""Seconds that a released record holds, as client-go writes it; no followers wait for them."""


class Observation:
    """The last record received, and when; callers see to it that one thread at a time uses it."""

    def __init__(self, identity: str, lease_duration: float) -> None:
        self.record: LeaderElectionRecord | None = None
        self._identity = identity
        self._lease_duration = lease_duration
        self._received_at = 0.0

    def note(self, record: LeaderElectionRecord, now: float) -> bool:
        """Keep a record if it is another than the last; return whether it is."""
        if not record.holder_identity and not self._was_released(record):
            record = self._led_by_unknown(record)
        if record == self.record:
            return False
        self.record, self._received_at = record, now
        return True

    def note_gone(self, now: float) -> None:
        """Keep that there is no record: its last holder may not know yet, and still lead."""
        if self.record is not None:
            self.note(self._led_by_unknown(self.record), now)

    def remaining(self, now: float) -> float:
        """Return for how many seconds another process may still lead; 0 or less when none may."""
        if self.record is None or self.record.holder_identity in {"", self._identity}:
            return 0.0
        return self._received_at + (self.record.lease_duration or self._lease_duration) - now

    def _was_released(self, record: LeaderElectionRecord) -> bool:
        """Return whether a record without a holder is free, and not one that people wrote to.

        A release sets both times to when it was, and the duration to a second. A person who erases the
        holder's name leaves them, and at the beginning of a term both times are the same, too; an object that
        was made anew has none. The holder does not know of it before its next renewal.
        """
        if record.renew_time is None:
            return self.record is None or not self.record.holder_identity
        return record.renew_time == record.acquire_time and record.lease_duration <= RELEASED

    def _led_by_unknown(self, record: LeaderElectionRecord) -> LeaderElectionRecord:
        known = self.record or record
        duration = max(record.lease_duration, known.lease_duration, self._lease_duration)
        return replace(record, holder_identity=UNKNOWN, lease_duration=duration)
