"""Each documented difference, shown by both: the original does the one thing, ours the other."""

import pytest

from distq.errors import ConfigError, ShutDown
from distq.workqueue.interface import WorkQueue
from distq.workqueue.rate_limiters import (
    BucketRateLimiter,
    default_controller_rate_limiter,
)
from distq.workqueue.request import Request
from tests.proofs.oracle.duel import MS
from tests.proofs.oracle.original import Original
from tests.proofs.oracle.ours import Ours
from tests.support.claims import claim, finish_all, nothing_to_claim
from tests.support.redis_servers import anywhere

DAY = 86_400_000 * MS
pytestmark = anywhere


class Theirs:
    """The original, in the words of these tests."""

    def __init__(self, original: Original) -> None:
        self._original = original
        self.waits = False

    def begin(self, queue: str = "workqueue", limiter: str = "exp 5000 1000000000") -> None:
        """Make a queue."""
        self._original.begin(queue, limiter)

    def do(self, op: str, *keys: str, duration: int = 0, priority: int | None = None) -> str:
        """Run an operation; return how it panicked, if it did."""
        answer = self._original.do(op, *keys, duration=duration, priority=priority)
        self.waits = answer.waiting
        return answer.error

    def get(self) -> str | None:
        """Return what a Get returns: a key, "" at the shutdown, None where it blocks."""
        claimed = self._original.do("get").claim
        return None if claimed is None else claimed.key

    def get_all(self) -> list[str]:
        """Return what is handed out until there is nothing; without Done."""
        return [str(self.get()) for _ in range(self.length)]

    @property
    def length(self) -> int:
        """Return Len."""
        return self._original.do("look").length

    def requeues(self, key: str) -> int:
        """Return NumRequeues."""
        return self._original.do("look", key).requeues

    def delay(self, key: str) -> float:
        """Return the limiter's delay of one more failure, µs."""
        return self._original.do("when", key).delay


@pytest.fixture
def theirs(original: Original) -> Theirs:
    """Give the originals; each test says which one."""
    return Theirs(original)


@pytest.fixture
def queue(ours: Ours) -> WorkQueue:
    """Give our queue."""
    return ours.handle()


def held(queue: WorkQueue) -> Request:
    """Claim the next item."""
    return queue.get(timeout=0)


# client-go


@pytest.mark.conformance("WQ-15")
def test_the_order_after_done_is_that_of_the_adds(theirs: Theirs, queue: WorkQueue) -> None:
    """client-go queues an item that was added while it was processed behind all others, at Done."""
    theirs.begin()
    for operation in ("add", "get", "add"):
        theirs.do(operation, *["a"] * (operation == "add"))
    theirs.do("add", "b")
    theirs.do("done", "a")
    assert theirs.get_all() == ["b", "a"]

    queue.add("a")
    request = held(queue)
    queue.add("a")
    queue.add("b")
    queue.done(request)
    assert claim(queue, 2) == ["a", "b"]


@pytest.mark.conformance("DQ-06")
def test_an_add_supersedes_a_delay(theirs: Theirs, ours: Ours, queue: WorkQueue) -> None:
    """client-go delivers the item now, and once more when the delay ends."""
    theirs.begin()
    theirs.do("add_after", "a", duration=DAY)
    theirs.do("add", "a")
    assert theirs.get() == "a"
    theirs.do("done", "a")
    theirs.do("step", duration=DAY)
    assert theirs.get() == "a"

    queue.add_after("a", DAY / 1e6)
    queue.add("a")
    assert finish_all(queue) == ["a"]
    ours.move_to(DAY)
    assert nothing_to_claim(queue)


@pytest.mark.conformance("DQ-06")
def test_an_item_that_is_pending_now_takes_no_delay(theirs: Theirs, ours: Ours, queue: WorkQueue) -> None:
    """client-go delivers the item now, and once more when the delay ends."""
    theirs.begin()
    theirs.do("add", "a")
    theirs.do("add_after", "a", duration=DAY)
    assert theirs.get() == "a"
    theirs.do("done", "a")
    theirs.do("step", duration=DAY)
    assert theirs.get() == "a"

    queue.add("a")
    queue.add_after("a", DAY / 1e6)
    assert finish_all(queue) == ["a"]
    ours.move_to(DAY)
    assert nothing_to_claim(queue)


@pytest.mark.conformance("WQ-07", "DQ-08")
@pytest.mark.parametrize("kind", ["workqueue", "priorityqueue"])
def test_adds_after_a_shutdown_are_accepted(theirs: Theirs, ours: Ours, kind: str) -> None:
    """Both originals drop them; here all handles share the queue, and another handle gets them."""
    theirs.begin(kind)
    theirs.do("shut_down")
    theirs.do("add", "a")
    theirs.do("add_after", "b", duration=MS)
    theirs.do("step", duration=MS)
    assert theirs.length == 0
    assert not theirs.get()

    queue, other = ours.handle(), ours.handle()
    queue.shut_down()
    queue.add("a")
    queue.add_after("b", MS / 1e6)
    ours.move_to(MS)
    assert claim(other, 2) == ["a", "b"]


