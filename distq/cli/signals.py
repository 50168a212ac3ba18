"""Lets SIGTERM end a command as an exception does, so that what it started is stopped."""

import signal
import sys
from types import FrameType


def leave_on_sigterm(status: int) -> None:
    """Exit with this status at SIGTERM, through every ``finally``."""

    def leave(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - signal's signature
        sys.exit(status)

    signal.signal(signal.SIGTERM, leave)
