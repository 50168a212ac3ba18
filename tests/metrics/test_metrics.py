"""A queue's metrics: client-go's of a workqueue, and those of a queue that many share."""

from collections.abc import Iterator

import pytest

from distq.errors import RetryAfter, TerminalError
from distq.inspector import Inspector
from distq.metrics import (
    ADDS,
    CANCELLED,
    DEAD,
    DELAYED,
    DEPTH,
    DIRTY,
    FAILING,
    LONGEST_RUNNING,
    OLDEST_READY,
    PAUSED,
    PROCESSING,
    QUEUE_DURATION,
    READY,
    REDIS_UP,
    REFUSED,
    RETRIES,
    UNFINISHED_WORK,
    WORK_DURATION,
    WORKERS,
    Metric,
)
from distq.redisio.connection import Connection
from distq.redisio.queue_store import QueueStore
from distq.testing import FakeClock, MemoryQueue
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.gauges import EXCEEDED, LEVELS, PAGE, UNKNOWN, QueueGauges
from distq.workqueue.interface import Result
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.support.counting_connection import CountingConnection
from tests.support.recorded_metrics import RecordedMetrics

NAME = ("foos",)
BOTH = ("foos", "foos")


class Scene:
    """A measured handle of a queue, and a time that the test moves, for it and for the server."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        connection.server_time = 1_795_000_000_000_000
        self.clock = FakeClock()
        self.metrics = RecordedMetrics()
        self.handles: list[Queue] = []
        self.queue = self.handle(metrics=self.metrics)
        self.gauges = QueueGauges(self.queue)
        self.metrics.expose(self.gauges)

    def handle(self, **arguments: object) -> Queue:
        """Make a handle of the queue."""
        queue = Queue("foos", self.connection, clock=self.clock, **arguments)  # type: ignore[arg-type]  # the test's
        self.handles.append(queue)
        return queue

    def step(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.step(seconds)
        self.connection.server_time += round(seconds * 1e6)

    def get(self) -> Request:
        """Claim the next item."""
        return self.queue.get(timeout=0)

    def counted(self, metric: Metric) -> int:
        """Return a counter of the queue."""
        return self.metrics.counters[metric, NAME * len(metric.labels)]

    def observed(self, metric: Metric) -> list[float]:
        """Return the values of a histogram of the queue."""
        return self.metrics.observed[metric, BOTH]

    def gauge(self, metric: Metric) -> float:
        """Return a gauge of the queue."""
        return self.metrics.gauges()[metric, NAME * len(metric.labels)]

    def depth(self) -> dict[str, float]:
        """Return how many items are pending at each priority, those with none left out."""
        gauges = self.metrics.gauges().items()
        return {labels[2]: value for (metric, labels), value in gauges if metric is DEPTH and value}


@pytest.fixture
def scene(connection: Connection) -> Iterator[Scene]:
    """Give a measured queue."""
    scene = Scene(connection)
    yield scene
    scene.gauges.close()
    for queue in scene.handles:
        queue.close()


@pytest.mark.conformance("MX-02", "RD-17")
def test_the_metrics_of_one_key_are_those_of_client_go(scene: Scene) -> None:
    """Adds, depth, latency and work of a key that is added again while it is processed.

    The latency of such a key runs from the add, not from the moment at which it could be claimed.
    """
    scene.queue.add("a")
    assert (scene.counted(ADDS), scene.depth()) == (1, {"0": 1})
    scene.step(50e-6)
    request = scene.get()
    assert scene.observed(QUEUE_DURATION) == pytest.approx(
        [50e-6], abs=2e-6
    )  # each turn takes a µs of its own
    assert scene.depth() == {}
    for _ in range(5):
        scene.queue.add("a")
    assert (scene.counted(ADDS), scene.depth()) == (2, {"0": 1})
    scene.step(25e-6)
    assert scene.queue.done(request)
    assert scene.observed(WORK_DURATION) == pytest.approx([25e-6], abs=2e-6)
    assert (scene.counted(ADDS), scene.depth()) == (2, {"0": 1})
    request = scene.get()
    assert scene.observed(QUEUE_DURATION) == pytest.approx([50e-6, 25e-6], abs=2e-6)
    scene.step(1e-3)
    assert scene.gauge(UNFINISHED_WORK) == pytest.approx(1e-3, abs=2e-6)
    assert scene.gauge(LONGEST_RUNNING) == pytest.approx(1e-3, abs=2e-6)
    assert scene.queue.done(request)
    assert scene.observed(WORK_DURATION) == pytest.approx([25e-6, 1e-3], abs=2e-6)
    assert (scene.gauge(UNFINISHED_WORK), scene.gauge(LONGEST_RUNNING)) == (0, 0)
    assert scene.counted(RETRIES) == 0


@pytest.mark.conformance("MX-03", "RD-16")
def test_depth_counts_waiting_items_and_each_state_has_its_gauge(scene: Scene) -> None:
    """Dirty items count, delayed ones only once they are due; each state has a gauge of its own."""
    scene.queue.add("a", "b", "poison", "ready")
    held = [scene.get() for _ in range(3)]
    scene.queue.settle(held[2], TerminalError("no"))
    scene.queue.add("a")
    scene.queue.add_after("later", 5.0)
    assert scene.depth() == {"0": 2}
    assert scene.queue.depth() == 2
    states = {READY: 1, DELAYED: 1, PROCESSING: 2, DIRTY: 1, DEAD: 1, FAILING: 1, WORKERS: 1, PAUSED: 0}
    assert {metric: scene.gauge(metric) for metric in states} == states
    scene.step(6.0)
    assert scene.depth() == {"0": 3}
    assert scene.gauge(OLDEST_READY) == pytest.approx(6.0, abs=0.01)
    Inspector(scene.connection).pause("foos")
    assert scene.gauge(PAUSED) == 1


@pytest.mark.conformance("MX-01")
def test_a_handle_that_was_shut_down_exposes_no_gauges(scene: Scene) -> None:
    """No process looks into Redis for it any more, even after an hour."""
    scene.queue.add("a")
    scene.get()
    scene.step(1.0)
    assert scene.gauge(UNFINISHED_WORK) == pytest.approx(1.0, abs=1e-3)
    scene.queue.shut_down()
    scene.step(3600.0)
    calls = scene.metrics.calls
    assert scene.metrics.gauges() == {}
    assert scene.metrics.calls == calls


@pytest.mark.conformance("MX-04")
def test_gauges_count_the_fleet_and_counters_count_one_handle(scene: Scene) -> None:
    """Gauges count the claims of all processes; counters count this one's, so that a sum is right."""
    others = RecordedMetrics()
    other = scene.handle(metrics=others)
    other.add("a", "b")
    first, second = other.get(0), scene.get()
    scene.step(2.0)
    assert scene.gauge(PROCESSING) == 2
    assert scene.gauge(UNFINISHED_WORK) == pytest.approx(4.0, abs=1e-3)
    assert scene.gauge(LONGEST_RUNNING) == pytest.approx(2.0, abs=1e-3)
    assert other.done(first)
    assert scene.queue.done(second)
    for metric in (QUEUE_DURATION, WORK_DURATION):
        assert len(scene.observed(metric)) == len(others.observed[metric, BOTH]) == 1
    assert (scene.counted(ADDS), others.counters[ADDS, BOTH]) == (0, 2)


