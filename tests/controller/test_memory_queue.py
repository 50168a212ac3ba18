"""Controllers on a queue in memory: the worker side without any Redis."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from distq import Controller, For, Manager, Request, Result, TerminalError
from distq.config import Settings
from distq.errors import ConfigError
from distq.testing import MemoryQueue
from distq.workqueue import ItemExponentialFailureRateLimiter
from distq.workqueue.queue import Queue
from tests.support.eventually import eventually

NO_REDIS = "redis://127.0.0.1:1"  # no server listens there


def run_until(controller: Controller, done: Callable[[], bool]) -> None:
    """Run the controller's workers until it is done, and stop them."""
    manager = Manager([controller], redis=NO_REDIS, settings=Settings(grace_period=5.0))
    running = threading.Thread(target=manager.run)
    running.start()
    try:
        eventually(done)
    finally:
        manager.stop()
        running.join(20)
    assert not running.is_alive()


class Work:
    """Fails an item, comes back to it, and notes what it did."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []

    def __call__(self, request: Request) -> Result | None:
        """Reconcile."""
        self.seen.append((request.key, request.attempt))
        if request.key == "fails" and request.attempt < 3:
            raise ValueError("not yet")
        if request.key == "again" and self.seen.count(("again", 1)) == 1:
            return Result(requeue_after=0.001)
        if request.key == "dead":
            raise TerminalError("never")
        return None


EXPECTED = [
    *(("again", 1), ("again", 1), ("dead", 1)),
    *(("fails", 1), ("fails", 2), ("fails", 3)),
    *((f"k{number}", 1) for number in range(50)),
]


@pytest.mark.parametrize("is_async", [False, True], ids=["threads", "async"])
def test_a_controller_works_a_memory_queue_off_without_redis(is_async: bool) -> None:
    """Successes, back-off, results and terminal errors: all happen, and nothing is left but the dead."""
    work = Work()

    async def reconcile(request: Request) -> Result | None:
        await asyncio.sleep(0)
        return work(request)

    queue = MemoryQueue("foos", rate_limiter=ItemExponentialFailureRateLimiter(base_delay=0.001))
    queue.add("fails", "again", "dead", *(f"k{number}" for number in range(50)))
    controller = Controller(queue, reconcile if is_async else work, concurrency=4)
    run_until(controller, lambda: len(work.seen) == len(EXPECTED) and not queue.held())
    assert sorted(work.seen) == sorted(EXPECTED)
    assert queue.depth() == 0
    assert queue.num_requeues("dead") == 1
    assert queue.num_requeues("fails") == 0


def test_an_add_of_another_handle_wakes_a_controller_on_a_memory_queue() -> None:
    """Workers that sleep are woken at once."""
    seen: list[str] = []
    queue = MemoryQueue("foos")
    producer = MemoryQueue("foos", shares=queue)

    def reconcile(request: Request) -> None:
        seen.append(request.key)
        if len(seen) < 20:
            producer.add(f"k{len(seen)}")

    producer.add("k0")
    run_until(Controller(queue, reconcile), lambda: len(seen) == 20)
    assert seen == [f"k{number}" for number in range(20)]


def test_watches_do_not_feed_a_memory_queue() -> None:
    """What the informer hands over is committed to Redis."""
    controller = Controller(MemoryQueue("foos"), lambda _: None, watches=[For("v1/Pod")])
    with pytest.raises(ConfigError, match=r"cannot watch for foos: its queue is not in Redis\. Use a Queue"):
        Manager([controller], redis=NO_REDIS).run()


def test_both_kinds_of_queue_fit_a_controller() -> None:
    """A Controller takes either; any other object is refused."""
    for queue in MemoryQueue("foos"), Queue("foos"):
        assert Controller(queue, lambda _: None).queue is queue
    with pytest.raises(ConfigError, match="bad queue: list is none"):
        Controller(["foos"], lambda _: None)  # type: ignore[arg-type]  # on purpose
