"""Processes that claim one item each and hold it until they are killed; forked, since many are wanted.

    python -m tests.proofs.nemesis.holders COUNT CLAIM_DURATION

Each prints its process id and its item. They end with the program's standard input.
"""

import os
import signal
import sys

from distq import Queue
from tests.proofs.nemesis.redelivery import QUEUE


def hold(claim_duration: float) -> None:
    """Claim an item, say so, and keep it."""
    request = Queue(QUEUE, claim_duration=claim_duration).get()
    os.write(1, f"{os.getpid()} {request.key}\n".encode())
    signal.pause()


def main(count: int, claim_duration: float) -> None:
    """Fork as many, and kill them at the end."""
    children = []
    for _ in range(count):
        if (child := os.fork()) == 0:
            hold(claim_duration)
        children.append(child)
    sys.stdin.read()
    for child in children:
        os.kill(child, signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
