"""Queues where at most so many items of a namespace are claimed at a time, in the whole fleet."""

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from distq.controller.controller import Controller
from distq.controller.worker.dispatcher import Dispatcher
from distq.errors import ConfigError, Empty, RetryAfter
from distq.inspector.inspector import Inspector
from distq.redisio.connection import Connection
from distq.redisio.queue_store import QueueStore
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.support.claims import finish_all
from tests.support.redis_servers import anywhere
from tests.workqueue.conftest import ServerTime

MakeQueue = Callable[..., Queue]


@pytest.fixture
def bounded(make_queue: MakeQueue) -> Callable[[int | None], Queue]:
    """Return what makes handles of one fair queue with a limit."""

    def make(limit: int | None) -> Queue:
        queue = make_queue(fair_by="namespace")
        queue.fleet_concurrency_per_flow = limit
        return queue

    return make


Bounded = Callable[[int | None], Queue]


def claims(queue: Queue) -> Iterator[Request]:
    """Claim all items that the limits allow."""
    while True:
        try:
            yield queue.get(timeout=0)
        except Empty:
            return


def keys(queue: Queue) -> list[str]:
    """Claim what one may; return its keys."""
    return [request.key for request in claims(queue)]


def slow(count: int) -> list[str]:
    """Return the keys of so many items of one namespace."""
    return [f"slow/{number}" for number in range(count)]


def first_of(count: int, queue: Queue) -> Request:
    """Add so many items of one namespace; claim the first, while no other may be claimed."""
    queue.add(*slow(count))
    (request,) = claims(queue)
    assert request.key == "slow/0"
    return request


def one_by_one(queue: Queue, *outcomes: Exception | None, server_time: ServerTime | None = None) -> list[str]:
    """Claim an item, while no other may be claimed, and settle it so, again and again; return the keys.

    With the server's time there is a look between them.
    """
    order = []
    for outcome in outcomes:
        if server_time is not None:
            server_time.advance(0.2)
        (request,) = claims(queue)
        order.append(request.key)
        assert queue.settle(request, outcome)
    return order


@pytest.mark.conformance("PQ-25")
@anywhere
def test_so_many_items_of_a_namespace_are_claimed_at_a_time(bounded: Bounded) -> None:
    """In all handles together; items that other namespaces add are claimed beside them."""
    one, other = bounded(2), bounded(2)
    one.add(*slow(10), "a/1", "b/1", "bare")
    found = [one.get(timeout=0).key, *keys(other)]
    assert sorted(found) == ["a/1", "b/1", "bare", "slow/0", "slow/1"]
    other.add("slow/late", "c/1")
    assert keys(one) == ["c/1"]


@pytest.mark.conformance("PQ-25")
@anywhere
def test_as_a_claim_ends_the_next_of_its_namespace_is_claimed(bounded: Bounded) -> None:
    """However it ends, and in the order of the adds."""
    queue = bounded(1)
    queue.add(*slow(5))
    assert one_by_one(queue, None, RetryAfter(60), None, None) == slow(4)


@anywhere
def test_an_item_that_is_put_back_comes_before_those_that_are_held_back(bounded: Bounded) -> None:
    """It has its old place."""
    queue = bounded(1)
    queue.release(first_of(5, queue))
    assert keys(queue) == ["slow/0"]


@anywhere
def test_an_item_that_is_added_again_while_claimed_comes_behind_them(bounded: Bounded) -> None:
    """It waits for its turn as any other."""
    queue = bounded(1)
    request = first_of(3, queue)
    queue.add("slow/0")
    queue.done(request)
    assert keys(queue) == ["slow/1"]


@anywhere
def test_a_raised_item_comes_before_those_that_are_held_back(bounded: Bounded) -> None:
    """As where there is no limit; it counts as pending before."""
    queue = bounded(1)
    request = first_of(9, queue)
    assert queue.add("slow/5", priority=10) == 0
    assert queue.add("slow/7", priority=5) == 0
    assert queue.add("slow/4", priority=-10) == 0
    assert keys(queue) == []
    queue.done(request)
    assert one_by_one(queue, None, None, None, None) == ["slow/5", "slow/7", "slow/1", "slow/2"]


