"""Producers and workers that go on through what happens to their Redis, and an account of what they did."""

import contextlib
import threading
import time
from types import TracebackType
from typing import Self

from distq.errors import DistqError, RedisUnavailable
from distq.redisio.connection import Connection
from distq.workqueue.queue import Queue
from tests.support.eventually import eventually


class FleetUnderLoad:
    """A context in which threads add and process, each with connections of its own, on one queue.

    Each key is added once, and counts as acknowledged when ``add`` has returned.
    """

    def __init__(self, url: str, *, queue: str = "foos", workers: int = 3, producers: int = 2) -> None:
        self._url = url
        self._name = queue
        self._stopped = threading.Event()
        self._connections: list[Connection] = []
        self._queues: list[Queue] = []
        self._threads = [
            *(
                threading.Thread(target=self._produce, args=(number,), daemon=True)
                for number in range(producers)
            ),
            *(threading.Thread(target=self._work, daemon=True) for _ in range(workers)),
        ]
        self.acknowledged: dict[str, float] = {}
        self.processed: dict[str, float] = {}
        self.errors: list[Exception] = []

    def wait_for_progress(self) -> None:
        """Wait until something that is added from now on is processed."""
        known = len(self.acknowledged)
        eventually(lambda: len(self.acknowledged) > known + 20)
        fresh = list(self.acknowledged)[known + 1 :]
        eventually(lambda: any(key in self.processed for key in fresh))

    def finish(self) -> list[str]:
        """Process what is left and return the acknowledged keys that never were; raise what went wrong."""
        connection = Connection(self._url)
        queue = Queue(self._name, connection)
        quiet_since = time.monotonic()
        while time.monotonic() < quiet_since + 2:
            with contextlib.suppress(RedisUnavailable):
                for request in queue.turn([], 100).requests:
                    self.processed[request.key] = time.monotonic()
                    queue.settle(request)
                    quiet_since = time.monotonic()
                if queue.connection.execute("ZCARD", f"distq:{{{self._name}}}:processing"):
                    quiet_since = time.monotonic()  # a session that is not closed lapses
            time.sleep(0.05)
        queue.close()
        connection.close()
        if self.errors:
            raise self.errors[0]
        return [key for key in self.acknowledged if key not in self.processed]

    def _queue(self) -> Queue:
        connection = Connection(self._url)
        queue = Queue(self._name, connection, claim_duration=6.0)
        self._connections.append(connection)
        self._queues.append(queue)
        return queue

    def _produce(self, number: int) -> None:
        queue, count = self._queue(), 0
        while not self._stopped.wait(0.002):
            key = f"{number}/{count}"
            try:
                queue.add(key)
            except RedisUnavailable:
                continue
            except Exception as error:  # noqa: BLE001  the test raises it
                self.errors.append(error)
                return
            self.acknowledged[key] = time.monotonic()
            count += 1

    def _work(self) -> None:
        queue = self._queue()
        try:
            for request in queue.listen():
                self.processed[request.key] = time.monotonic()
                with contextlib.suppress(RedisUnavailable):
                    queue.settle(request)
        except Exception as error:  # noqa: BLE001  the test raises it
            self.errors.append(error)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        for queue in self._queues:
            queue.shut_down()
        for thread in self._threads:
            thread.join(60)
        for queue in self._queues:
            with contextlib.suppress(DistqError):
                queue.close()
        for connection in self._connections:
            connection.close()
