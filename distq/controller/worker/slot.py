"""The request that one thread of the pool runs now, and whether the thread decides its outcome."""

import math
import threading
import traceback
from dataclasses import dataclass, field

from distq.controller.worker.loop_watch import running_frame
from distq.workqueue.request import Request


@dataclass(slots=True, eq=False)
class Slot:
    """A thread and the request that its handler runs for, if any."""

    request: Request | None = None
    started: float = 0.0
    warned: float = -math.inf
    """The time of the last warning: the handler was past its timeout, and ``cancelled`` was set."""
    thread: int = 0
    is_decided: bool = False
    """Whether the request was taken from its handler, which runs on."""
    _deciding: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, request: Request, started: float) -> None:
        """Note that the thread's handler begins with a request."""
        self.started, self.warned, self.is_decided = started, -math.inf, False
        self.request = request  # last: a check that sees it reads the other fields

    def end(self) -> bool:
        """Free the slot; return whether the handler's result decides the outcome of its request."""
        with self._deciding:
            self.request = None
            return not self.is_decided

    def decide(self, request: Request) -> bool:
        """Take the request from its handler; return False if that has ended, or it was taken before."""
        with self._deciding:
            # another request may have the slot by now
            if self.request is not request or self.is_decided:
                return False
            self.is_decided = True
            return True

    def cancel(self, request: Request, now: float) -> bool:
        """Set ``cancelled`` of a request past its timeout; return False if its handler has ended."""
        with self._deciding:
            if self.request is not request:  # its outcome counts: it ended in time
                return False
            self.warned = now
            request.cancelled.set()
            return True

    def stack(self, *, below: str) -> traceback.StackSummary:
        """Return where the thread is, from the handler on: below the frames of that file."""
        frame = running_frame(self.thread)
        stack = traceback.extract_stack(frame)
        ours = [place for place, line in enumerate(stack, 1) if line.filename == below]
        return traceback.StackSummary.from_list(stack[max(ours, default=0) :])
