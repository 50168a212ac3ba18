"""One process's view of the leader, timed by its own monotonic clock."""

from dataclasses import replace

from distq.leaderelection.lock import LeaderElectionRecord

UNKNOWN = "unknown"
"""The holder of a record that was deleted, or whose holder was erased."""

RELEASED = 1.0
"""Seconds that a released record holds, as client-go writes it; no followers wait for them."""


class Observation:
    """The last record received, and when. One thread at a time."""

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
        self.record, self._received_at = record, now  # the wall clock of its writer may be wrong
        return True

    def note_gone(self, now: float) -> None:
        """Note that there is no record."""
        if self.record is not None:  # its holder may not know yet, and still lead
            self.note(self._led_by_unknown(self.record), now)

    def remaining(self, now: float) -> float:
        """Return for how many seconds another process may still lead; 0 or less when none may."""
        if self.record is None or self.record.holder_identity in {"", self._identity}:
            return 0.0
        return self._received_at + (self.record.lease_duration or self._lease_duration) - now

    def _was_released(self, record: LeaderElectionRecord) -> bool:
        """Return whether a record without a holder is free: its holder released it, and no person erased it.

        After an erasure, the holder leads on until its next renewal.
        """
        if record.renew_time is None:  # an object that was made anew
            return self.record is None or not self.record.holder_identity
        # a release sets all three; an erasure leaves them, and both times are equal when a term begins, too
        return record.renew_time == record.acquire_time and record.lease_duration <= RELEASED

    def _led_by_unknown(self, record: LeaderElectionRecord) -> LeaderElectionRecord:
        known = self.record or record
        duration = max(record.lease_duration, known.lease_duration, self._lease_duration)
        return replace(record, holder_identity=UNKNOWN, lease_duration=duration)
