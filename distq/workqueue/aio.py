"""The calls of a producer for ``async def``: each runs in a thread, so there is one queue and not two."""

from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from distq.call_threads import AwaitedCalls
from distq.seconds import Duration

if TYPE_CHECKING:
    from distq.workqueue.handle import QueueHandle

THREADS = 32
"""Calls at a time, of all queues of a process; more wait for a thread."""

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")

_calls = AwaitedCalls(THREADS, "distq-queue")


class AsyncQueue:
    """The value of ``Queue.aio``: the calls of a producer for ``async def``, from any event loop.

    All queues of a process make 32 calls at a time. A call that is cancelled while it waits for a thread is
    not made. A call that has its thread continues: its keys are added, and its result is lost. A repeated
    ``add_rate_limited`` counts another failure, whether Redis received the first call or not.
    """

    def __init__(self, queue: "QueueHandle") -> None:
        self._queue = queue

    async def add(self, *keys: str, priority: int = 0, after: Duration | None = None) -> int:
        """Make keys pending as ``Queue.add`` does; return how many were not pending before."""
        return await self._call(self._queue.add, *keys, priority=priority, after=after)

    async def add_after(self, key: str, delay: Duration) -> None:
        """Make the key pending after ``delay`` seconds; of several delays the earliest counts."""
        await self._call(self._queue.add_after, key, delay)

    async def add_rate_limited(self, key: str) -> None:
        """Count a failure of the key and make it pending after the limiter's delay."""
        await self._call(self._queue.add_rate_limited, key)

    async def forget(self, key: str) -> None:
        """Drop the key's failure record, unless it is dead (client-go util/workqueue Forget)."""
        await self._call(self._queue.forget, key)

    async def num_requeues(self, key: str) -> int:
        """Return how many failures the key has (client-go util/workqueue NumRequeues)."""
        return await self._call(self._queue.num_requeues, key)

    async def is_dirty(self, key: str) -> bool:
        """Return whether the key was added again while claimed."""
        return await self._call(self._queue.is_dirty, key)

    async def depth(self) -> int:
        """Return how many items wait now: ready, dirty, and delayed ones that are due."""
        return await self._call(self._queue.depth)

    async def _call(
        self,
        method: Callable[Arguments, Value],
        *args: Arguments.args,
        **named: Arguments.kwargs,
    ) -> Value:
        def call() -> Value:
            try:
                return method(*args, **named)
            finally:
                # the next call of this thread belongs to another coroutine
                self._queue._unanswered.entry = None  # noqa: SLF001 - one queue in two forms

        return await _calls.call(call)
