"""The keys of one stream among those of its queue."""

from distq.redisio.connection import Connection
from distq.redisio.queue_store import QueueStore

OF_A_STREAM = ("known", "cache", "terms", "index")


class StreamKeys(QueueStore):
    """A queue whose known set, cache and index are those of one stream."""

    def __init__(self, connection: Connection, queue: str, stream: str, *, fair_by: str = "") -> None:
        super().__init__(connection, queue, fair_by=fair_by, is_refused=False)
        self.stream = stream

    def key(self, name: str) -> str:
        """Return the Redis key of a structure named as in ``keys``."""
        return super().key(f"{name}:{self.stream}" if name in OF_A_STREAM else name)
