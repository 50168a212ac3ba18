"""What one thread of the pool does now, and who says what became of it."""

import sys
import traceback
from dataclasses import dataclass, field

from distq.workqueue.interface import Request


@dataclass(slots=True, eq=False)
class Slot:
    """A thread and the request that its handler runs for, if any."""

    request: Request | None = None
    started: float = 0.0
    warned: float = 0.0
    thread: int = 0
    undecided: list[Request] = field(default_factory=list)
    """The request while nobody has said what became of it; who takes it does."""

    def decide(self, request: Request) -> bool:
        """Return whether the caller says what became of the request: its handler, or who took it away."""
        try:
            self.undecided.remove(request)
        except ValueError:
            return False
        return True

    def stack(self, *, below: str) -> traceback.StackSummary:
        """Return where the thread is, from the handler on: below the frames of that file."""
        frame = sys._current_frames().get(self.thread)  # noqa: SLF001  # documented, for debuggers
        stack = traceback.extract_stack(frame)
        ours = [place for place, line in enumerate(stack, 1) if line.filename == below]
        return traceback.StackSummary.from_list(stack[max(ours, default=0) :])