@pytest.mark.usefixtures("server_time")
def test_a_raise_with_a_delay_wakes_a_worker_for_the_item_that_was_held_back(
    bounded: Bounded, connection: Connection
) -> None:
    """It is pending now, and no delay is of it; though another worker sees to the next due time."""
    queue, store = bounded(1), QueueStore(connection, "foos")
    request = first_of(4, queue)
    connection.execute("DEL", store.key("wake"))
    connection.execute("HSET", store.key("meta"), "cover", str(connection.server_time + 1_000_000))
    store.run("add_after", items=["slow/3"], priority=5, max_length="", delay=60_000_000)
    assert store.read(("ZCARD", "ready"), ("ZCARD", "held_back"), ("LLEN", "wake")) == [1, 2, 1]
    queue.done(request)
    assert keys(queue) == ["slow/3"]


@anywhere
def test_a_namespace_at_its_limit_lets_a_higher_priority_of_its_own_go_first(bounded: Bounded) -> None:
    """Items that were let in before wait behind it."""
    queue = bounded(1)
    queue.done(first_of(5, queue))
    queue.add("slow/urgent", "slow/urgent too", priority=100)
    request = queue.get(timeout=0)
    queue.add("other/1", priority=50)
    assert (request.key, queue.get(timeout=0).key) == ("slow/urgent", "other/1")
    queue.done(request)
    request = queue.get(timeout=0)
    queue.done(request)
    assert (request.key, keys(queue)) == ("slow/urgent too", ["slow/1"])


@anywhere
def test_namespaces_below_their_limits_share_alike_with_one_at_its_limit(bounded: Bounded) -> None:
    """An item that comes back gets only its turn, although it waited for long."""
    queue = bounded(2)
    for name in "abc":
        queue.add(*(f"{name}/{number:03}" for number in range(100)))
    held = [queue.get(timeout=0) for _ in range(4)]
    counts = Counter[str]()
    for _ in range(90):
        queue.done(held.pop(0))
        request = queue.get(timeout=0)
        counts[request.key[0]] += 1
        held.append(request)
        assert max(Counter(each.key[0] for each in held).values()) <= 2
    assert max(counts.values()) - min(counts[name] for name in "abc") <= 2


@anywhere
def test_a_limit_that_was_raised_lets_in_more(bounded: Bounded, server_time: ServerTime) -> None:
    """With the next look, which comes ten times a second."""
    queue = bounded(1)
    first_of(6, queue)
    queue.fleet_concurrency_per_flow = 3
    server_time.advance(0.2)
    assert keys(queue) == ["slow/1", "slow/2"]


@anywhere
def test_a_limit_that_is_gone_holds_nothing_back(bounded: Bounded) -> None:
    """A hundred items come back with each turn."""
    queue = bounded(1)
    first_of(250, queue)
    queue.fleet_concurrency_per_flow = None
    assert len(keys(queue)) == 249


def test_nothing_is_left_of_limits_once_the_work_is_done(bounded: Bounded, connection: Connection) -> None:
    """Bounded state: no namespace leaves anything; without a limit nor does the queue."""
    queue, store = bounded(2), QueueStore(connection, "foos")
    queue.add(*(f"n{number % 3}/{number}" for number in range(30)))
    held = list(claims(queue))
    while held:
        queue.done(held.pop())
        held += claims(queue)
    assert store.read(("ZCARD", "held_back"), ("ZCARD", "flow_items"), ("ZCARD", "flows")) == [0, 0, 0]
    queue.fleet_concurrency_per_flow = None
    queue.add("a/1")
    finish_all(queue)
    assert store.read(("HEXISTS", "meta", "bounded")) == [0]


def test_a_queue_without_a_limit_has_no_further_keys(connection: Connection) -> None:
    """A limit that is not set costs nothing."""
    queue, store = Queue("foos", connection, fair_by="namespace"), QueueStore(connection, "foos")
    queue.add("a/1", "a/2")
    queue.get(timeout=0)
    assert store.read(("EXISTS", "held_back"), ("EXISTS", "flow_items"), ("HEXISTS", "meta", "bounded")) == [
        0,
        0,
        0,
    ]


def test_the_claims_of_a_process_that_died_hold_nothing_back_for_long(
    bounded: Bounded, connection: Connection, server_time: ServerTime
) -> None:
    """They come back as any claims do, first of their namespace."""
    dead, queue = bounded(1), bounded(1)
    dead.add("slow/0", "slow/1", "a/1")
    first = dead.get(timeout=0)
    assert keys(queue) == ["slow/0" if first.key == "a/1" else "a/1"]
    store = QueueStore(connection, "foos")
    (session,) = store.read(("ZSCORE", "processing", first.key))
    store.read(("ZADD", "sessions", 0, session))
    server_time.advance(1)
    assert keys(queue) == [first.key]


