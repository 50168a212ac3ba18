"""An interrupt at a chosen place: what KeyboardInterrupt, or any exception of a signal's handler, may do."""

import dis
import gc
import linecache
import sys
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any


class Interrupt:
    """Raises an exception in this thread at the n-th place in some modules where Python handles signals.

    These are the ends of calls, the beginnings of functions, and jumps backward.
    """

    def __init__(
        self, place: int, modules: Sequence[str], exception: type[BaseException] = KeyboardInterrupt
    ) -> None:
        self._left = place
        self._modules = modules
        self._exception = exception
        self._before: dict[FrameType, str] = {}
        self.where = ""

    def __enter__(self) -> "Interrupt":
        """Begin to count."""
        gc.disable()  # what it collects is no part of what is interrupted
        sys._getframe().f_trace_opcodes = True  # else Python 3.12 traces no opcodes in the first run
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop counting."""
        sys.settrace(None)
        gc.enable()
        self._before.clear()  # what the interrupted frames held is free from here on

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if Path(code.co_filename).stem not in self._modules or (event == "call" and _is_in_finalizer(frame)):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and not self.where:
            before, now = self._before.get(frame, ""), dis.opname[code.co_code[frame.f_lasti]]
            self._before[frame] = now
            if before.startswith(("CALL", "RESUME", "JUMP_BACKWARD")) and _may_be_interrupted(code, now):
                self._left -= 1
                if not self._left:
                    line = linecache.getline(code.co_filename, frame.f_lineno).strip()
                    self.where = f"{Path(code.co_filename).name}:{frame.f_lineno} after {before}: {line}"
                    raise self._exception
        return self._trace


def _may_be_interrupted(code: CodeType, opcode: str) -> bool:
    """Return whether an interrupt is to leave nothing behind here; what ``turn`` returns is its caller's.

    An interrupt of the call that a function ends with comes before it leaves its blocks, unlike its return.
    Where a call raised an exception Python handles no signal until something catches it.
    """
    return code.co_name != "turn" and not opcode.startswith(("RETURN", "PUSH_EXC_INFO"))


def _is_in_finalizer(frame: FrameType | None) -> bool:
    """Return whether a finalizer runs, whose exceptions Python ignores."""
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False
