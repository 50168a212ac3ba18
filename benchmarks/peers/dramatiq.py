"""dramatiq with eight threads, which fetch 256 messages ahead."""

import os
import threading
from collections.abc import Iterable, Sequence

os.environ["dramatiq_queue_prefetch"] = "256"  # noqa: SIM112 - its name, read when it is imported

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from benchmarks.peers import QUEUE, Handle, NoBulk

THREADS = 8


class Dramatiq:
    """An actor on a queue in Redis, with the middleware that it has by itself."""

    def __init__(self, url: str) -> None:
        self._broker = RedisBroker(url=url)
        dramatiq.set_broker(self._broker)
        self._handle: Handle | None = None
        self._actor = dramatiq.actor(actor_name="task", queue_name=QUEUE)(self._handled)

    def _handled(self, key: str) -> None:
        assert self._handle is not None
        self._handle(key)

    def add_each(self, keys: Iterable[str]) -> None:
        """Send."""
        for key in keys:
            self._actor.send(key)

    def add_many(self, _: Sequence[str]) -> None:
        """Raise NoBulk."""
        raise NoBulk

    def work(self, handle: Handle) -> None:
        """Run a worker."""
        self._handle = handle
        dramatiq.Worker(self._broker, worker_threads=THREADS).start()
        threading.Event().wait()


def connect(url: str, _: str) -> Dramatiq:
    """Return dramatiq."""
    return Dramatiq(url)