class TestPriorities:
    """Items that come later, and priorities (controller-runtime's priority queue)."""

    pytestmark = pytest.mark.conformance("PQ-13")

    def test_an_item_is_an_add_once_it_is_pending(self, scene: Scene) -> None:
        """A delayed item is a retry at once, and an add when a turn promotes it."""
        scene.queue.add("a", after=1.0, priority=7)
        assert (scene.counted(RETRIES), scene.counted(ADDS), scene.depth()) == (1, 0, {})
        scene.step(1.5)
        assert scene.depth() == {"7": 1}
        scene.get()
        assert (scene.counted(RETRIES), scene.counted(ADDS), scene.depth()) == (1, 1, {})
        assert scene.observed(QUEUE_DURATION) == pytest.approx([0.5], abs=1e-3)

    def test_a_delayed_item_that_is_added_now_is_one_add(self, scene: Scene) -> None:
        """The add ends the delay, so nothing becomes pending a second time."""
        scene.queue.add("a", after=1.0)
        scene.queue.add("a", priority=3)
        assert (scene.counted(ADDS), scene.depth()) == (1, {"3": 1})
        scene.step(2.0)
        scene.queue.done(scene.get())
        assert scene.counted(ADDS) == 1

    def test_a_raise_moves_an_item_between_priorities(self, scene: Scene) -> None:
        """It is no add; the level that it left is reported as empty."""
        scene.queue.add("a")
        scene.queue.add("a", priority=5)
        assert (scene.counted(ADDS), scene.depth()) == (1, {"5": 1})
        assert scene.metrics.gauges()[DEPTH, (*BOTH, "0")] == 0

    def test_a_delay_of_nothing_is_no_retry(self, scene: Scene) -> None:
        """It is an add."""
        scene.queue.add_after("a", 0)
        scene.queue.add_after("b", 0.0)
        assert (scene.counted(RETRIES), scene.counted(ADDS)) == (0, 2)

    @pytest.mark.parametrize(
        ("distinct", "labels"),
        [(LEVELS - 1, LEVELS - 1), (LEVELS, LEVELS), (LEVELS + 1, LEVELS + 1), (90, 26)],
    )
    def test_many_priorities_share_a_label(self, scene: Scene, distinct: int, labels: int) -> None:
        """25 have series of their own, as long as the process lives; nothing is left out."""
        priorities = range(-distinct + 1, 1)
        for priority in priorities:
            scene.queue.add(f"{priority}", f"another {priority}", priority=priority)
        depth = scene.depth()
        assert (len(depth), sum(depth.values())) == (labels, 2 * distinct)
        assert depth.get(EXCEEDED, 0) == 2 * max(0, distinct - LEVELS)
        known = set(depth)
        scene.queue.add("one more", priority=800)
        assert set(scene.depth()) - known == ({"800"} if distinct < LEVELS else {EXCEEDED} - known)

    def test_due_items_that_no_worker_promotes_are_counted(self, scene: Scene) -> None:
        """The first thousand at their priorities, the others without one: they are too many to look at."""
        for priority in (0, 4):
            scene.queue.add(
                *(f"{priority}/{number}" for number in range(PAGE)), after=1 + priority, priority=priority
            )
        scene.step(10.0)
        assert scene.depth() == {"0": PAGE, UNKNOWN: PAGE}


