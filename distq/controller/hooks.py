"""The hooks of a program before its first reconcile and after the last one: ``on_start``, ``on_stop``."""

import asyncio
import inspect
import logging
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Self

from distq.call_threads import call_apart
from distq.controller.event_queue import EventQueue, Message
from distq.controller.functions import as_coroutine, require_hook
from distq.controller.shutdown import Shutdown
from distq.controller.worker.event_loop import EventLoop
from distq.errors import DistqError

LEAST_STOP_TIME = 0.5
"""Seconds that ``on_stop`` gets at least, even if less of the grace period remains."""

Hook = Callable[[], object]
"""A plain function or ``async def`` without arguments."""

_logger = logging.getLogger("distq")


class Hooks:
    """``on_start`` and ``on_stop`` of a Manager; a context, in which their event loop runs.

    Each is called in a thread of its own, so that signals are noticed meanwhile. A coroutine that takes too
    long is cancelled with the loop at the context's end; a plain function is left behind.
    """

    def __init__(
        self, on_start: Hook | None, on_stop: Hook | None, event_loop: EventLoop, event_queue: EventQueue
    ) -> None:
        self._on_start = on_start
        self._on_stop = on_stop
        self._event_loop = event_loop
        self._event_queue = event_queue
        for name, hook in {"on_start": on_start, "on_stop": on_stop}.items():
            if hook is not None:
                require_hook(name, hook)

    def __enter__(self) -> Self:
        if self._on_start or self._on_stop:
            self._loop = self._event_loop.enter()
        return self

    def __exit__(self, *error: object) -> None:
        if self._on_start or self._on_stop:
            self._event_loop.leave()

    def start(self) -> Message | None:
        """Call ``on_start``; return its error, or a message that came before its end."""
        if self._on_start is None:
            return None
        call = self._call("on_start", self._on_start)
        if (message := self._event_queue.next()) == "called":
            return call.exception()
        return message

    def stop(self, shutdown: Shutdown) -> list[BaseException]:
        """Call ``on_stop``; return the errors that came meanwhile, and its own.

        The end of the grace period, or a signal that ends it, ends the wait for it.
        """
        if self._on_stop is None:
            return []
        errors = list[BaseException]()
        call = self._call("on_stop", self._on_stop)
        timer = threading.Timer(max(LEAST_STOP_TIME, shutdown.grace_left), self._event_queue.put, ["late"])
        timer.daemon = True
        timer.start()
        while (message := self._event_queue.next()) != "called":
            if isinstance(message, BaseException):
                errors.append(message)
            elif message == "late" or (isinstance(message, signal.Signals) and shutdown.end_grace_period()):
                _logger.warning("on_stop has not ended in time: not waiting any longer")
                break
        timer.cancel()
        error = call.exception() if call.done() else None
        return errors if error is None else [*errors, error]

    def _call(self, name: str, hook: Hook) -> Future[None]:
        call = call_apart(partial(self._run, name, hook), f"distq-{name}")
        call.add_done_callback(lambda _: self._event_queue.put("called"))
        return call

    def _run(self, name: str, hook: Hook) -> None:
        try:
            answer = hook()
            if inspect.isawaitable(answer):
                asyncio.run_coroutine_threadsafe(as_coroutine(answer), self._loop).result()
        except DistqError as error:  # the Manager shows one without its frames
            _logger.error("%s failed", name, exc_info=error)
            raise
