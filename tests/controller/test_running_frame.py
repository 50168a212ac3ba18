"""What a thread runs at the moment, read without a garbage collection, in which Python may hang."""

import gc
import sys
import threading
from types import FrameType

import pytest

from distq.controller.worker.loop_watch import running_frame


@pytest.mark.parametrize("collects", [True, False])
def test_no_garbage_is_collected_while_frames_are_read(
    monkeypatch: pytest.MonkeyPatch, collects: bool
) -> None:
    """The program's own choice is back afterwards."""
    read, collected = sys._current_frames, list[bool]()

    def look() -> dict[int, FrameType]:
        collected.append(gc.isenabled())
        return read()

    monkeypatch.setattr(sys, "_current_frames", look)
    (gc.enable if collects else gc.disable)()
    try:
        frame = running_frame(threading.get_ident())
        assert gc.isenabled() == collects
    finally:
        gc.enable()
    assert frame is not None
    assert frame.f_code.co_name == "look"
    assert collected == [False]


def test_a_thread_that_has_ended_runs_nothing() -> None:
    """It has no frame."""
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    assert thread.ident is not None
    assert running_frame(thread.ident) is None
