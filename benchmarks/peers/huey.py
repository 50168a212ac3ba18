"""huey with two threads, which block in Redis while there is nothing to do."""

from collections.abc import Iterable, Sequence

from huey import RedisHuey

from benchmarks.peers import QUEUE, Handle, NoBulk

THREADS = 2


class Huey:
    """A queue without results and without periodic tasks."""

    def __init__(self, url: str) -> None:
        self._huey = RedisHuey(QUEUE, url=url, results=False)
        self._handle: Handle | None = None
        self._task = self._huey.task(name="task")(self._handled)

    def _handled(self, key: str) -> None:
        assert self._handle is not None
        self._handle(key)

    def add_each(self, keys: Iterable[str]) -> None:
        """Call the task."""
        for key in keys:
            self._task(key)

    def add_many(self, _: Sequence[str]) -> None:
        """Raise NoBulk."""
        raise NoBulk

    def work(self, handle: Handle) -> None:
        """Run a consumer."""
        self._handle = handle
        self._huey.create_consumer(workers=THREADS, worker_type="thread", periodic=False).run()


def connect(url: str, _: str) -> Huey:
    """Return huey."""
    return Huey(url)