@pytest.mark.parametrize("how", ["delete", "park"])
def test_repairs_find_the_items_that_are_held_back(
    bounded: Bounded, connection: Connection, server_time: ServerTime, how: str
) -> None:
    """And what was let in: the next of its namespace is found with the next look."""
    queue, store = bounded(1), QueueStore(connection, "foos")
    queue.done(first_of(4, queue))  # lets in the next
    gone = ["slow/1", "slow/2"]
    assert (store.delete(gone) if how == "delete" else store.park(gone, "by hand")) == 2
    server_time.advance(0.2)
    assert keys(queue) == ["slow/3"]


@pytest.mark.parametrize("how", ["delete", "park", "raise"])
def test_a_session_is_woken_when_another_suspect_is_the_first(
    bounded: Bounded, connection: Connection, how: str
) -> None:
    """The one before waited for the end of a claim of its namespace, and this one waited behind it."""
    holder, other, store = bounded(1), bounded(1), QueueStore(connection, "foos")
    holder.add("slow/held")
    assert keys(holder) == ["slow/held"]
    holder.add("slow/suspect", "z/suspect")
    connection.execute("HSET", store.key("failures"), "slow/suspect", "0 2 0 - ", "z/suspect", "0 2 0 - ")
    assert keys(other) == []
    assert store.read(("LLEN", "wake")) == [0]
    if how == "raise":
        holder.add("z/suspect", priority=5)
    else:
        assert (
            store.delete(["slow/suspect"]) if how == "delete" else store.park(["slow/suspect"], "no")
        ) == 1
    assert store.read(("LLEN", "wake")) == [1]
    assert keys(other) == ["z/suspect"]


def test_held_back_items_are_ready_to_people(bounded: Bounded, connection: Connection) -> None:
    """They count as ready, and are listed so."""
    queue, inspector = bounded(1), Inspector(connection)
    first_of(4, queue)
    (info,) = [each for each in inspector.queues() if each.name == "foos"]
    assert (info.ready, info.held_back) == (3, 3)
    item = inspector.item("foos", "slow/3")
    assert item is not None
    assert (item.state, item.held_back) == ("ready", True)
    (flow,) = inspector.flows("foos").flows
    assert (flow.ready, flow.held_back, flow.processing) == (3, 3, 1)


def test_held_back_items_take_room(make_queue: MakeQueue) -> None:
    """As all do that wait."""
    queue = make_queue(fair_by="namespace", max_length=4)
    queue.fleet_concurrency_per_flow = 1
    first_of(4, queue)
    queue.add("a/1", "slow/3")
    with pytest.raises(Exception, match="is full"):
        queue.add("b/1")


@pytest.mark.parametrize("lost", ["flow_items", "bounded"])
def test_lost_limits_hold_no_item_for_ever(
    bounded: Bounded, connection: Connection, server_time: ServerTime, lost: str
) -> None:
    """Redis may go back to an older copy, or a person may delete a key: a look finds items held back."""
    queue, store = bounded(1), QueueStore(connection, "foos")
    request = first_of(5, queue)
    if lost == "bounded":
        connection.execute("HDEL", store.key("meta"), "bounded")
    else:
        connection.execute("DEL", store.key("flow_items"))
    queue.done(request)
    assert one_by_one(queue, None, None, None, None, server_time=server_time) == slow(5)[1:]


@pytest.mark.parametrize("lost", ["bounded", "fair_by"])
def test_items_that_are_held_back_come_back_where_redis_has_no_record_of_a_limit(
    bounded: Bounded, connection: Connection, server_time: ServerTime, lost: str
) -> None:
    """A person deleted the field, or the field that makes the queue fair, which ends its limits."""
    queue, store = bounded(1), QueueStore(connection, "foos")
    request = first_of(5, queue)
    connection.execute("HDEL", store.key("meta"), lost)
    if lost == "bounded":
        queue.fleet_concurrency_per_flow = None
    server_time.advance(0.2)
    assert keys(queue) == slow(5)[1:]
    assert queue.done(request)