@pytest.mark.conformance("WQ-09", "WQ-10", "PQ-14")
def test_a_shutdown_ends_get_at_once(theirs: Theirs, ours: Ours) -> None:
    """client-go hands out what is queued; controller-runtime loses it; here others take it."""
    theirs.begin("workqueue")
    theirs.do("add", "a")
    theirs.do("shut_down")
    assert theirs.get() == "a"
    theirs.begin("priorityqueue")
    theirs.do("add", "a")
    theirs.do("shut_down")
    assert not theirs.get()

    queue, other = ours.handle(), ours.handle()
    queue.add("a")
    queue.shut_down()
    with pytest.raises(ShutDown):
        queue.get()
    assert claim(other, 1) == ["a"]


@pytest.mark.conformance("DQ-10")
def test_delays_outlive_a_shutdown(theirs: Theirs, ours: Ours) -> None:
    """client-go drops them with the queue."""
    theirs.begin()
    theirs.do("add_after", "a", duration=MS)
    theirs.do("shut_down")
    theirs.do("step", duration=MS)
    assert theirs.get() == ""

    queue, other = ours.handle(), ours.handle()
    queue.add_after("a", MS / 1e6)
    queue.shut_down()
    ours.move_to(MS)
    assert claim(other, 1) == ["a"]


@pytest.mark.conformance("WQ-D2")
def test_done_of_a_queued_item_queues_nothing(theirs: Theirs, queue: WorkQueue) -> None:
    """client-go queues it twice, and hands it out to two."""
    theirs.begin()
    theirs.do("add", "a")
    theirs.do("done", "a")
    assert theirs.length == 2
    assert theirs.get_all() == ["a", "a"]

    queue.add("a")
    request = held(queue)
    assert queue.done(request)
    queue.add("a")
    assert not queue.done(request)
    assert claim(queue, 1) == ["a"]
    assert nothing_to_claim(queue)


@pytest.mark.conformance("WQ-12", "RD-03", "PQ-09")
@pytest.mark.parametrize("kind", ["workqueue", "priorityqueue"])
def test_a_late_done_ends_no_other_claim(theirs: Theirs, queue: WorkQueue, kind: str) -> None:
    """The originals know keys, not claims: the second Done ends what another worker does."""
    theirs.begin(kind)
    theirs.do("add", "a")
    assert theirs.get() == "a"
    theirs.do("done", "a")
    theirs.do("add", "a")
    assert theirs.get() == "a"
    theirs.do("done", "a")  # once more, of the first
    theirs.do("add", "a")
    assert theirs.get() == "a"

    queue.add("a")
    first = held(queue)
    assert queue.done(first)
    queue.add("a")
    second = held(queue)
    assert not queue.done(first)
    queue.add("a")
    assert nothing_to_claim(queue)
    assert queue.done(second)


@pytest.mark.conformance("WQ-14")
def test_depth_counts_dirty_items(theirs: Theirs, queue: WorkQueue) -> None:
    """client-go's Len does not."""
    theirs.begin()
    theirs.do("add", "a")
    theirs.get()
    theirs.do("add", "a")
    assert theirs.length == 0

    queue.add("a")
    held(queue)
    queue.add("a")
    assert queue.depth() == 1


@pytest.mark.conformance("RL-15")
@pytest.mark.parametrize("kind", ["workqueue", "priorityqueue"])
def test_failures_go_with_the_item(theirs: Theirs, ours: Ours, queue: WorkQueue, kind: str) -> None:
    """The originals count on until Forget; here Done of an item of which nothing is pending is enough."""
    theirs.begin(kind)
    theirs.do("add_rate_limited", "a")
    theirs.do("step", duration=5 * MS)
    assert theirs.get() == "a"
    theirs.do("done", "a")
    assert theirs.requeues("a") == 1

    queue.add_rate_limited("a")
    ours.move_to(5 * MS)
    request = held(queue)
    assert queue.num_requeues("a") == 1
    queue.done(request)
    assert queue.num_requeues("a") == 0


@pytest.mark.conformance("WQ-18", "WQ-20")
def test_a_drain_has_a_timeout(original: Original, theirs: Theirs, queue: WorkQueue) -> None:
    """client-go waits for ever for a worker that never calls Done."""
    theirs.begin()
    theirs.do("add", "a")
    theirs.get()
    theirs.do("shut_down_with_drain")
    theirs.do("step", duration=DAY)
    assert original.do("look").draining

    queue.add("a")
    held(queue)
    assert not queue.shut_down_with_drain(timeout=0)


