"""A worker for tests to send signals to: each reconcile takes as many seconds as its key says.

A key that names a signal sends it to the thread that reconciles it, not to the main one; ``stdin`` waits for
a line from there.
"""

import logging
import signal
import sys
import threading
import time

from distq import Controller, Manager, Queue, Request


def reconcile(request: Request) -> None:
    """Sleep, unnoticed by ``cancelled``."""
    _say(f"started {request.key}")
    if request.key == "stdin":
        sys.stdin.readline()
    elif request.key.startswith("SIG"):
        signal.pthread_kill(threading.get_ident(), signal.Signals[request.key])
    else:
        time.sleep(float(request.key))
    _say(f"finished {request.key}")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    queue = Queue("foos", claim_duration=1.5)
    Manager([Controller(queue, reconcile, concurrency=1)]).run(informer=False)
