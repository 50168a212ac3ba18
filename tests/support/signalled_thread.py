"""Runs a program's module with a thread that receives its SIGTERM: ``python -m ... MODULE [ARGUMENT...]``.

The kernel picks a thread for each signal, mostly the main one, which wakes. Here it is always the other:
the one that waits for SIGUSR1, and takes it for a SIGTERM.
"""

import runpy
import signal
import sys
import threading

COMMAND = (sys.executable, "-m", "tests.support.signalled_thread")
"""To be followed by the module; needs the project's folder on PYTHONPATH."""


def main() -> None:
    """Start the thread, and run the module."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})

    def receive() -> None:
        signal.sigwait({signal.SIGUSR1})
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    threading.Thread(target=receive, daemon=True).start()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
