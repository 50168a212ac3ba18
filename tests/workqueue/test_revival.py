"""An item that is dead for a reason that may pass gets another attempt after ``revive_dead_after``."""

import re
from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry

from distq.dashboard import create_app
from distq.errors import ConfigError, TerminalError
from distq.inspector import Inspector
from distq.prometheus import PrometheusMetrics
from distq.redisio.connection import Connection
from distq.workqueue.memory import MemoryQueue
from distq.workqueue.queue import Queue
from tests.support.redis_servers import anywhere
from tests.workqueue.conftest import ServerTime
from tests.workqueue.failing import fail, item_of, nothing_to_claim

AFTER = 900.0
MakeQueue = Callable[..., Queue]


@anywhere
class TestEverywhere:
    """In Redis and in memory."""

    def test_an_item_that_failed_too_often_gets_one_attempt_after_that_time(
        self, make_queue: MakeQueue, server_time: ServerTime
    ) -> None:
        """Not a moment sooner, with its failures; it is dead again at the next, and comes back again."""
        queue = make_queue(max_retries=0, revive_dead_after=AFTER)
        assert fail(queue, "a").kind == "dead"
        for failures in (1, 2):
            server_time.advance(AFTER - 1e-6)
            assert nothing_to_claim(queue)
            server_time.advance(1e-6)
            request = queue.get(timeout=0)
            assert request.attempt == failures + 1
            assert queue.settle(request, ValueError("again"))
        server_time.advance(AFTER)
        queue.settle(queue.get(timeout=0))
        assert queue.num_requeues("a") == 0
        server_time.advance(AFTER)
        assert nothing_to_claim(queue)

    def test_an_item_that_a_reconcile_gave_up_for_good_stays_dead(
        self, make_queue: MakeQueue, server_time: ServerTime
    ) -> None:
        """Time does not fix a TerminalError; a change of the object may."""
        queue = make_queue(revive_dead_after=AFTER)
        assert fail(queue, "a", TerminalError("never")).kind == "dead"
        server_time.advance(10 * AFTER)
        assert nothing_to_claim(queue)
        queue.add("a")
        assert queue.get(timeout=0).key == "a"

    def test_a_handle_without_it_revives_nothing(
        self, make_queue: MakeQueue, server_time: ServerTime
    ) -> None:
        """The setting of the claiming handle counts, also for items that became dead by another before."""
        without, with_it = make_queue(max_retries=0), make_queue(revive_dead_after=AFTER)
        fail(without, "a")
        server_time.advance(AFTER)
        assert nothing_to_claim(without)
        assert with_it.get(timeout=0).key == "a"

    def test_items_that_became_dead_first_come_first(
        self, make_queue: MakeQueue, server_time: ServerTime
    ) -> None:
        """It is pending since its time was over, and has the priority 0."""
        queue = make_queue(max_retries=0, revive_dead_after=AFTER)
        for key in ("c", "b", "a"):
            fail(queue, key)
            server_time.advance(1)
        server_time.advance(AFTER)
        queue.add("later")
        queue.add("sooner", priority=1)
        assert [each.key for each in queue.turn([], 9).requests] == ["sooner", "c", "b", "a", "later"]

    def test_many_are_revived_some_at_a_time(self, make_queue: MakeQueue, server_time: ServerTime) -> None:
        """No turn takes longer for them, and none is forgotten."""
        queue = make_queue(max_retries=0, revive_dead_after=AFTER)
        for number in range(250):
            fail(queue, f"item-{number}")
        server_time.advance(AFTER)
        revived = [queue.turn([], 1).revived for _ in range(4)]
        assert revived == [100, 100, 50, 0]
        assert queue.depth() == 246


def test_a_person_who_parks_by_hand_decides_alone(
    make_queue: MakeQueue, server_time: ServerTime, connection: Connection
) -> None:
    """Items parked or requeued by hand are not revived, and deleted ones do not come back."""
    queue, inspector = make_queue(max_retries=0, revive_dead_after=AFTER), Inspector(connection)
    for key in ("parked again", "requeued", "deleted"):
        fail(queue, key)
    inspector.requeue("foos", "parked again", "requeued")
    inspector.park("foos", "parked again", reason="not now")
    inspector.delete("foos", "deleted")
    assert queue.get(timeout=0).key == "requeued"
    server_time.advance(AFTER)
    assert nothing_to_claim(queue)


