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

    ``redis`` is a Connection, a URL, or None for the process's shared one. An item that fails more than
    ``max_retries`` times is dead; None retries for ever. ``revive_dead_after`` seconds after failures or
    crashes made it dead, it gets another attempt; None is never. A process that is silent for
    ``claim_duration`` seconds loses its claims; keep it well above the pauses of your processes, and the same
    in all of them. Producers get QueueFull beyond ``max_length`` items ready, dirty or delayed. With
    ``wait_replicas``, ``add`` and ``add_after`` return once so many replicas of Redis have the items, or
    raise NotReplicated after ``wait_timeout`` seconds (Redis WAIT). ``metrics`` receives this handle's
    metrics, ``spans`` its adds; claims then link to the spans that made their items pending. Safe for
    threads, and after a fork.
    """

    _session: RedisSession

    def __init__(
        self,
        name: str,
        redis: Connection | str | None = None,
        **keywords: Unpack[QueueKeywords],
    ) -> None:
        options = QueueOptions(**keywords)
        self._owns_connection = redis is not None
        self._connection = _connection(redis)
        super().__init__(name, RedisEngine(name, self._connection, options), options)

    @property
    def connection(self) -> Connection:
        """Return the connection to Redis."""
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
