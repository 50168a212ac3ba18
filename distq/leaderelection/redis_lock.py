"""Keep the leader's record in Redis, for fleets that run without Kubernetes.

A record lives as long as the Redis: one that loses writes in a failover may have two leaders until the first
of them tries to renew. Its epoch is the lower one.
"""

import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from distq.errors import Conflict, RedisRefused
from distq.leaderelection.lock import LeaderElectionRecord, fields_of, new_identity, record_from
from distq.redisio.compare_and_set import CompareAndSetRecord, VersionedRecord
from distq.redisio.connection import Connection, shared_connection

POLL_INTERVAL = 0.1
"""Seconds between a follower's polls of the record; one read of a small hash each."""
POLL_TIMEOUT = 5.0

_TRANSITIONS = "leaderTransitions"
_logger = logging.getLogger(__name__)


class RedisLock:
    """Keep the record of the election ``name`` in Redis; not to be shared by electors.

    ``redis`` is a Connection, a URL, or None for the process's shared Connection. ``identity`` defaults to
    the host's name and a random part. Epochs are numbers that grow with each write, also over releases and,
    by the server's clock, over a Redis that lost some. That clock does not measure how long a process leads.
    """

    def __init__(
        self, name: str, redis: Connection | str | None = None, *, identity: str | None = None
    ) -> None:
        self._name = name
        self._identity = new_identity() if identity is None else identity
        connection = Connection(redis) if isinstance(redis, str) else redis
        self._connection = connection or shared_connection()
        self._store = CompareAndSetRecord(self._connection, name)
        self._seen = ""

    @property
    def identity(self) -> str:
        """Return this process's name in the record."""
        return self._identity

    def describe(self) -> str:
        """Return the election's name."""
        return self._name

    def get(self, *, timeout: float) -> LeaderElectionRecord | None:
        """Return the record, None if there is none."""
        found = self._store.load(timeout=timeout)
        self._seen = found.version if found else ""
        return self._read(found) if found else None

    def create(self, record: LeaderElectionRecord, *, timeout: float) -> LeaderElectionRecord:
        """Store the first record; raise Conflict if there is one."""
        return self._replace("", record, timeout)

    def update(self, record: LeaderElectionRecord, *, timeout: float) -> LeaderElectionRecord:
        """Replace the record last seen; raise Conflict if it is another one by now, or gone."""
        if not self._seen:
            raise Conflict(f"election {self._name}: not read yet. Get or create it first.", status=409)
        return self._replace(self._seen, record, timeout)

    @contextmanager
    def watch(self, on_record: Callable[[LeaderElectionRecord], None]) -> Iterator[None]:
        """Poll ten times a second, and call ``on_record`` from a thread with each record that is new."""
        closed = threading.Event()
        name = f"distq-election-watch-{self._name}"
        threading.Thread(target=self._poll, args=(on_record, closed), name=name, daemon=True).start()
        try:
            yield
        finally:
            closed.set()

    def record_event(self, message: str) -> None:
        """Do nothing: Redis has no events, and the elector logs."""

    def _poll(self, on_record: Callable[[LeaderElectionRecord], None], closed: threading.Event) -> None:
        # a store of its own: each keeps a connection for one timeout, and serves one thread
        store, seen = CompareAndSetRecord(self._connection, self._name), ""
        while not closed.wait(POLL_INTERVAL):
            try:
                found = store.load(timeout=POLL_TIMEOUT)
                if found is not None and found.version != seen and not closed.is_set():
                    seen = found.version
                    on_record(self._read(found))
            except Exception as error:  # noqa: BLE001 - the next poll may work; the elector's tries are loud
                _logger.debug("election %s: not polled: %s", self._name, error)
        store.close()

    def _replace(self, seen: str, record: LeaderElectionRecord, timeout: float) -> LeaderElectionRecord:
        fields = fields_of(record, transitions=_TRANSITIONS, precision="microseconds")
        written = self._store.replace(seen, json.dumps(fields, separators=(",", ":")), timeout=timeout)
        if written is None:
            raise Conflict(f"election {self._name}: the record changed.", status=409, reason="Conflict")
        self._seen = written.version
        return self._read(written)

    def _read(self, found: VersionedRecord) -> LeaderElectionRecord:
        try:
            int(found.version)  # raises if no elector wrote it
            return record_from(json.loads(found.record), version=found.version, transitions=_TRANSITIONS)
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise RedisRefused(
                f"election {self._name}: no record can be read in {self._store.key} ({error!r}). "
                "DEL that key: a candidate writes another."
            ) from error
