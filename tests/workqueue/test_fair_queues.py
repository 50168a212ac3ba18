"""Queues that namespaces share: each gets its turn, although others have many items."""

from collections import Counter
from collections.abc import Callable

import pytest

from distq.controller.controller import Controller
from distq.errors import ConfigError, RedisRefused
from distq.inspector.inspector import Inspector
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.limits import FAIR_LOOK
from distq.redisio.queue_store import QueueStore
from distq.redisio.scores import decode_order
from distq.redisio.stream_store import Committed, StreamStore
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.support.claims import finish_all, nothing_to_claim
from tests.support.redis_servers import anywhere
from tests.workqueue.conftest import ServerTime

MakeQueue = Callable[..., Queue]


def claim(queue: Queue, count: int) -> list[Request]:
    """Claim so many items."""
    return [queue.get(timeout=0) for _ in range(count)]


def namespace(request: Request) -> str:
    """Return the namespace of a key."""
    return request.key.partition("/")[0]


@anywhere
def test_an_item_of_another_namespace_does_not_wait_for_a_backlog(make_queue: MakeQueue) -> None:
    """A thousand items of one namespace wait: those of others come among the next."""
    queue = make_queue(fair_by="namespace")
    queue.add(*(f"heavy/{number}" for number in range(1000)))
    claim(queue, 100)
    queue.add("light/a", "other/a")
    assert {"light/a", "other/a"} <= {request.key for request in claim(queue, 4)}


@pytest.mark.conformance("PQ-23")
@anywhere
def test_namespaces_that_wait_are_claimed_from_alike(make_queue: MakeQueue) -> None:
    """With any numbers of items: claims of any two differ by one at most while both wait."""
    queue = make_queue(fair_by="namespace")
    sizes = {"a": 5, "b": 60, "c": 20, "d": 200}
    for name, size in sizes.items():
        queue.add(*(f"{name}/{number}" for number in range(size)))
    claims = Counter(dict.fromkeys(sizes, 0))
    while all(claims[name] < size for name, size in sizes.items()):
        claims[namespace(claim(queue, 1)[0])] += 1
        assert max(claims.values()) - min(claims.values()) <= 1


@anywhere
def test_items_of_one_namespace_keep_the_order_of_their_adds(make_queue: MakeQueue) -> None:
    """Within a namespace nothing changes; keys without a slash are one namespace of their own."""
    queue = make_queue(fair_by="namespace")
    for number in range(6):
        queue.add(f"a/{9 - number}", f"b/{number % 3}{number}", f"bare-{9 - number}")
    found = finish_all(queue)
    assert [key for key in found if key.startswith("a/")] == [f"a/{9 - number}" for number in range(6)]
    assert [key for key in found if key.startswith("bare")] == [f"bare-{9 - number}" for number in range(6)]
    assert {key.partition("/")[0][:4] for key in found[:3]} == {"a", "b", "bare"}


@pytest.mark.conformance("PQ-23")
@anywhere
def test_a_higher_priority_comes_first_and_each_level_is_shared(make_queue: MakeQueue) -> None:
    """A share is one of a priority: no namespace comes before a higher priority of another."""
    queue = make_queue(fair_by="namespace")
    queue.add(*(f"heavy/low-{number}" for number in range(20)), priority=-100)
    queue.add("light/low", priority=-100)
    queue.add(*(f"heavy/{number}" for number in range(3)))
    found = finish_all(queue)
    assert found[:3] == ["heavy/0", "heavy/1", "heavy/2"]
    assert "light/low" in found[3:5]


@pytest.mark.conformance("PQ-23", "PQ-24")
@anywhere
@pytest.mark.parametrize(
    ("adds", "order"),
    [
        (["foo/1", "foo/2", "bar/1"], ["bar/1", "foo/1", "foo/2"]),
        (["foo/1", "foo/2", "bar/1", "bar/2"], ["bar/1", "foo/1", "bar/2", "foo/2"]),
        (["foo/1", "foo/2", "zoo/1"], ["foo/1", "zoo/1", "foo/2"]),
    ],
)
def test_items_of_one_round_come_in_the_order_of_their_keys(
    make_queue: MakeQueue, adds: list[str], order: list[str]
) -> None:
    """Whichever was added last; so the first two are those of the original's table of orders, too."""
    queue = make_queue(fair_by="namespace")
    queue.add(*adds)
    assert finish_all(queue) == order


