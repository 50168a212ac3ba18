"""The engine of queues in Redis: each operation is one of the scripts in ``redisio/lua``, or a plain read."""

from collections.abc import Sequence
from typing import Any

from distq.errors import NotReplicated
from distq.redisio import queue_reads
from distq.redisio.connection import Connection
from distq.redisio.queue_store import QueueStore
from distq.workqueue.engine import TurnSettings
from distq.workqueue.options import QueueOptions
from distq.workqueue.redis_session import RedisSession


class RedisEngine:
    """One queue in Redis. See ``Engine``."""

    def __init__(self, name: str, connection: Connection, options: QueueOptions) -> None:
        self._store = QueueStore(connection, name, fair_by=options.fair_by or "")
        self._replicas, self._wait_timeout = options.wait_replicas, options.wait_timeout

    def session(self, settings: TurnSettings) -> RedisSession:
        """Return a session for one handle."""
        return RedisSession(self._store, settings)

    def add(
        self, keys: Sequence[bytes], *, priority: int, delay: int, max_length: int | None, link: str = ""
    ) -> tuple[int, int]:
        """Make keys pending, now or after ``delay`` µs; return how many were not, and how many fitted."""
        inputs: dict[str, Any] = {
            "priority": str(priority),
            "max_length": "" if max_length is None else str(max_length),
        }
        inputs |= {"delay": str(delay)} if delay > 0 else {"link": link}
        script = "add_after" if delay > 0 else "add"
        if not self._replicas:
            new, fitted = self._store.run(script, items=keys, **inputs)
            return new, fitted
        (new, fitted), seen_by = self._store.run_and_wait(
            script, self._replicas, self._wait_timeout, items=keys, **inputs
        )
        if seen_by < self._replicas:
            raise NotReplicated(
                f"queue {self._store.name}: added, but within {self._wait_timeout:g} s seen by {seen_by} of "
                f"{self._replicas} replicas: a failover now may lose it. Add it again, and look at them.",
                added=new,
                accepted=fitted,
                replicas=seen_by,
            )
        return new, fitted

    def forget(self, key: bytes) -> None:
        """Drop the key's failure record, unless it is dead."""
        self._store.run("forget", items=[key])

    # Reads

    def num_requeues(self, key: bytes) -> int:
        """Return how many failures the key has."""
        return queue_reads.failure_count(self._store, key)

    def is_dirty(self, key: bytes) -> bool:
        """Return whether the key was added again while claimed."""
        return queue_reads.is_dirty(self._store, key)

    def depth(self) -> int:
        """Return how many items wait now: ready, dirty, and delayed ones that are due."""
        return queue_reads.depth(self._store)
