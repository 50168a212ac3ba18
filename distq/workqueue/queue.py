"""The queue that many processes share (client-go util/workqueue RateLimitingInterface, through Redis)."""

import contextlib
from typing import Unpack

from distq.errors import ConfigError, RedisError
from distq.mistakes import suggesting_keywords
from distq.redisio.connection import Connection, shared_connection
from distq.workqueue.handle import QueueHandle
from distq.workqueue.options import QueueKeywords, QueueOptions
from distq.workqueue.redis_engine import RedisEngine
from distq.workqueue.redis_session import RedisSession


@suggesting_keywords(*QueueKeywords.__annotations__)
class Queue(QueueHandle):
    """A handle of a queue in Redis: deduplicated, prioritised, delayed, rate-limited, shared by processes.

    Safe for threads, and after a fork. Raises ConfigError.

    :param str name: The name of the queue: 1 to 63 letters, digits, dots, dashes and underscores.
    :param Connection | str | None redis: A Connection, or a URL. Default: None, the process's shared
        Connection.
    :param RateLimiter | None rate_limiter: Delays items that fail. Default: None, client-go's: 5 ms, doubled
        with each failure, 1000 s at most.
    :param int | None max_retries: Failures of an item that are retried, 0 or more; after the next one the
        item is dead. Default: None, all of them.
    :param Duration | None revive_dead_after: Seconds after which an item that failures or crashes made dead
        gets another attempt. Default: None, never.
    :param Duration claim_duration: Seconds of silence after which a process loses its claims, 1 or more. Keep
        it well above the pauses of your processes, and the same in all of them. Default: 30.
    :param int | None max_length: Items that may be ready, dirty or delayed; producers get QueueFull beyond.
        Default: None, no limit.
    :param str | None fair_by: Let the namespaces of a priority take turns, with "namespace"; a namespace is
        the text of a key before its first slash. It belongs to the queue, until a user changes it:
        then a handle with another value is refused at its first call. Default: None, as the queue is; a new
        one has client-go's order.
    :param int wait_replicas: Replicas of Redis that must have the items before ``add`` and ``add_after``
        return; else they raise NotReplicated (Redis WAIT). Default: 0.
    :param Duration wait_timeout: Seconds for which an add waits for the replicas, 4 at most. Default: 1.
    :param MetricsProvider | None metrics: Receives the metrics of this handle. Default: None, no metrics.
    :param SpanProvider | None spans: Receives the adds of this handle; claims then link to the spans that
        made their items pending. Default: None, no spans.
    :param Clock clock: The clock of this process's waits and deadlines; delays in Redis follow the server's
        clock. Default: SYSTEM_CLOCK.
    """

    _session: RedisSession

    def __init__(
        self,
        name: str,
        redis: Connection | str | None = None,
        **keywords: Unpack[QueueKeywords],
    ) -> None:
        options = QueueOptions.of(keywords)
        self._owns_connection = redis is not None
        self._connection = _connection(redis)
        super().__init__(name, RedisEngine(name, self._connection, options), options)

    @property
    def connection(self) -> Connection:
        """Return the connection to Redis; ``bind`` may replace it."""
        return self._connection

    def bind(self, connection: Connection) -> None:
        """Use this connection from now on, unless the queue was created with its own.

        Claims over the old connection are released, or lapse if Redis does not answer.
        """
        if self._owns_connection or connection is self._connection:
            return
        with contextlib.suppress(RedisError):
            self.close()
        self._connection = connection
        self._use(RedisEngine(self.name, connection, self._settings.options))


def _connection(redis: Connection | str | None) -> Connection:
    if redis is None:
        return shared_connection()
    if isinstance(redis, str):
        return Connection(redis)
    if not isinstance(redis, Connection):
        raise ConfigError(f"bad redis {redis!r:.80}. Give a Connection, a URL, or None for DISTQ_REDIS_URL.")
    return redis