@pytest.mark.conformance("PQ-24")
@anywhere
def test_once_nothing_waits_every_namespace_begins_anew(make_queue: MakeQueue) -> None:
    """What a namespace had before is no debt: the next round is one of all."""
    queue = make_queue(fair_by="namespace")
    queue.add(*(f"a/{number}" for number in range(5)))
    finish_all(queue)
    queue.add("b/1", "b/2", "a/1", "a/2")
    assert finish_all(queue) == ["a/1", "b/1", "a/2", "b/2"]


@pytest.mark.parametrize("added", [["b/1"], ["b/1", "b/2"]])
def test_once_nothing_of_a_priority_waits_every_namespace_begins_anew_there(
    connection: Connection, added: list[str]
) -> None:
    """Also while items wait at another priority, and after items were claimed or deleted."""
    queue, store = Queue("foos", connection, fair_by="namespace"), QueueStore(connection, "foos")
    queue.add("low/1", priority=-100)
    gone = [f"{name}/{number}" for name in "ab" for number in range(50)]
    queue.add(*gone)
    store.delete(gone)
    queue.add(*added)
    assert store.read(("ZRANGE", "flows", 0, -1)) == [[b"0 b", b"-100 low"]]
    queue.add("c/1")
    assert [request.key for request in claim(queue, 2)] == ["b/1", "c/1"]


@anywhere
def test_an_item_that_is_put_back_keeps_its_place(make_queue: MakeQueue) -> None:
    """A release costs its namespace no second share."""
    queue = make_queue(fair_by="namespace")
    queue.add("a/1", "a/2", "a/3")
    first = claim(queue, 1)[0]
    queue.add("b/1", "b/2")
    queue.release(first)
    assert claim(queue, 1)[0].key == "a/1"


@anywhere
@pytest.mark.parametrize("other_level", ["waits", "is empty"])
def test_an_item_that_is_put_back_late_lets_no_namespace_catch_up(
    make_queue: MakeQueue, other_level: str
) -> None:
    """Claims that others got while it was held are no debt to the items that are added now."""
    queue = make_queue(fair_by="namespace")
    queue.add("low/1", priority=-100)
    queue.add(*(f"a/{number:03}" for number in range(200)))
    held, *others = claim(queue, 200 if other_level == "is empty" else 100)
    queue.release(held)
    for request in others:
        queue.done(request)
    for name in "ab":
        queue.add(*(f"{name}/new-{number:03}" for number in range(50)))
    claims = Counter(map(namespace, claim(queue, 41)))
    assert abs(claims["a"] - claims["b"]) <= 1


@anywhere
@pytest.mark.parametrize("how", ["added again", "delayed", "requeued after a failure"])
def test_items_that_come_back_wait_for_their_share(
    make_queue: MakeQueue, server_time: ServerTime, how: str
) -> None:
    """Whichever way leads into the queue: no namespace gets ahead of another by it."""
    queue = make_queue(fair_by="namespace")
    queue.add(*(f"heavy/{number}" for number in range(20)))
    for request in claim(queue, 20):
        if how == "added again":
            queue.add(request.key)
            queue.done(request)
        elif how == "delayed":
            queue.done(request)
            queue.add_after(request.key, 1)
        else:
            queue.done(request)
            queue.add_rate_limited(request.key)
    server_time.advance(1)
    first = claim(queue, 1)  # what is due becomes ready with a claim
    assert namespace(first[0]) == "heavy"
    queue.add("light/a")
    assert "light/a" in {request.key for request in claim(queue, 2)}


