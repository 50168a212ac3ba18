"""A place for a leader's record that a test decides over, for tests of what happens to leaders."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from distq.errors import Conflict
from distq.leaderelection.lock import LeaderElectionRecord


@dataclass
class _Store:
    """One record, and who watches it."""

    mutex: threading.RLock = field(default_factory=threading.RLock)
    version: int = 0
    record: LeaderElectionRecord | None = None
    receivers: list[Callable[[LeaderElectionRecord], None]] = field(default_factory=list)


class FakeLock:
    """A Lock in memory (``distq.leaderelection.Lock``); versions count from 1.

    ``rival_of`` is a FakeLock whose record this one competes for. ``failures`` are raised by the next calls,
    one each; while it is ``unreachable``, all fail with that error. ``asked`` notes the calls, ``events``
    what was reported to people.
    """

    def __init__(self, identity: str = "me", *, rival_of: "FakeLock | None" = None) -> None:
        self.failures: list[Exception] = []
        self.unreachable: Exception | None = None
        self.asked: list[str] = []
        self.events: list[str] = []
        self._identity = identity
        self._store: _Store = _Store() if rival_of is None else rival_of._store  # noqa: SLF001  one class
        self._seen = 0

    # What happens to the record

    @property
    def record(self) -> LeaderElectionRecord | None:
        """The record; a test sets it as another process would, or to None to delete it."""
        return self._store.record

    @record.setter
    def record(self, record: LeaderElectionRecord | None) -> None:
        self._put(record)

    # What a LeaderElector asks

    @property
    def identity(self) -> str:
        """Return who competes."""
        return self._identity

    def describe(self) -> str:
        """Return a name."""
        return "fake"

    def get(self, *, timeout: float) -> LeaderElectionRecord | None:  # noqa: ARG002 - answers at once
        """Return the record, or None."""
        self._answer("get")
        with self._store.mutex:
            self._seen = self._store.version
            return self._store.record

    def create(self, record: LeaderElectionRecord, *, timeout: float) -> LeaderElectionRecord:  # noqa: ARG002
        """Store the first record."""
        self._answer("create")
        with self._store.mutex:
            if self._store.record is not None:
                raise Conflict("fake: there is a record", status=409)
            return self._write(record)

    def update(self, record: LeaderElectionRecord, *, timeout: float) -> LeaderElectionRecord:  # noqa: ARG002
        """Replace the record that this lock saw last."""
        self._answer("update")
        with self._store.mutex:
            if self._store.record is None or self._store.version != self._seen:
                raise Conflict("fake: the record changed", status=409)
            return self._write(record)

    @contextmanager
    def watch(self, on_record: Callable[[LeaderElectionRecord], None]) -> Iterator[None]:
        """Call ``on_record`` with the record, from the thread that writes it."""
        self._store.receivers.append(on_record)
        try:
            yield
        finally:
            self._store.receivers.remove(on_record)

    def record_event(self, message: str) -> None:
        """Note the message."""
        self.events.append(message)

    def _answer(self, call: str) -> None:
        self.asked.append(call)
        if self.unreachable is not None:
            raise self.unreachable
        if self.failures:
            raise self.failures.pop(0)

    def _write(self, record: LeaderElectionRecord) -> LeaderElectionRecord:
        self._put(record)
        self._seen = self._store.version
        return replace(record, version=str(self._seen))

    def _put(self, record: LeaderElectionRecord | None) -> None:
        with self._store.mutex:
            self._store.version += 1
            stored = record and replace(record, version=str(self._store.version))
            self._store.record = stored
        for receive in list(self._store.receivers):
            if stored is not None:
                receive(stored)
