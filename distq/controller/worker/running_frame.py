"""What a thread runs at the moment."""

import gc
import sys
from types import FrameType


def running_frame(thread: int) -> FrameType | None:
    """Return the frame that a thread is in, by its ident; None if it has ended.

    No garbage is collected meanwhile: Python 3.11 may stop the whole process for ever if that happens within
    ``sys._current_frames``. Source: CPython issue 106883.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames().get(thread)  # noqa: SLF001  # documented, for debuggers
    finally:
        if collects:
            gc.enable()
