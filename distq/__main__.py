"""``python -m distq`` is ``distq``; what a process heeds while all else is still being imported."""

import contextlib
import signal
import sys

from distq.beginning import importing, leave


def run_program() -> None:
    """Run the command line as a program of its own.

    The imports take a second or more on a busy machine, and those of a TARGET any time. Until the command
    has handlers of its own, SIGTERM ends one that serves at once, with status 0: nothing has begun. Without
    a handler it would be ignored where the process is the first of its container; an exception of the
    handler could get lost in what is imported. So does SIGHUP, except under nohup.
    """
    serves = sys.argv[1:2] in (["run"], ["informer"], ["worker"])
    if serves:
        signal.signal(signal.SIGTERM, leave)
        if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
            signal.signal(signal.SIGHUP, leave)
    try:
        with importing():
            from distq.cli import run_program

            if serves:
                _import_what_serves(elects=sys.argv[1] != "worker")
    except KeyboardInterrupt:
        sys.exit(130)
    run_program()


def _import_what_serves(*, elects: bool) -> None:
    """Import what the command will; it says why where that fails."""
    with contextlib.suppress(Exception):
        import distq.controller.manager  # noqa: F401

        if elects:
            from distq.client import credentials

            credentials.import_package()


if __name__ == "__main__":
    run_program()
