"""The start of a program, until its command runs: signals, and the imported modules."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_SOON = 0.01
"""Seconds after which a destructor or callback has ended, most likely."""


class Leaving(SystemExit):
    """A signal ends the command."""


@contextmanager
def importing() -> Iterator[None]:
    """Keep the cyclic collector away from imported modules; for a program that has its process to itself."""
    gc.disable()  # it would take an eighth of the time, and find nothing
    try:
        yield
    finally:
        gc.freeze()  # modules stay, so later collections pass them over
        gc.enable()


def leave(*_: object) -> None:
    """End at once with status 0: nothing has begun."""
    os._exit(0)  # an exception of a handler could get lost in an imported module


def raise_lost_ends() -> None:
    """Let Ctrl-C and Leaving end the program also in destructors and callbacks of weak references.

    Python prints an exception that reaches one of these, and goes on.
    """
    report = sys.unraisablehook

    def raise_again(lost: "sys.UnraisableHookArgs") -> None:
        if not isinstance(lost.exc_value, KeyboardInterrupt | Leaving):
            report(lost)
            return
        code = lost.exc_value.code if isinstance(lost.exc_value, Leaving) else None

        def interrupt(*_: object) -> None:
            if code is None:
                signal.raise_signal(signal.SIGINT)  # which a Manager may take by now
            else:
                raise Leaving(code)

        signal.signal(signal.SIGALRM, interrupt)  # later: Python loses the exceptions of this hook, too
        signal.setitimer(signal.ITIMER_REAL, _SOON)

    sys.unraisablehook = raise_again
