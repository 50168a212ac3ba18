"""RQ with its SimpleWorker, which works in its own process where the default forks for each job."""

import logging
from collections.abc import Iterable, Sequence

import rq
from redis import Redis

from benchmarks.peers import QUEUE, Handle

_handles: list[Handle] = []


def task(key: str) -> None:
    """Handle a key; found by name."""
    _handles[0](key)


class Rq:
    """RQ's queue; what a job returned is not kept."""

    def __init__(self, url: str) -> None:
        self._connection = Redis.from_url(url)
        self._queue = rq.Queue(QUEUE, connection=self._connection)

    def add_each(self, keys: Iterable[str]) -> None:
        """Enqueue."""
        for key in keys:
            self._queue.enqueue(task, key, result_ttl=0)

    def add_many(self, keys: Sequence[str]) -> None:
        """Enqueue in one pipeline."""
        self._queue.enqueue_many([rq.Queue.prepare_data(task, (key,), result_ttl=0) for key in keys])

    def work(self, handle: Handle) -> None:
        """Work without a log line a job."""
        logging.getLogger("rq").setLevel(logging.WARNING)
        _handles.append(handle)
        rq.SimpleWorker([self._queue], connection=self._connection).work(logging_level="WARNING")


def connect(url: str, _: str) -> Rq:
    """Return RQ."""
    return Rq(url)
