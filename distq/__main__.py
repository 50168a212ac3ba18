"""``python -m distq`` is ``distq``; what a process heeds while all else is still being imported."""

import signal
import sys

from distq.beginning import leave


def run_program() -> None:
    """Run the command line as a program of its own.

    The imports take a second or more on a busy machine, and those of a TARGET any time. Until the command
    has handlers of its own, SIGTERM ends one that serves at once, with status 0: nothing has begun. Without
    a handler it would be ignored where the process is the first of its container; an exception of the
    handler could get lost in what is imported. So does SIGHUP, except under nohup.
    """
    if sys.argv[1:2] in (["run"], ["informer"], ["worker"]):
        signal.signal(signal.SIGTERM, leave)
        if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
            signal.signal(signal.SIGHUP, leave)
    try:
        from distq.cli import run_program
    except KeyboardInterrupt:
        sys.exit(130)
    run_program()


if __name__ == "__main__":
    run_program()
