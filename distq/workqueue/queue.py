"""The queue that many processes share (client-go util/workqueue RateLimitingInterface, through Redis)."""

import contextlib
from typing import Unpack

from distq.errors import ConfigError, RedisError
from distq.redisio.connection import Connection, shared_connection
from distq.workqueue.handle import QueueHandle
from distq.workqueue.options import QueueKeywords, QueueOptions
from distq.workqueue.redis_engine import RedisEngine
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
        **keywords: Unpack[QueueKeywords],
    ) -> None:
        options = QueueOptions(**keywords)
        self._owns_connection = redis is not None
        self._connection = _connection(redis)
        super().__init__(name, RedisEngine(name, self._connection, options), options)

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
        self._use(RedisEngine(self.name, connection, self._settings.options))


def _connection(redis: Connection | str | None) -> Connection:
    if redis is None:
        return shared_connection()
    if isinstance(redis, str):
        return Connection(redis)
    if not isinstance(redis, Connection):
        raise ConfigError(f"bad redis {redis!r:.80}. Give a Connection, a URL, or None for DISTQ_REDIS_URL.")
    return redis