@anywhere
def test_a_request_knows_since_when_its_item_is_pending(
    make_queue: MakeQueue, server_time: ServerTime
) -> None:
    """By the time, though its place is by its namespace."""
    queue = make_queue(fair_by="namespace")
    queue.add(*(f"heavy/{number}" for number in range(5)))
    server_time.advance(60)
    queue.add("light/a")
    at = {request.key: request.enqueued_at or 0.0 for request in claim(queue, 6)}
    assert at["light/a"] == pytest.approx(at["heavy/0"] + 60, abs=0.01)


def test_people_see_since_when_items_wait(connection: Connection, server_time: ServerTime) -> None:
    """The longest waiting one, and each of them."""
    queue, inspector = Queue("foos", connection, fair_by="namespace"), Inspector(connection)
    began = connection.server_time / 1e6
    queue.add(*(f"heavy/{number}" for number in range(50)))
    server_time.advance(60)
    claim(queue, 10)
    queue.add("light/a", "light/b")
    claim(queue, 1)
    (info,) = [each for each in inspector.queues() if each.name == "foos"]
    assert info.oldest_ready == pytest.approx(began, abs=0.01)
    light = inspector.item("foos", "light/b")
    assert light is not None
    assert light.since == pytest.approx(began + 60, abs=0.01)


@pytest.mark.bound("FAIR_LOOK")
def test_the_longest_waiting_item_is_looked_for_among_the_first_hundred(
    connection: Connection, server_time: ServerTime
) -> None:
    """With any number of items, the look costs the same."""
    queue, inspector = Queue("foos", connection, fair_by="namespace"), Inspector(connection)
    queue.add(*(f"old/{number}" for number in range(50)))
    QueueStore(connection, "foos").delete([f"old/{number}" for number in range(49)])
    server_time.advance(60)
    later = connection.server_time / 1e6
    queue.add(*(f"new-{number}/a" for number in range(FAIR_LOOK)))
    (info,) = [each for each in inspector.queues() if each.name == "foos"]
    assert info.oldest_ready == pytest.approx(later, abs=0.01)


def test_nothing_is_left_of_shares_once_the_work_is_done(connection: Connection) -> None:
    """Bounded state: neither of namespaces nor of times."""
    queue = Queue("foos", connection, fair_by="namespace")
    for number in range(20):
        queue.add(f"n{number}/a", f"n{number}/b", priority=number % 3)
    finish_all(queue)
    assert QueueStore(connection, "foos").read(("ZCARD", "flows"), ("HLEN", "arrivals")) == [0, 0]


def test_a_deleted_item_leaves_nothing(connection: Connection) -> None:
    """Nor does one that is parked."""
    queue, store = Queue("foos", connection, fair_by="namespace"), QueueStore(connection, "foos")
    queue.add("a/1", "a/2", "b/1")
    store.delete(["a/1"])
    store.park(["b/1"], "by hand")
    assert store.read(("HKEYS", "arrivals")) == [[b"a/2"]]


def test_a_queue_stays_fair_for_handles_that_do_not_say_so(connection: Connection) -> None:
    """It belongs to the queue: a producer needs no option."""
    Queue("foos", connection, fair_by="namespace").add("heavy/0")
    plain = Queue("foos", connection)
    plain.add(*(f"heavy/{number}" for number in range(1, 100)))
    plain.add("light/a")
    assert "light/a" in {request.key for request in claim(plain, 2)}


def test_a_plain_queue_has_the_order_of_its_adds_and_no_further_keys(connection: Connection) -> None:
    """Without the option nothing is paid: client-go's order."""
    queue = Queue("foos", connection)
    queue.add(*(f"heavy/{number}" for number in range(5)))
    queue.add("light/a")
    assert QueueStore(connection, "foos").read(("EXISTS", "flows"), ("EXISTS", "arrivals")) == [0, 0]
    assert finish_all(queue)[-1] == "light/a"


