"""The event loop that all coroutines of a process share, so that one session of a client serves them all."""

import asyncio
import contextlib
import threading

from distq.controller.worker.loop_watch import LoopWatch

CLEAN_UP_TIME = 0.5
"""Seconds that remaining tasks get to end when their loop does."""

CLOSE_TIME = 0.6
"""Seconds that the last user waits for the loop's end at most; a task or thread may keep it from ending.

At the end of a process they follow ``shutdown.CLOSING_TIME``, which all else has: two seconds in all.
"""


class EventLoop:
    """An event loop in a thread of its own, which runs while it has users.

    ``asyncio.new_event_loop`` makes it: uvloop's, if its policy is set. It logs calls that hold the loop.
    """

    def __init__(self) -> None:
        self._users = 0
        self._lock = threading.Lock()

    def enter(self) -> asyncio.AbstractEventLoop:
        """Return the loop, which runs until as many have left as have entered."""
        with self._lock:
            if not self._users:
                self._start()
            self._users += 1
            return self._loop

    def leave(self) -> None:
        """Stop the loop if no other thread uses it; tasks that swallow their cancellation are left behind."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self._watch.close()
                self._loop.call_soon_threadsafe(_stop, self._loop, self._closing)
                self._thread.join(CLOSE_TIME)

    def __enter__(self) -> asyncio.AbstractEventLoop:
        return self.enter()

    def __exit__(self, *error: object) -> None:
        self.leave()

    def _start(self) -> None:
        self._closing = threading.Event()  # of this loop alone: the one before may take longer to end
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=_run, args=(self._loop, self._closing), name="distq-loop", daemon=True
        )
        self._thread.start()
        assert self._thread.ident is not None  # noqa: S101  # start waits for it
        self._watch = LoopWatch(self._loop, self._thread.ident, below=__file__)


def _run(loop: asyncio.AbstractEventLoop, closing: threading.Event) -> None:
    asyncio.set_event_loop(loop)
    while not closing.is_set():
        # SystemExit and KeyboardInterrupt of any task leave the loop, though its awaiters have them, too
        with contextlib.suppress(SystemExit, KeyboardInterrupt):
            loop.run_forever()
    cancelling = loop.create_task(_cancel_all())
    while not cancelling.done():
        with contextlib.suppress(SystemExit, KeyboardInterrupt):
            loop.run_until_complete(cancelling)
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


def _stop(loop: asyncio.AbstractEventLoop, closing: threading.Event) -> None:
    # in the loop's thread: a stop that is still queued would interrupt the cancellation of tasks
    closing.set()
    loop.stop()


async def _cancel_all() -> None:
    """Cancel all other tasks and wait for them, as ``asyncio.run`` does; not for ever."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=CLEAN_UP_TIME)
