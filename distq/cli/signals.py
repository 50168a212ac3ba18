"""Lets SIGTERM and a closed window end a command as an exception does, so that what it started is stopped."""

import os
import signal
import sys
from types import FrameType

HUNG_UP = 128 + signal.SIGHUP


def leave_on_signals(status: int) -> None:
    """Exit through every ``finally``: at SIGTERM with this status, at SIGHUP (not under ``nohup``) with 129.

    The first one counts: a window that closes often sends two, and what stops is not to be interrupted.
    """
    terminals = [descriptor for descriptor in (0, 1, 2) if os.isatty(descriptor)]

    def leave(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - signal's signature
        for ending in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(ending, signal.SIG_IGN)
        if number == signal.SIGHUP:
            _replace(terminals)
        sys.exit(status if number == signal.SIGTERM else HUNG_UP)

    signal.signal(signal.SIGTERM, leave)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, leave)


def _replace(terminals: list[int]) -> None:
    """Let nothing fail that still prints to a window which is no more."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in terminals:
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