def test_claims_that_an_older_distq_ended_count_no_longer(
    bounded: Bounded, connection: Connection, server_time: ServerTime
) -> None:
    """It knows nothing of limits: its entries are dropped as soon as they would hold back anything."""
    queue, store = bounded(1), QueueStore(connection, "foos")
    first_of(2, queue)
    for structure, command in (("processing", "ZREM"), ("claims", "HDEL")):
        connection.execute(command, store.key(structure), "slow/0")
    server_time.advance(0.2)
    assert keys(queue) == ["slow/1"]


@pytest.mark.parametrize("score", ["0", "-7", "+inf"])
@pytest.mark.parametrize(
    "entry",
    [
        b"",
        b"odd",
        b"slow\0",
        b"slow\0w",
        b"slow\0w1234567",
        b"slow\0k12345678slow/9",
        b"\xff\0c\0",
        b"a\0ca/1",
        b"z\0lz/1",
    ],
)
def test_unreadable_limits_harm_no_item(
    bounded: Bounded, connection: Connection, server_time: ServerTime, entry: bytes, score: str
) -> None:
    """Each item is claimed once; a look drops what no script wrote, wherever its score puts it."""
    queue, store = bounded(1), QueueStore(connection, "foos")
    request = first_of(3, queue)
    connection.execute("ZADD", store.key("flow_items"), score, entry)
    server_time.advance(0.2)
    queue.done(request)
    assert one_by_one(queue, None, None, server_time=server_time) == ["slow/1", "slow/2"]
    assert keys(queue) == []
    assert store.read(("ZCARD", "flow_items")) == [0]


@pytest.mark.parametrize(("entry", "score"), [(b"a\0ca/1", "+inf"), (b"z\0cz/1", "-7")])
def test_claims_count_for_a_limit_with_any_scores(
    bounded: Bounded, connection: Connection, server_time: ServerTime, entry: bytes, score: str
) -> None:
    """A look puts an entry back to its flow, before it counts."""
    queue, store = bounded(1), QueueStore(connection, "foos")
    queue.add("a/1", *slow(3), "z/1")
    assert sorted(keys(queue)) == ["a/1", "slow/0", "z/1"]
    assert connection.execute("ZADD", store.key("flow_items"), "XX", "CH", score, entry) == 1
    queue.add("z/2")
    server_time.advance(0.2)
    assert keys(queue) == []


def test_a_user_who_ends_that_a_queue_is_fair_ends_its_limits(
    bounded: Bounded, connection: Connection
) -> None:
    """There are no flows any more; items that were held back come back in their order."""
    queue, store = bounded(1), QueueStore(connection, "foos")
    request = first_of(4, queue)
    store.share("none")
    assert keys(queue) == ["slow/1", "slow/2", "slow/3"]
    assert queue.done(request)


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "3"])
def test_a_bad_limit_is_refused_with_a_remedy(make_queue: MakeQueue, limit: object) -> None:
    """And nothing changes."""
    queue = make_queue(fair_by="namespace")
    queue.fleet_concurrency_per_flow = 3
    with pytest.raises(ConfigError, match=r"^bad fleet_concurrency_per_flow .*\. Give 1 or more, or None\."):
        queue.fleet_concurrency_per_flow = limit  # type: ignore[assignment]  # what it is about
    assert queue.fleet_concurrency_per_flow == 3


def test_a_limit_needs_a_fair_queue(make_queue: MakeQueue, connection: Connection) -> None:
    """Without flows it limits nothing: the error gives the remedy, at a Queue and at a Controller."""
    remedy = r'Give fair_by="namespace", too\.'
    with pytest.raises(ConfigError, match=remedy):
        make_queue().fleet_concurrency_per_flow = 3
    with pytest.raises(ConfigError, match=remedy):
        Controller("foos", lambda _: None, fleet_concurrency_per_flow=3)
    controller = Controller(Queue("foos", connection), lambda _: None)
    with pytest.raises(ConfigError, match=remedy):
        Dispatcher(controller, fleet_concurrency_per_flow=3)


def test_a_controller_has_the_limit_of_its_process_before_its_own(connection: Connection) -> None:
    """As all settings of a deployment."""
    queue = Queue("foos", connection, fair_by="namespace")
    controller = Controller(queue, lambda _: None, fleet_concurrency_per_flow=3)
    assert queue.fleet_concurrency_per_flow == 3
    Dispatcher(controller, fleet_concurrency_per_flow=5)
    assert queue.fleet_concurrency_per_flow == 5
