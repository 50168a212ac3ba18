"""Celery with a pool of eight threads, which fetch 128 messages each ahead, without what workers say."""

from collections.abc import Iterable, Sequence

import celery

from benchmarks.peers import QUEUE, Handle

THREADS = 8


class Celery:
    """An application without results."""

    def __init__(self, url: str) -> None:
        self._app = celery.Celery(QUEUE, broker=url, backend=None, set_as_current=True)
        self._app.conf.update(
            task_ignore_result=True,
            worker_prefetch_multiplier=128,
            worker_hijack_root_logger=False,
            task_default_queue=QUEUE,
        )
        self._handle: Handle | None = None

        def task(key: str) -> None:
            assert self._handle is not None
            self._handle(key)

        self._task = self._app.task(name="task")(task)

    def add_each(self, keys: Iterable[str]) -> None:
        """Send one after another."""
        for key in keys:
            self._task.delay(key)

    def add_many(self, keys: Sequence[str]) -> None:
        """Send as a group."""
        celery.group(self._task.s(key) for key in keys).apply_async()

    def work(self, handle: Handle) -> None:
        """Run a worker."""
        self._handle = handle
        self._app.Worker(
            pool="threads",
            concurrency=THREADS,
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
            loglevel="ERROR",
            quiet=True,
        ).start()


def connect(url: str, _: str) -> Celery:
    """Return Celery."""
    return Celery(url)