def test_an_item_that_killed_its_workers_gets_one_more(
    make_queue: MakeQueue, server_time: ServerTime, connection: Connection
) -> None:
    """It is dead after the third worker, revived, and dead after the fourth."""
    living = make_queue(revive_dead_after=AFTER)
    living.turn([], 0)
    living.add("poison")
    for deaths in (1, 2, 3, 4):
        assert make_queue(revive_dead_after=AFTER).get(timeout=0).key == "poison"
        server_time.lapse(living)
        if deaths >= 3:
            item = item_of(Inspector(connection), "poison")
            assert (item.state, item.reason) == ("dead", "crashes")
            for _ in range(100):
                server_time.lapse(living)


def test_the_inspector_shows_when_an_item_became_dead_and_that_it_was_revived(
    make_queue: MakeQueue, server_time: ServerTime, connection: Connection
) -> None:
    """The moment is shown as of any other dead item; the trace records the revival."""
    queue, inspector = make_queue(max_retries=0, revive_dead_after=AFTER), Inspector(connection)
    queue.add("a")
    inspector.trace_on("foos", seconds=10 * AFTER)
    fail(queue, "a")
    item = item_of(inspector, "a")
    assert (item.state, item.reason, item.since) == ("dead", "retries", connection.server_time / 1e6)
    server_time.advance(AFTER)
    queue.get(timeout=0)
    item = item_of(inspector, "a")
    assert (item.state, item.failures, item.reason) == ("processing", 1, None)
    events = [(event.kind, event.event) for event in inspector.trace("foos", "a")]
    assert events[-2:] == [
        ("revived", "revived: it was dead for long enough"),
        ("claimed", "claimed, waited 0 µs"),
    ]


def test_people_see_when_an_item_will_be_revived(
    make_queue: MakeQueue, server_time: ServerTime, connection: Connection
) -> None:
    """By the shortest time of the open handles; a lasting reason, or no reviving handle, gives no moment."""
    server_time.advance(0)
    reviving, inspector = make_queue(max_retries=0, revive_dead_after=AFTER), Inspector(connection)
    fail(reviving, "a")
    fail(reviving, "b", TerminalError("never"))
    item = item_of(inspector, "a")
    assert item.since is not None
    assert item.due == pytest.approx(item.since + AFTER)
    assert item_of(inspector, "b").due is None
    sooner = make_queue(revive_dead_after=60.0)
    sooner.turn([], 0)
    dead = {item.key: item.due for item in inspector.items("foos", state="dead")}
    assert dead == {"a": pytest.approx(item.since + 60), "b": None}
    page = create_app(inspector).test_client().get("/queues/foos?state=dead").text
    assert re.search(r'data-label="Revived"><time [^>]*>in 1m0s<', page), page
    page = create_app(inspector).test_client().get("/queues/foos/items/a").text
    assert re.search(r"<dt>Revived</dt><dd><time [^>]*>in 1m0s<", page), page
    sooner.close()
    reviving.close()
    assert item_of(inspector, "a").due is None


def test_an_item_that_is_parked_before_its_revival_stays_dead(
    make_queue: MakeQueue, server_time: ServerTime, connection: Connection
) -> None:
    """It has the reason that was given, and its failures; what nothing revives is left as it is."""
    queue, inspector = make_queue(max_retries=0, revive_dead_after=AFTER), Inspector(connection)
    fail(queue, "a")
    fail(queue, "b", TerminalError("never"))
    server_time.advance(1)
    assert inspector.park("foos", "a", "b", reason="not now") == 1
    item = item_of(inspector, "a")
    assert (item.state, item.reason, item.last_error, item.failures) == ("dead", "parked", "not now", 1)
    assert (item.since, item.due) == (connection.server_time / 1e6, None)
    assert item_of(inspector, "b").reason == "terminal"
    assert inspector.park("foos", "a", reason="again") == 0
    server_time.advance(AFTER)
    assert nothing_to_claim(queue)


def test_revivals_are_counted(make_queue: MakeQueue, server_time: ServerTime) -> None:
    """By the handle that made the turn; each is an add, too."""
    registry = CollectorRegistry()
    queue = make_queue(max_retries=0, revive_dead_after=AFTER, metrics=PrometheusMetrics(registry))
    fail(queue, "a")
    server_time.advance(AFTER)
    queue.get(timeout=0)
    sample = registry.get_sample_value
    assert sample("distq_revived_items_total", {"name": "foos"}) == 1
    assert sample("workqueue_adds_total", {"name": "foos", "controller": "foos"}) == 2


@pytest.mark.parametrize("after", [0, -1, float("nan"), float("inf"), "900", True])
def test_a_value_that_is_no_time_is_refused(after: float, connection: Connection) -> None:
    """With a ConfigError that says what may be given."""
    with pytest.raises(ConfigError, match="bad revive_dead_after"):
        Queue("foos", connection, revive_dead_after=after)
    with pytest.raises(ConfigError, match="bad revive_dead_after"):
        MemoryQueue("foos", revive_dead_after=after)
