"""Calls that no signal handler interrupts: code that changes a session never runs in the main thread.

Python runs signal handlers only in the main thread, between any two of its steps. An exception that they
raise, such as KeyboardInterrupt, ends the code that runs there. So the main thread lets a helper thread make
such a call, and waits. Other threads make it themselves.
"""

import _thread
import os
import sys
import threading
from collections.abc import Callable
from functools import partial, wraps
from queue import SimpleQueue
from typing import Any, Generic, ParamSpec, TypeVar

_LOOK_EVERY = 0.25
"""Seconds after which a signal is noticed that came just before the main thread fell asleep."""

Answer = TypeVar("Answer")
Arguments = ParamSpec("Arguments")


def run_apart(
    function: Callable[..., Answer],
    *arguments: Any,
    undo: Callable[[Answer], object] = lambda _: None,
    interrupt: Callable[[], object] = lambda: None,
) -> Answer:
    """Call the function in a thread that no signal handler interrupts; return its answer or raise its error.

    If the caller is interrupted meanwhile, the function goes on: from then on ``is_given_up`` is true for it,
    ``interrupt`` is called to end its waits, and ``undo`` receives its answer.
    """
    if threading.get_ident() != _main_thread or sys.is_finalizing():
        # once the interpreter ends, no signal handler runs, and no thread but this one
        return function(*arguments)
    call = _CallApart(partial(function, *arguments), undo)
    try:
        _start(call)
        return call.wait()
    except BaseException:
        call.leave(interrupt)
        raise


def apart(method: Callable[Arguments, Answer]) -> Callable[Arguments, Answer]:
    """Make a function that is always called as ``run_apart`` does."""

    @wraps(method)
    def call(*arguments: Arguments.args, **keywords: Arguments.kwargs) -> Answer:
        return run_apart(lambda: method(*arguments, **keywords))

    return call


def is_given_up() -> bool:
    """Return whether this thread makes a call whose caller was interrupted."""
    call = _of_thread.call
    return call is not None and call.is_left


class _CallApart(Generic[Answer]):
    """One call that a helper makes for the main thread."""

    def __init__(self, function: Callable[[], Answer], undo: Callable[[Answer], object]) -> None:
        self.is_left = False
        self._function = function
        self._undo = undo
        self._answer: list[Answer] = []
        """One answer, which may be None; or nothing yet."""
        self._error: BaseException | None = None
        self._has_failed = False
        """Stays True when ``wait`` drops the error."""
        self._ended = threading.Lock()
        self._ended.acquire()
        self._open = [self]
        """Holds this call until the helper has the answer or the caller leaves: the first takes it out."""

    def make(self) -> None:
        """Make the call; this runs in a helper."""
        try:
            answer = self._function()
        except BaseException as error:  # noqa: BLE001 - wait raises it
            self._error, self._has_failed = error, True
        else:
            self._answer.append(answer)
        if not self._take():
            self._undo_answer()

    def end(self) -> None:
        """Let the caller go on."""
        self._ended.release()

    def wait(self) -> Answer:
        """Return the answer, or raise the error."""
        while not self._ended.acquire(timeout=_LOOK_EVERY):
            pass
        error, self._error = self._error, None  # its traceback refers to this frame: avoid a cycle
        if error is not None:
            try:
                raise error
            finally:
                del error
        return self._answer[0]

    def leave(self, interrupt: Callable[[], object]) -> None:
        """Leave without the answer, unless the call ended with an error."""
        if self._has_failed:
            return
        self.is_left = True
        rest = interrupt if self._take() else self._undo_answer
        # not here: a signal may come again, and interrupt this as well
        _start(_CallApart(rest, lambda _: None))

    def _take(self) -> bool:
        try:
            self._open.pop()
        except IndexError:
            return False
        return True

    def _undo_answer(self) -> None:
        for answer in self._answer:
            self._undo(answer)


class _OfThread(threading.local):
    call: "_CallApart[object] | None" = None


_of_thread = _OfThread()
_free: list["SimpleQueue[_CallApart[Any]]"] = []
"""The helpers that wait for a call. No two calls get the same one: no signal handler runs within ``pop``."""


def _start(call: "_CallApart[Any]") -> None:
    try:
        calls = _free.pop()
    except IndexError:
        calls = SimpleQueue()
        try:
            _thread.start_new_thread(_help, (calls,))  # a signal may interrupt Thread.start half-way
        except RuntimeError:  # the interpreter shuts down
            call.make()
            call.end()
            return
    calls.put(call)


def _help(calls: "SimpleQueue[_CallApart[Any]]") -> None:
    threading.current_thread().name = "distq-calls"
    while True:
        _of_thread.call = call = calls.get()
        call.make()
        _of_thread.call = None
        _free.append(calls)  # first, so that the next call finds this helper
        call.end()
        del call


_main_thread = threading.main_thread().ident


def _after_fork_in_child() -> None:
    global _main_thread  # noqa: PLW0603  # read in each call
    _main_thread = threading.get_ident()
    _free.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
