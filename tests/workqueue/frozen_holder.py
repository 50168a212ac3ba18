"""A process that claims one item and freezes: by holding the interpreter in C code, or stopped."""

import ctypes
import logging
import sys

from distq.workqueue.queue import Queue

CLAIM_DURATION = 5.0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(url: str, how: str) -> None:
    """Claim, freeze until a line comes, then live on until the next one."""
    logging.basicConfig(stream=sys.stdout, format="%(message)s")
    queue = Queue("foos", url, claim_duration=CLAIM_DURATION)
    request = queue.get(timeout=60)
    _say(f"{request.key} {request.fence}")
    if how == "holds the interpreter":  # as code does that never releases the GIL
        ctypes.PyDLL(None).read(0, ctypes.create_string_buffer(1), 1)
    else:
        sys.stdin.readline()
    request.cancelled.wait(60)
    sys.stdin.readline()
    queue.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
