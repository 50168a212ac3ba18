"""Whether this process reaches Redis, asked beside its work: a leader that does not feeds nothing."""

from collections.abc import Iterator, Sequence

from distq.clock import SYSTEM_CLOCK, Clock
from distq.errors import DistqError, RedisUnavailable
from distq.redisio.connection import Connection
from distq.redisio.queue_store import QueueStore
from distq.workqueue.queue import Queue

LOOK_EVERY = 1.0
"""Seconds between two looks."""

LOOK_TIMEOUT = 1.0
"""Seconds that a server gets to answer a look."""


class RedisHealthProbe:
    """Asks the servers that hold the queues whether they answer; one thread looks, any may read the result.

    Without queues the silence is 0.
    """

    def __init__(self, queues: Sequence[Queue], clock: Clock = SYSTEM_CLOCK) -> None:
        self._asked = list(_connections(queues))
        self._clock = clock
        self._silent_since: float | None = None

    @property
    def silence(self) -> float:
        """Return for how many seconds no server has answered; 0 while one does.

        It counts from the first look that failed, so a process that was frozen found no silence.
        """
        since = self._silent_since
        return 0.0 if since is None else self._clock.monotonic() - since

    def look(self) -> None:
        """Ask the servers one after another until one answers."""
        began = self._clock.monotonic()
        if not self._asked or any(_answers(connection, key) for connection, key in self._asked):
            self._silent_since = None
        elif self._silent_since is None:
            self._silent_since = began

    def close(self) -> None:
        """Close its connections."""
        for connection, _ in self._asked:
            connection.close()


def _connections(queues: Sequence[Queue]) -> Iterator[tuple[Connection, str]]:
    """Yield a connection for each Redis and a key there; in a cluster a key of each queue."""
    with_short_timeouts: dict[int, Connection] = {}
    for queue in queues:
        present = queue.connection
        if id(present) in with_short_timeouts and not present.is_cluster:
            continue
        connection = with_short_timeouts.setdefault(id(present), present.with_timeout(LOOK_TIMEOUT))
        yield connection, QueueStore(present, queue.name).key("streams")


def _answers(connection: Connection, key: str) -> bool:
    try:
        connection.execute("PING", near=key)
    except DistqError as error:
        # a refusal is an answer, and so is that of an unfit server: any other leader would get the same
        return not isinstance(error, RedisUnavailable)
    return True
