"""Signals: they end a command as an exception does, with what it started, or are passed to its child."""

import os
import signal
import subprocess
import threading
from types import FrameType

from distq.beginning import Leaving
from distq.cli.output import lead_nowhere
from distq.signals import LONGEST_WAIT

HUNG_UP = 128 + signal.SIGHUP


def leave_on_signals(status: int = 128 + signal.SIGTERM) -> None:
    """Exit through every ``finally``: at SIGTERM with this status; at SIGHUP, unless ignored, with 129."""
    terminals = [descriptor for descriptor in (0, 1, 2) if os.isatty(descriptor)]

    def leave(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - signal's signature
        # a window that closes often sends two: the second must not interrupt the end
        for ending in (signal.SIGTERM, signal.SIGHUP):
            # not ignored: of one that came already Python would print an error
            signal.signal(ending, lambda *_: None)
        if number == signal.SIGHUP:
            lead_nowhere(*terminals)
        raise Leaving(status if number == signal.SIGTERM else HUNG_UP)

    signal.signal(signal.SIGTERM, leave)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, leave)


def status_of(child: "subprocess.Popen[bytes]") -> int:
    """Wait for the end of a child and return its status, 128 and the number where a signal ended it."""
    # not here, where a signal that another thread received would be noticed only at the child's end
    waiter = threading.Thread(target=child.wait, name="distq-child", daemon=True)
    waiter.start()
    while waiter.is_alive():
        waiter.join(LONGEST_WAIT)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def pass_on(number: int, child: "subprocess.Popen[bytes]") -> None:
    """Give a child the signal that we received, unless it was Ctrl-C, which the terminal gave to both."""
    # a second Ctrl-C would end the grace period
    if number != signal.SIGINT or not _in_foreground():
        child.send_signal(number)


def _in_foreground() -> bool:
    """Return whether a terminal sends its Ctrl-C to our process group."""
    try:
        terminal = os.open(os.ctermid(), os.O_RDONLY | os.O_NOCTTY)
    except OSError:  # there is none
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:  # its window is closed
        return False
    finally:
        os.close(terminal)