def test_a_user_ends_that_a_queue_is_fair(connection: Connection) -> None:
    """Pending items keep their places, and later items are behind them."""
    queue, inspector = Queue("foos", connection, fair_by="namespace"), Inspector(connection)
    queue.add("a/1", "a/2", "a/3", "b/1")
    assert inspector.fair_by("foos", None) == "namespace"
    queue.add("c/1")
    assert finish_all(queue) == ["a/1", "b/1", "a/2", "a/3", "c/1"]
    assert inspector.fair_by("foos", "namespace") is None
    with pytest.raises(ConfigError, match=r"bad fair_by .flow.\. Give namespace, or None"):
        inspector.fair_by("foos", "flow")


def test_a_handle_that_says_otherwise_than_its_queue_is_refused(connection: Connection) -> None:
    """At each call, before it changes anything, and with both ways out; others take what the queue has."""
    Queue("foos", connection, fair_by="namespace").add("a/1")
    Inspector(connection).fair_by("foos", None)
    queue = Queue("foos", connection, fair_by="namespace")
    for call in (lambda: queue.add("a/2"), lambda: queue.get(timeout=0), lambda: queue.forget("a/1")):
        with pytest.raises(ConfigError, match="queue foos is fair by none") as refused:
            call()
        assert "Leave out fair_by, or run: distq fair foos namespace" in str(refused.value)
    assert finish_all(Queue("foos", connection)) == ["a/1"]
    Inspector(connection).fair_by("foos", "namespace")
    queue.add("a/3")
    assert finish_all(queue) == ["a/3"]