@pytest.mark.conformance("RL-13")
def test_the_default_limiter_has_no_bucket(theirs: Theirs, ours: Ours) -> None:
    """client-go's default delays the 101st retry at once of all items; ours has to be asked for that."""
    theirs.begin(limiter="default")
    keys = [str(number) for number in range(101)]
    assert [theirs.delay(key) for key in keys] == [5 * MS] * 100 + [100 * MS]

    for limiter, length in [(None, 101), (default_controller_rate_limiter(), 100)]:
        queue = ours.handle(rate_limiter=limiter)
        for key in keys:
            queue.add_rate_limited(key)
        ours.move_to(ours.now + 5 * MS)
        assert queue.depth() == length
        ours.move_to(ours.now + DAY)
        assert len(finish_all(queue)) == 101


@pytest.mark.conformance("RL-10")
def test_a_bucket_that_lets_nothing_through_is_refused(theirs: Theirs, ours: Ours) -> None:
    """client-go takes it, and delays everything for ever."""
    theirs.begin(limiter="bucket 10.0 0")
    assert theirs.delay("a") == pytest.approx(2**63 / 1000)

    with pytest.raises(ConfigError):
        ours.handle(rate_limiter=BucketRateLimiter(10, 0))


@pytest.mark.conformance("RL-06")
def test_failures_are_counted_with_any_limiter(theirs: Theirs, ours: Ours) -> None:
    """In client-go the limiter counts, and a bucket counts none."""
    limiter = BucketRateLimiter(10, 100)
    theirs.begin(limiter=limiter.program())
    theirs.do("add_rate_limited", "a")
    assert theirs.requeues("a") == 0

    queue = ours.handle(rate_limiter=limiter)
    queue.add_rate_limited("a")
    ours.move_to(MS)
    assert queue.num_requeues("a") == 1


@pytest.mark.conformance("RD-12")
def test_a_bucket_is_of_the_queue(theirs: Theirs, ours: Ours) -> None:
    """In client-go each queue object has its own, and so has each process."""
    limiter = BucketRateLimiter(10, 1)
    for _ in range(2):
        theirs.begin(limiter=limiter.program())
        assert theirs.delay("a") == 0

    first, second = ours.handle(rate_limiter=limiter), ours.handle(rate_limiter=limiter)
    first.add_rate_limited("a")
    second.add_rate_limited("b")
    ours.move_to(MS)
    assert first.depth() == 1
    ours.move_to(100 * MS)
    assert first.depth() == 2


# controller-runtime


@pytest.mark.conformance("PQ-06")
def test_an_add_moves_a_delayed_item_to_the_end_of_its_level(theirs: Theirs, queue: WorkQueue) -> None:
    """controller-runtime lets it overtake what became ready since it was first added."""
    theirs.begin("priorityqueue")
    theirs.do("add_after", "a", duration=DAY)
    theirs.do("add", "b")
    theirs.do("add", "a")
    assert theirs.get_all() == ["a", "b"]

    queue.add_after("a", DAY / 1e6)
    queue.add("b")
    queue.add("a")
    assert claim(queue, 2) == ["b", "a"]


@pytest.mark.conformance("PQ-04", "PQ-13")
def test_the_latency_of_a_raised_item_begins_with_the_raise(
    original: Original, theirs: Theirs, ours: Ours, queue: WorkQueue
) -> None:
    """In controller-runtime it begins with the first add; the place in the new level is the same."""
    theirs.begin("priorityqueue")
    theirs.do("add", "a")
    theirs.do("step", duration=DAY)
    theirs.do("add_with_opts", "a", priority=1)
    claimed = original.do("get").claim
    assert claimed is not None
    assert claimed.latency == DAY

    queue.add("a")
    began = held_since(queue)
    ours.move_to(DAY)
    queue.add("a", priority=1)
    assert held_since(queue) - began == pytest.approx(DAY / 1e6, abs=0.001)


def held_since(queue: WorkQueue) -> float:
    """Return since when the first item is pending, and give it back."""
    request = held(queue)
    assert request.enqueued_at is not None
    queue.release(request)
    return request.enqueued_at


@pytest.mark.conformance("PQ-15")
def test_a_second_shutdown_is_harmless(theirs: Theirs, queue: WorkQueue) -> None:
    """controller-runtime panics."""
    theirs.begin("priorityqueue")
    assert theirs.do("shut_down") == ""
    assert theirs.do("shut_down") == "close of closed channel"

    queue.shut_down()
    queue.shut_down()
    queue.shut_down_with_drain()
    assert queue.shutting_down


@pytest.mark.conformance("PQ-02")
def test_priorities_have_bounds(theirs: Theirs, queue: WorkQueue) -> None:
    """controller-runtime takes any; here they are from -900 to 900."""
    theirs.begin("priorityqueue")
    theirs.do("add_with_opts", "a", priority=901)
    assert theirs.get() == "a"

    with pytest.raises(ValueError, match="-900 to 900"):
        queue.add("a", priority=901)
    assert nothing_to_claim(queue)
