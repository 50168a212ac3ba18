"""``python -m distq`` is ``distq``; this module also handles signals while the command is imported."""

import contextlib
import os
import signal
import sys

from distq.beginning import importing, leave, raise_lost_ends


def run_program() -> None:
    """Run the command line as a program of its own.

    The imports take a second or more on a busy machine, and those of a TARGET any time. Until a command that
    serves has its own handlers, SIGTERM ends it at once, with status 0: nothing has begun. Without a handler,
    the first process of a container would ignore the signal; a handler's exception could get lost in an
    imported module. SIGHUP has the same effect, except under nohup.
    """
    raise_lost_ends()
    serves = sys.argv[1:2] in (["run"], ["informer"], ["worker"])
    if serves:
        signal.signal(signal.SIGTERM, leave)
        if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
            signal.signal(signal.SIGHUP, leave)
    try:
        with importing():
            from distq.cli import run_program

            if serves:
                _import_for_serving(elects=sys.argv[1] != "worker")
    except KeyboardInterrupt:
        os._exit(130)  # at once: a second one would end it by the signal
    run_program()


def _import_for_serving(*, elects: bool) -> None:
    """Import the modules of the command; the command itself reports an import that fails."""
    with contextlib.suppress(Exception):
        import distq.controller.manager  # noqa: F401

        if elects:
            from distq.client import credentials

            credentials.import_package()


if __name__ == "__main__":
    run_program()
