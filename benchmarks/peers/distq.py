"""distq by its public names alone, so that another version of it can be measured, too."""

import threading
from collections.abc import Iterable, Sequence

from benchmarks.peers import QUEUE, Handle
from distq import Controller, Manager, Queue, Request

THREADS = 8
TASKS = 100
LOOPS = 2


class Distq:
    """A worker of ``kind`` threads, async, or loop: a loop of one's own."""

    def __init__(self, url: str, kind: str) -> None:
        self._url = url
        self._kind = kind
        self._queue = Queue(QUEUE, url)

    def add_each(self, keys: Iterable[str]) -> None:
        """Add in the main thread, as a program without threads does."""
        for key in keys:
            self._queue.add(key)

    def add_many(self, keys: Sequence[str]) -> None:
        """Add all in one call."""
        self._queue.add(*keys)

    def work(self, handle: Handle) -> None:
        """Run a Manager, or a loop in two threads."""
        if self._kind == "loop":
            self._loop(handle)
        elif self._kind == "async":

            async def reconcile_async(request: Request) -> None:
                handle(request.key)

            self._run(Controller(QUEUE, reconcile_async, concurrency=TASKS))
        else:

            def reconcile(request: Request) -> None:
                handle(request.key)

            self._run(Controller(QUEUE, reconcile, concurrency=THREADS))

    def _run(self, controller: Controller) -> None:
        Manager([controller], redis=self._url).run(informer=False)

    def _loop(self, handle: Handle) -> None:
        def loop() -> None:
            for request in self._queue.listen():
                handle(request.key)
                self._queue.settle(request)

        threads = [threading.Thread(target=loop, daemon=True) for _ in range(LOOPS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def connect(url: str, kind: str) -> Distq:
    """Return distq."""
    return Distq(url, kind)
