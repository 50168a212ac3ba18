"""Many threads at once: no item is lost, no item runs twice at a time, and every thread ends."""

import random
import threading
from collections import Counter
from collections.abc import Callable
from operator import methodcaller

import pytest

from distq.errors import ShutDown
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.support.claims import finish_all
from tests.support.redis_servers import anywhere

Make = Callable[..., Queue]

SHUTDOWNS = pytest.mark.parametrize(
    "shut_down", [methodcaller("shut_down"), methodcaller("shut_down_with_drain")], ids=["at once", "drain"]
)


class Consumers:
    """Threads that take items of one handle and notice when an item is with two of them."""

    def __init__(self, queue: Queue, count: int, work: Callable[[Request], None] = lambda _: None) -> None:
        self.finished: Counter[str] = Counter()
        self.twice: list[str] = []
        self._queue = queue
        self._work = work
        self._held: set[str] = set()
        self._lock = threading.Lock()
        self.threads = start([self._run] * count)

    def _run(self) -> None:
        for request in self._queue.listen():
            with self._lock:
                if request.key in self._held:
                    self.twice.append(request.key)
                self._held.add(request.key)
            self._work(request)
            with self._lock:
                self._held.remove(request.key)
                self.finished[request.key] += 1
            assert self._queue.done(request)

    def all_ended(self) -> bool:
        """Return whether the threads end."""
        return all_end(self.threads)


def start(functions: list[Callable[[], None]]) -> list[threading.Thread]:
    """Run each in a thread."""
    threads = [threading.Thread(target=function, daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    return threads


def all_end(threads: list[threading.Thread]) -> bool:
    """Return whether the threads end before long."""
    for thread in threads:
        thread.join(timeout=60)
    return not any(thread.is_alive() for thread in threads)


@pytest.mark.conformance("WQ-03", "WQ-07", "WQ-08", "WQ-09", "WQ-12", "WQ-14", "WQ-16")
@anywhere
@SHUTDOWNS
def test_fifty_producers_and_ten_consumers(make_queue: Make, shut_down: Callable[[Queue], object]) -> None:
    """client-go TestBasic: each adds its item 50 times; all see the end, and a later item is left."""
    queue, other = make_queue(), make_queue()
    consumers = Consumers(queue, 10)

    def produce(key: str) -> None:
        for _ in range(50):
            queue.add(key)

    keys = [f"item {number}" for number in range(50)]
    assert all_end(start([lambda key=key: produce(key) for key in keys]))  # type: ignore[misc]
    while queue.depth() or queue.held():
        consumers.threads[0].join(timeout=0.01)
    shut_down(queue)
    assert consumers.all_ended()  # a get that is just asking might still be given what is added now
    queue.add("added after shutdown!")
    with pytest.raises(ShutDown):
        queue.get(0)
    assert set(consumers.finished) == set(keys)
    assert not consumers.twice
    assert other.depth() == 1
    assert finish_all(other) == ["added after shutdown!"]


@pytest.mark.conformance("WQ-05", "WQ-06", "WQ-11", "WQ-12")
@anywhere
@SHUTDOWNS
def test_consumers_that_add_their_held_items_again(
    make_queue: Make, shut_down: Callable[[Queue], object]
) -> None:
    """client-go TestAddWhileProcessing: ten consumers add each item twice; a shutdown loses none of it."""
    queue, other = make_queue(), make_queue()
    keys = [f"item {number}" for number in range(50)]
    seen: dict[int, Counter[str]] = {}

    def work(request: Request) -> None:
        mine = seen.setdefault(threading.get_ident(), Counter())
        if mine[request.key] < 2:
            mine[request.key] += 1
            queue.add(request.key)

    consumers = Consumers(queue, 10, work)
    assert all_end(start([lambda key=key: queue.add(key) for key in keys]))  # type: ignore[misc]
    shut_down(queue)
    assert consumers.all_ended()
    assert not consumers.twice
    runs = consumers.finished + Counter(finish_all(other))
    assert set(runs) == set(keys)
    assert other.depth() == 0


@pytest.mark.conformance("PQ-17")
@anywhere
def test_twenty_producers_and_a_hundred_consumers(make_queue: Make) -> None:
    """Each producer adds 1000 items, some after a few ms; each consumer takes ten; no item comes twice."""
    queue = make_queue()
    got: list[str] = []

    def produce(number: int) -> None:
        choose = random.Random(number)
        for start_at in range(0, 1000, 20):
            after = choose.randrange(10) / 1000 if choose.random() < 0.1 else None
            queue.add(*(f"{number}-{each}" for each in range(start_at, start_at + 20)), after=after)

    def consume() -> None:
        for _ in range(10):
            got.append(queue.get(timeout=60).key)

    threads = start([consume] * 100 + [lambda number=number: produce(number) for number in range(20)])  # type: ignore[misc]
    assert all_end(threads)
    assert len(got) == len(set(got)) == 1000
    assert queue.held() == 1000


class Expected:
    """What may have been added to one item since it was last handed out.

    A reader learns of a claim a little after it was made, and items are added meanwhile; so the
    number of adds before it is one of a few, each of which the later claims must be able to follow.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._priorities: list[int] = []
        self._claimed_up_to = {0}
        self.wrong: list[str] = []

    def add(self, priority: int) -> None:
        """Note an add; to be called before it."""
        self._priorities.append(priority)

    def claim(self, priority: int) -> None:
        """Note a claim: its priority is the highest of the adds since the claim before."""
        adds = self._priorities
        self._claimed_up_to = {
            upto
            for since in self._claimed_up_to
            for upto in range(since + 1, len(adds) + 1)
            if max(adds[since:upto]) == priority
        }
        if not self._claimed_up_to:
            self.wrong.append(f"priority {priority} after {adds}")

    def is_complete(self) -> bool:
        """Return whether every claim was right and the last may have come after the last add."""
        return not self.wrong and len(self._priorities) in self._claimed_up_to


@pytest.mark.conformance("PQ-20", "PQ-03", "WQ-12")
@anywhere
def test_each_claim_has_the_highest_priority_that_was_added_since_the_one_before(make_queue: Make) -> None:
    """controller-runtime TestFuzzPriorityQueue: 10 writers of few keys, now or later, and 20 readers."""
    handles = [make_queue(), make_queue()]
    expected = {f"key {number}": Expected() for number in range(20)}

    def write(number: int) -> None:
        choose = random.Random(number)
        for _ in range(100):
            key, priority = choose.choice(list(expected)), choose.randrange(-5, 6)
            after = choose.choice([None, None, choose.randrange(10) / 1000])
            with expected[key].lock:
                expected[key].add(priority)
                handles[number % 2].add(key, priority=priority, after=after)

    def claimed(request: Request) -> None:
        with expected[request.key].lock:
            expected[request.key].claim(request.priority)

    consumers = [Consumers(queue, 10, claimed) for queue in handles]
    assert all_end(start([lambda number=number: write(number) for number in range(10)]))  # type: ignore[misc]
    while not all(item.is_complete() or item.wrong for item in expected.values()):
        consumers[0].threads[0].join(timeout=0.01)
    for queue in handles:
        queue.shut_down()
    assert all(each.all_ended() for each in consumers)
    assert not [item.wrong for item in expected.values() if item.wrong]
    assert not any(each.twice for each in consumers)
