"""How tests of the queue ask whether anything can be claimed, and take it."""

from distq.errors import Empty
from distq.workqueue.interface import WorkQueue


def nothing_to_claim(queue: WorkQueue) -> bool:
    """Return whether a claim made now finds nothing."""
    try:
        queue.get(timeout=0)
    except Empty:
        return True
    return False


def claim(queue: WorkQueue, count: int) -> list[str]:
    """Claim so many items, and return their keys in that order."""
    return [queue.get(timeout=0).key for _ in range(count)]


def finish_all(queue: WorkQueue) -> list[str]:
    """Claim and end all that can be claimed; return the keys in that order."""
    finished: list[str] = []
    while True:
        try:
            request = queue.get(timeout=0)
        except Empty:
            return finished
        finished.append(request.key)
        assert queue.done(request)
