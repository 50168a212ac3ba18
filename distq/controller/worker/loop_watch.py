"""Finds calls that hold the event loop: while one runs, all coroutines of the process wait.

A thread looks at the stack of the loop's thread from outside, so that an item costs nothing. It cannot look
while a call keeps Python from running any other thread.
"""

import asyncio
import gc
import logging
import os
import sys
import sysconfig
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

HELD = 0.1
"""Seconds for which one call may hold the loop."""

LOOK_EVERY = 0.05
"""Seconds between two looks at the loop: a call that holds it for HELD and this is found in any case."""

LATE = 0.5
"""Seconds of a wait beyond its time after which this process was frozen: then nothing held the loop."""

_MOST_PLACES = 1000
"""Places that are logged; a program that makes code while it runs has ever more."""

_DISTQ = f"{Path(__file__).parents[2]}{os.sep}"
_PYTHON = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), "<frozen ")
_PACKAGES = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))

_logger = logging.getLogger("distq")


class LoopWatch:
    """Watches one event loop, in a thread of its own, and logs each place that holds it once.

    ``thread`` is the ident of the loop's thread, ``below`` the file of the function that runs the loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, thread: int, *, below: str) -> None:
        self._loop = loop
        self._loop_thread = thread
        self._below = below
        self._closing = threading.Event()
        self._places = set[str]()
        threading.Thread(target=self._run, name="distq-loop-watch", daemon=True).start()

    def close(self) -> None:
        """Watch no longer; return at once."""
        self._closing.set()

    def _run(self) -> None:
        while not self._closing.wait(LOOK_EVERY):
            self._look()

    def _look(self) -> None:
        call = self._call()[:1]  # one alone: a frame keeps its variables alive
        if call and not self._goes_on():
            frames = self._call()
            if frames[:1] == call:  # the same frame, so the same call
                self._log(frames)

    def _call(self) -> list[FrameType]:
        """Return the frames of the call that the loop makes now, the outermost first; none while it waits."""
        frame = running_frame(self._loop_thread)
        frames = list[FrameType]()
        while frame is not None and frame.f_code.co_filename != self._below:
            if frame.f_code.co_name == "_run_once":  # asyncio's own loop, which makes each call by a Handle
                is_call = bool(frames) and frames[-1].f_code.co_name == "_run"
                return frames[::-1] if is_call else []
            frames.append(frame)
            frame = frame.f_back
        return frames[::-1]

    def _goes_on(self) -> bool:
        """Return whether the loop begins its next round within HELD seconds, or this process was frozen."""
        answered = threading.Event()
        began = time.monotonic()
        try:
            self._loop.call_soon_threadsafe(answered.set)
        except RuntimeError:  # it was closed
            return True
        return answered.wait(HELD) or time.monotonic() - began > HELD + LATE

    def _log(self, frames: Sequence[FrameType]) -> None:
        place, innermost = _place(_holder(frames)), _place(frames[-1])
        if place in self._places or len(self._places) >= _MOST_PLACES:
            return
        self._places.add(place)
        _logger.warning(
            "%s holds the event loop for more than %g ms%s: all coroutines of this process wait meanwhile. "
            "Use await asyncio.to_thread(...), or the aio of a Client, Queue or lister",
            place,
            HELD * 1000,
            f", in {innermost}" if innermost != place else "",
        )


def _holder(frames: Sequence[FrameType]) -> FrameType:
    """Return the innermost frame of the program itself; of an installed one the outermost frame."""
    others = [frame for frame in frames if not frame.f_code.co_filename.startswith(_DISTQ)]
    installed = [frame for frame in others if frame.f_code.co_filename.startswith(_PACKAGES)]
    own = [frame for frame in others if not frame.f_code.co_filename.startswith((*_PACKAGES, *_PYTHON))]
    return [frames[-1], *installed[:1], *own[-1:]][-1]


def _place(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno} ({frame.f_code.co_qualname})"


def running_frame(thread: int) -> FrameType | None:
    """Return the frame that a thread is in, by its ident; None if it has ended."""
    # Python 3.11 may stop the whole process for ever if garbage is collected within _current_frames
    # (CPython issue 106883)
    collects = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames().get(thread)  # noqa: SLF001  # documented, for debuggers
    finally:
        if collects:
            gc.enable()