@pytest.mark.conformance("DQ-12")
def test_an_outcome_that_asks_for_a_delay_is_a_retry(scene: Scene) -> None:
    """Each back-off, requeue_after and RetryAfter counts; success, a terminal error and release do not."""
    settled: dict[str, tuple[Result | BaseException | None, int]] = {
        "fails": (ValueError("no"), 1),
        "waits": (RetryAfter(3.0), 1),
        "comes back": (Result(requeue_after=3.0), 1),
        "comes back at once": (Result(requeue_after=0), 0),
        "is done": (None, 0),
        "is parked": (TerminalError("no"), 0),
    }
    scene.queue.add_rate_limited("backs off")
    assert scene.counted(RETRIES) == 1
    for key, (outcome, retries) in settled.items():
        scene.queue.add(key)
        before = scene.counted(RETRIES)
        assert scene.queue.settle(scene.get(), outcome)
        assert scene.counted(RETRIES) - before == retries, key
    assert len(scene.observed(WORK_DURATION)) == len(settled)
    scene.queue.add("is released", priority=900)
    request = scene.get()
    assert request.key == "is released"
    assert scene.queue.release(request)
    assert len(scene.observed(WORK_DURATION)) == len(settled)


def test_a_claim_that_was_lost_is_counted_and_its_settlement_as_refused(scene: Scene) -> None:
    """Neither is work that was done."""
    scene.queue.add("a")
    request = scene.get()
    scene.connection.execute("FLUSHALL")
    assert not scene.queue.done(request)
    assert not scene.queue.done(request)
    assert (scene.counted(CANCELLED), scene.counted(REFUSED)) == (1, 2)
    assert scene.observed(WORK_DURATION) == []