def test_a_handle_that_has_begun_goes_on_though_its_queue_changes(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A user changes it where something is wrong already: no process ends by that, and one line says so."""
    monkeypatch.setattr("distq.redisio.registration.REGISTRATION_PERIOD", 0.0)  # each call looks again
    queue, inspector = Queue("foos", connection, fair_by="namespace"), Inspector(connection)
    queue.add("a/1", "a/2", "b/1")
    held = claim(queue, 1)[0]
    inspector.fair_by("foos", None)
    queue.add("c/1")
    queue.done(held)
    assert finish_all(queue) == ["b/1", "a/2", "c/1"]
    assert caplog.text.count("queue foos: fair by none now, not namespace as this process says") == 1
    inspector.fair_by("foos", "namespace")
    queue.add("a/3", "a/4", "b/2")
    assert finish_all(queue) == ["a/3", "b/2", "a/4"]


def test_a_stream_hands_its_events_over_to_any_fair_queue(
    connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """It may begin long after its process, and events have no other way into the queue."""
    Queue("foos", connection).add("a/1")
    Inspector(connection).fair_by("foos", None)
    stream = StreamStore(connection, "foos", "pods", fair_by="namespace")
    commit = Commit(epoch="1", after="", new="5", batch="b1", keys=["a/2"], known={"a/2": "1"})
    assert stream.commit(commit) == Committed(1)
    assert "queue foos: fair by none now, not namespace as this process says" in caplog.text


@pytest.mark.parametrize("who", ["a handle", "a user"])
def test_a_backlog_takes_turns_once_its_queue_is_fair(connection: Connection, who: str) -> None:
    """Also more older items than one step lets enter; each namespace keeps its order."""
    plain = Queue("foos", connection)
    plain.add(*(f"heavy/{number:03}" for number in range(600)))
    plain.add(*(f"light/{number}" for number in range(3)), "other/0")
    if who == "a user":
        Inspector(connection).fair_by("foos", "namespace")
    queue = Queue("foos", connection, fair_by="namespace")
    queue.add("light/new", "heavy/new")
    found = finish_all(queue)
    # where no user waits for it, each turn lets some enter, and claims of those
    assert {"heavy/000", "light/0", "other/0"} <= set(found[: 3 if who == "a user" else 12])
    assert [key for key in found if key.startswith("heavy")][-1] == "heavy/new"
    assert found.index("light/new") < 12
    for name in ("heavy", "light"):
        assert (of_it := [key for key in found if key.startswith(name)]) == sorted(of_it)


def test_an_item_that_is_added_while_a_queue_becomes_fair_waits_behind_older_items(
    connection: Connection,
) -> None:
    """However far that is, and whichever way it comes: no namespace loses its order."""
    queue, store = Queue("foos", connection), QueueStore(connection, "foos")
    queue.add(*(f"heavy/{number:03}" for number in range(400)))
    first, *others = claim(queue, 40)
    queue.add(*(f"light/{number:03}" for number in range(300)))
    assert store.run("share", wanted="namespace") == [b"", 1]
    queue.add("heavy/new-1", "light/new-1")
    queue.add(first.key)
    queue.done(first)  # turns go on with it
    for request in others:
        queue.done(request)
    queue.add("heavy/new-2", "light/new-2")
    assert store.read(("HMGET", "meta", "fair_by", "entered")) == [[b"namespace", None]]
    found = finish_all(queue)
    heavy = [key for key in found if key.startswith("heavy")]
    assert heavy[-3:] == ["heavy/new-1", "heavy/000", "heavy/new-2"]
    for of_it in (heavy[:-3], [key for key in found if key.startswith("light")]):
        assert of_it == sorted(of_it)
    assert Counter(key[:5] for key in found[:100]) == {"heavy": 50, "light": 50}


def test_an_item_that_is_added_at_a_higher_priority_meanwhile_takes_turns_at_once(
    connection: Connection,
) -> None:
    """Where all have entered there is nothing to wait for."""
    queue, store = Queue("foos", connection), QueueStore(connection, "foos")
    queue.add(*(f"a/{number:03}" for number in range(600)))
    store.run("share", wanted="namespace")
    queue.add(*(f"a/high-{number}" for number in range(20)), "a/000", "a/599", priority=10)
    queue.add("b/high", priority=10)
    assert "b/high" in {request.key for request in claim(queue, 2)}
    found = finish_all(queue)
    assert len(found) == 600 + 20 + 1 - 2
    assert found[20] == "a/599"


def test_an_item_that_is_raised_meanwhile_enters_with_those_of_its_new_priority(
    connection: Connection,
) -> None:
    """Also one that was put back, and so has its place already."""
    queue, store = Queue("foos", connection), QueueStore(connection, "foos")
    queue.add("b/held", priority=-100)
    held = claim(queue, 1)[0]
    queue.add(*(f"a/{number:03}" for number in range(400)), priority=10)
    store.run("share", wanted="namespace")
    queue.release(held)
    queue.add("b/held", priority=5)
    Inspector(connection).fair_by("foos", "namespace")
    ((place,), (arrival,)) = store.read(("ZMSCORE", "ready", "b/held"), ("HMGET", "arrivals", "b/held"))
    assert decode_order(place)[0] == decode_order(arrival)[0] == 5


def test_items_of_one_moment_take_turns_once_their_queue_is_fair(connection: Connection) -> None:
    """As those do whose delay ended in one ms; some hundred namespaces have one first item each."""
    queue, store = Queue("foos", connection), QueueStore(connection, "foos")
    queue.add("a/0")
    ((_, place),) = store.read(("ZRANGE", "ready", 0, 0, "WITHSCORES"))
    for number in range(300):
        store.read(*(("ZADD", "ready", place, f"{number:03}/{each}") for each in "ab"))
    assert Inspector(connection).fair_by("foos", "namespace") is None
    firsts = Counter(map(namespace, claim(queue, 250)))
    assert max(firsts.values()) == 1
    assert len(finish_all(queue)) == 601 - 250


@pytest.mark.parametrize(
    "entered", ["odd", "ready nan 0", "ready 1e300 0", "ready 6e15 99999999999999999999"]
)
def test_how_far_a_queue_became_fair_may_be_unreadable(connection: Connection, entered: str) -> None:
    """It begins anew, and nothing is lost."""
    queue, store = Queue("foos", connection), QueueStore(connection, "foos")
    queue.add(*(f"{name}/{number:03}" for name in "ab" for number in range(100)))
    store.run("share", wanted="namespace")
    store.read(("HSET", "meta", "entered", entered))
    queue.add("c/1")
    found = finish_all(queue)
    assert len(found) == len({*found}) == 201
    assert store.read(("HMGET", "meta", "fair_by", "entered")) == [[b"namespace", None]]


def test_suspects_take_part_once_their_queue_is_fair(connection: Connection, server_time: ServerTime) -> None:
    """Their times would be behind rounds of all others, whose places are a microsecond apart."""
    busy, store = Queue("foos", connection), QueueStore(connection, "foos")
    busy.add("a/held", "a/waits")
    claim(busy, 1)
    server_time.advance(60)
    now = connection.server_time
    busy.add(*(f"s/{number}" for number in range(100)))
    store.read(*(("HSET", "failures", f"s/{number}", f"0 2 0 -@{now},{now} ") for number in range(100)))
    others = Queue("foos", connection)
    (waits,) = claim(others, 1)
    assert nothing_to_claim(others)  # this turn sets them apart
    assert store.read(("ZCARD", "suspects")) == [100]
    others.release(waits)
    Inspector(connection).fair_by("foos", "namespace")
    (first, *_), (_, last) = store.read(
        ("ZRANGE", "ready", 0, 0, "WITHSCORES"), ("ZRANGE", "suspects", -1, -1, "WITHSCORES")
    )
    assert float(last) <= float(store.read(("ZSCORE", "ready", first))[0])


def test_another_way_to_share_is_left_as_it_is(connection: Connection) -> None:
    """A newer distq may have made the queue fair by something else: the error says by what."""
    connection.execute("HSET", QueueStore(connection, "foos").key("meta"), "fair_by", "owner")
    with pytest.raises(ConfigError, match="queue foos is fair by owner"):
        Queue("foos", connection, fair_by="namespace").add("a/1")
    queue = Queue("foos", connection)
    queue.add("a/1")
    assert finish_all(queue) == ["a/1"]
    with pytest.raises(ConfigError, match="Give namespace, or None"):
        Queue("foos", connection, fair_by="owner")


def test_a_full_redis_lets_a_fair_queue_be_drained(connection: Connection) -> None:
    """It takes no further items, and reports this."""
    queue = Queue("foos", connection, fair_by="namespace")
    queue.add("a/1", "b/1")
    connection.execute("CONFIG", "SET", "maxmemory", 1)
    try:
        with pytest.raises(RedisRefused, match="is full"):
            queue.add("c/1")
        assert finish_all(queue) == ["a/1", "b/1"]
    finally:
        connection.execute("CONFIG", "SET", "maxmemory", 0)


@pytest.mark.parametrize("damage", [("ZADD", "flows", "1e300", "0 a"), ("HSET", "arrivals", "a/2", "odd")])
def test_unreadable_shares_harm_no_item(connection: Connection, damage: tuple[str, ...]) -> None:
    """Each item is claimed once, with its priority."""
    queue = Queue("foos", connection, fair_by="namespace")
    queue.add("a/1", "a/2", "b/1")
    command, structure, *rest = damage
    connection.execute(command, QueueStore(connection, "foos").key(structure), *rest)
    queue.add("a/3")
    found = claim(queue, 4)
    assert {request.key for request in found} == {"a/1", "a/2", "a/3", "b/1"}
    assert {request.priority for request in found} == {0}


def test_a_suspect_that_is_raised_waits_for_no_share(connection: Connection, server_time: ServerTime) -> None:
    """Its place is at its new priority, even if that priority has had items for long without a pause."""
    queue, store = Queue("foos", connection, fair_by="namespace"), QueueStore(connection, "foos")
    queue.add("a/suspect")
    store.read(("HSET", "failures", "a/suspect", "0 2 0 - "))
    queue.add(*(f"a/{number}" for number in range(5)), "b/1")
    assert namespace(claim(queue, 1)[0]) in "ab"
    assert store.read(("ZCARD", "suspects")) == [1]
    queue.add(*(f"b/high-{number}" for number in range(20)), priority=10)
    server_time.advance(60)
    queue.add("a/suspect", priority=10)
    (places,) = store.read(("ZRANGE", "ready", 0, 0, "WITHSCORES"))
    assert store.read(("ZSCORE", "suspects", "a/suspect")) == [places[1]]


@pytest.mark.parametrize("how", ["forgotten", "requeued", "out of date"])
def test_an_item_that_is_no_suspect_any_more_lets_no_namespace_catch_up(
    connection: Connection, server_time: ServerTime, how: str
) -> None:
    """Claims that others got while it waited apart are no debt to the items that are added now."""
    busy = Queue("foos", connection, fair_by="namespace", claim_duration=3600)
    store, queue = QueueStore(connection, "foos"), Queue("foos", connection, claim_duration=3600)
    busy.add("a/held", "a/suspect")
    claim(busy, 1)
    store.read(("HSET", "failures", "a/suspect", f"0 2 0 -@{(now := connection.server_time)},{now} "))
    queue.add(*(f"a/{number:03}" for number in range(300)))
    assert nothing_to_claim(busy)  # it is to claim the suspect next, and nothing else until then
    first, *_ = claim(queue, 100)
    assert store.read(("ZCARD", "suspects")) == [1]
    if how == "forgotten":
        queue.forget("a/suspect")
    elif how == "requeued":
        store.requeue(["a/suspect"])
    else:
        server_time.advance(73 * 3600)
        queue.done(first)
    assert store.read(("ZCARD", "suspects")) == [0]
    for name in "ab":
        queue.add(*(f"{name}/new-{number:03}" for number in range(50)))
    claims = Counter(map(namespace, claim(queue, 41)))
    assert abs(claims["a"] - claims["b"]) <= 1


def test_an_item_that_was_claimed_before_the_queue_was_fair_comes_back_first(
    connection: Connection, server_time: ServerTime
) -> None:
    """Its place by its time would be behind rounds of all others, whose places are a microsecond apart."""
    plain = Queue("foos", connection)
    plain.add("b/1")
    server_time.advance(60)
    plain.add("a/1")
    waits, held = claim(plain, 2)
    plain.release(waits)
    queue = Queue("foos", connection, fair_by="namespace")
    queue.add(*(f"{name}/new-{number}" for name in "bc" for number in range(5)))
    plain.release(held)
    assert "a/1" in {request.key for request in claim(queue, 4)}


def test_an_add_repairs_a_place_that_no_script_wrote(connection: Connection) -> None:
    """Behind all others, where no claim of a busy queue would come."""
    queue = Queue("foos", connection, fair_by="namespace")
    queue.add("a/1")
    connection.execute("ZADD", QueueStore(connection, "foos").key("ready"), "inf", "a/2")
    queue.add("a/2")
    queue.add("a/3")
    assert [request.key for request in claim(queue, 3)] == ["a/1", "a/2", "a/3"]


def test_a_turn_that_claims_the_last_item_reads_nothing_of_a_wrong_type_then(
    connection: Connection, server_time: ServerTime
) -> None:
    """It would fail after it claimed: the session would hold what it knows nothing of."""
    queue = Queue("foos", connection, fair_by="namespace")
    queue.add("a/1", "a/2")
    claim(queue, 1)
    connection.execute("SET", QueueStore(connection, "foos").key("suspects"), "odd")
    assert [request.key for request in claim(queue, 1)] == ["a/2"]
    server_time.advance(1)
    with pytest.raises(RedisRefused, match="suspects"):
        claim(queue, 1)


def test_a_controller_takes_it_for_its_queue(connection: Connection) -> None:
    """Given with the queue's name; a Queue has its own option."""
    controller = Controller("foos", lambda _: None, fair_by="namespace")
    assert isinstance(controller.queue, Queue)
    assert controller.queue.options.fair_by == "namespace"
    with pytest.raises(ConfigError, match="Give fair_by to that"):
        Controller(Queue("foos", connection), lambda _: None, fair_by="namespace")
