"""The queue that many processes share (client-go util/workqueue RateLimitingInterface, through Redis)."""

import contextlib

from distq.clock import SYSTEM_CLOCK, Clock
from distq.errors import ConfigError, RedisError
from distq.metrics import MetricsProvider
from distq.redisio.connection import Connection, shared_connection
from distq.spans import SpanProvider
from distq.workqueue.arguments import require_replication
from distq.workqueue.handle import QueueHandle
from distq.workqueue.rate_limiters import RateLimiter
from distq.workqueue.redis_engine import RedisEngine, Replication
from distq.workqueue.redis_session import RedisSession


class Queue(QueueHandle):
    """A handle of a queue in Redis: deduplicated, prioritised, delayed, rate-limited, shared by processes.

    ``redis`` is a Connection, a URL, or None for the process's shared one. ``max_retries`` failures
    park an item, None never does. ``revive_dead_after`` seconds after failures or crashes parked it, it gets
    another attempt; None is never. A process that is silent for ``claim_duration`` seconds loses its claims;
    keep it well above the pauses of your processes, and the same in all of them. Producers get
    QueueFull beyond ``max_length`` items ready, dirty or delayed. With ``wait_replicas`` an ``add`` or
    ``add_after`` that returns is on as many replicas of Redis, or raises NotReplicated after
    ``wait_timeout`` seconds (Redis WAIT). ``metrics`` receives what this handle does, ``spans`` its
    adds, and claims link to who made their items pending. Safe for threads, and after a fork.
    """

    _session: RedisSession

    def __init__(
        self,
        name: str,
        redis: Connection | str | None = None,
        *,
        rate_limiter: RateLimiter | None = None,
        max_retries: int | None = None,
        revive_dead_after: float | None = None,
        claim_duration: float = 30.0,
        max_length: int | None = None,
        wait_replicas: int = 0,
        wait_timeout: float = 1.0,
        metrics: MetricsProvider | None = None,
        spans: SpanProvider | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._owns_connection = redis is not None
        self._connection = _connection(redis)
        require_replication(wait_replicas, wait_timeout)
        self._replication = Replication(wait_replicas, wait_timeout) if wait_replicas else None
        super().__init__(
            name,
            RedisEngine(name, self._connection, clock, self._replication),
            rate_limiter=rate_limiter,
            max_retries=max_retries,
            revive_dead_after=revive_dead_after,
            claim_duration=claim_duration,
            max_length=max_length,
            metrics=metrics,
            spans=spans,
            clock=clock,
        )

    @property
    def connection(self) -> Connection:
        """Return the way to Redis that this queue uses."""
        return self._connection

    def bind(self, connection: Connection) -> None:
        """Use this connection from now on, unless the queue was made with one of its own.

        What the handle still holds elsewhere is released, or lapses where Redis does not answer.
        """
        if self._owns_connection or connection is self._connection:
            return
        with contextlib.suppress(RedisError):
            self.close()
        self._connection = connection
        self._use(RedisEngine(self.name, connection, self._clock, self._replication))


def _connection(redis: Connection | str | None) -> Connection:
    if redis is None:
        return shared_connection()
    if isinstance(redis, str):
        return Connection(redis)
    if not isinstance(redis, Connection):
        raise ConfigError(f"bad redis {redis!r:.80}. Give a Connection, a URL, or None for DISTQ_REDIS_URL.")
    return redis