def test_a_queue_without_a_provider_measures_nothing(connection: Connection) -> None:
    """There is no provider."""
    queue = Queue("foos", connection)
    queue.add("a")
    assert queue.done(queue.get(0))
    assert queue._recorder is None
    queue.close()


def test_a_queue_keeps_the_provider_that_it_was_made_with(scene: Scene) -> None:
    """Another one comes too late, so nothing is counted twice."""
    late = RecordedMetrics()
    scene.queue.set_metrics_provider(late)
    scene.queue.add("a")
    assert (scene.counted(ADDS), late.calls) == (1, 0)


def test_metrics_are_known_from_the_start(scene: Scene) -> None:
    """With zeros, so that an alert on a rate sees the first event."""
    assert {metric for metric, _ in scene.metrics.counters} >= {ADDS, RETRIES, REFUSED, CANCELLED}
    assert {metric for metric, _ in scene.metrics.observed} == {QUEUE_DURATION, WORK_DURATION}


def test_an_unreachable_redis_is_reported_and_nothing_else() -> None:
    """A value that cannot be known is left out, not guessed."""
    queue = Queue("foos", "redis://127.0.0.1:1")
    assert QueueGauges(queue)() == [(REDIS_UP, NAME, 0.0)]


def test_a_look_costs_the_same_for_a_longer_queue(scene: Scene) -> None:
    """The number of commands depends on priorities and claims, not on the number of items."""

    def commands() -> int:
        info = scene.connection.execute("INFO", "stats").decode()
        return int(info.partition("total_commands_processed:")[2].split()[0])

    def cost() -> int:
        before = commands()
        scene.metrics.gauges()
        return commands() - before

    scene.queue.add("a")
    cost()
    short = cost()
    scene.queue.add(*map(str, range(5000)))
    scene.queue.add(*map(str, range(9000, 9900)), after=100)
    assert cost() == short


@pytest.mark.parametrize("priorities", [1, 24])
def test_gauges_cost_the_same_round_trips_for_many_priorities_and_claims(
    scene: Scene, redis_server: EmbeddedValkey, priorities: int
) -> None:
    """Once the priorities are known; to find out about those that turn up takes some more."""
    counting = CountingConnection(redis_server.url)
    counting.server_time = scene.connection.server_time
    scene.gauges._store = QueueStore(counting, "foos")
    for priority in range(priorities):
        scene.queue.add(f"a-{priority}", f"b-{priority}", priority=-priority)
    for _ in range(priorities):
        scene.get()
    scene.metrics.gauges()
    assert counting.round_trips == (4 if priorities == 1 else 7)
    counting.round_trips = 0
    assert sum(scene.depth().values()) == priorities
    assert counting.round_trips == 4
    scene.queue.add("c", priority=7)
    assert scene.depth()["7"] == 1
    assert counting.round_trips == 11


def test_many_claims_are_all_counted(scene: Scene) -> None:
    """A scan of several pages repeats and forgets none."""
    scene.queue.add(*map(str, range(2500)))
    for _ in range(10):
        scene.queue.turn([], 250)
    scene.step(1.0)
    assert scene.gauge(UNFINISHED_WORK) == pytest.approx(2500, rel=0.01)


def test_a_memory_queue_measures_as_one_in_redis() -> None:
    """How long an item was held is the time from its claim to its end."""
    clock, metrics = FakeClock(), RecordedMetrics()
    queue = MemoryQueue("foos", clock=clock, metrics=metrics)
    queue.add("a")
    clock.step(2.0)
    request = queue.get(0)
    clock.step(3.0)
    queue.settle(request)
    assert metrics.observed[QUEUE_DURATION, BOTH] == pytest.approx([2.0], abs=1e-5)
    assert metrics.observed[WORK_DURATION, BOTH] == pytest.approx([3.0], abs=1e-5)
