"""``python -m distq`` is ``distq``; this module also handles signals while the command is imported."""

import contextlib
import os
import signal
import sys

from distq.beginning import importing, leave, raise_lost_ends


def run_program() -> None:
    """Run the command line as a program of its own.

    Until a command that serves has its own handlers, SIGTERM ends it at once, with status 0, and so does
    SIGHUP, except under nohup. The imports take a second or more on a busy machine, and those of a TARGET any
    time.
    """
    raise_lost_ends()
    serves = sys.argv[1:2] in (["run"], ["informer"], ["worker"])
    if serves:
        # without a handler, the first process of a container would ignore the signal
        signal.signal(signal.SIGTERM, leave)
        if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # else nohup
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
    with contextlib.suppress(Exception):  # the command itself reports an import that fails
        import distq.controller.manager  # noqa: F401

        if elects:
            from distq.client import credentials

            credentials.import_package()


if __name__ == "__main__":
    run_program()
