"""A process for tests to kill: it claims one item, prints a line, and settles it as a line on stdin says."""

import sys

from distq.workqueue.queue import Queue


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(url: str) -> None:
    """Claim, wait for a line, settle, close."""
    queue = Queue("foos", url)
    request = queue.get(timeout=30)
    _say(f"{request.key} {request.fence}")
    error = ValueError("asked to fail") if sys.stdin.readline() == "fail\n" else None
    _say(f"settled {queue.settle(request, error)} cancelled {request.cancelled.is_set()}")
    queue.close()


if __name__ == "__main__":
    main(sys.argv[1])
