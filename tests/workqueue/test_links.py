"""What links a claim to the span that made its item pending: kept by stamps, beside the queue, if at all."""

from collections.abc import Callable, Mapping, Sequence

import pytest

from distq.errors import ConfigError, QueueFull, RetryAfter
from distq.redisio.commit import Commit
from distq.redisio.connection import Argument, Connection
from distq.redisio.contents import findings
from distq.redisio.conversation import Meanwhile
from distq.redisio.keys import queue_key
from distq.redisio.stream_store import StreamStore
from distq.spans import NO_ATTRIBUTES, Attributes, Kind, SpanFailure
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.interface import Result
from distq.workqueue.memory import MemoryQueue
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.proofs.contents.garbage import MEMBERS, SCORES, TEXTS
from tests.support.recorded_metrics import RecordedMetrics
from tests.support.redis_servers import anywhere
from tests.workqueue.conftest import ServerTime

Make = Callable[..., Queue]
LINKS = queue_key("foos", "links")


class NumberedSpans:
    """A provider whose spans are numbered, and link as ``link`` says of the number."""

    def __init__(self, link: Callable[[int], str] | None = None) -> None:
        self.begun: list[str] = []
        self.failures: list[SpanFailure | None] = []
        self._link = link or number

    def begin(
        self, name: str, kind: Kind, attributes: Attributes, *, since: float | None = None, link: str = ""
    ) -> "NumberedSpans":
        """Begin a span; there is one at a time."""
        del kind, since, link
        self.begun.append(f"{name} {attributes['messaging.batch.message_count']}")
        return self

    def headers(self) -> Mapping[str, str]:
        """Return none."""
        return {}

    def link(self) -> str:
        """Return the link to the last span."""
        return self._link(len(self.begun))

    def end(self, attributes: Attributes = NO_ATTRIBUTES, failure: SpanFailure | None = None) -> None:
        """Note how it ended."""
        del attributes
        self.failures.append(failure)


def number(place: int) -> str:
    """Return the link to a span by its number."""
    return f"00-{place:032x}-{place:016x}-01"


@pytest.fixture
def off_the_ms(server_time: ServerTime) -> ServerTime:
    """Stop the server's clock beside a full ms, which counts for a delay's end."""
    server_time.advance(0.000_001)
    return server_time


def links(queue: Queue, want: int = 10) -> dict[str, str]:
    """Claim, and return the link of each item."""
    return {request.key: request.link for request in queue.turn([], want).requests}


@anywhere
def test_a_claim_links_to_the_add_that_made_the_item_pending(
    make_queue: Make, off_the_ms: ServerTime
) -> None:
    """To the first of several adds, also when another handle claims the item."""
    producer, worker = make_queue(spans=NumberedSpans()), make_queue(spans=NumberedSpans())
    producer.add("a", "b")
    producer.add("b", "c")
    off_the_ms.advance(1.0005)
    assert links(worker) == {"a": number(1), "b": number(1), "c": number(2)}


@anywhere
def test_an_add_of_many_keys_is_one_span(make_queue: Make, off_the_ms: ServerTime) -> None:
    """Also if it takes many steps; an item at a full ms is linked to nothing."""
    spans = NumberedSpans()
    queue = make_queue(spans=spans)
    queue.add(*(f"item-{place:04}" for place in range(1500)))
    found = [link for _ in range(6) for link in links(queue, 250).values()]
    assert (spans.begun, found.count(number(1)), found.count("")) == (["add foos 1500"], 1499, 1)


@anywhere
def test_the_add_that_raises_an_item_is_linked_from_then_on(make_queue: Make, off_the_ms: ServerTime) -> None:
    """It is at the end of its new level since that add."""
    queue = make_queue(spans=NumberedSpans())
    queue.add("a", "b")
    queue.add("a", priority=1)
    assert links(queue) == {"a": number(2), "b": number(1)}


@anywhere
def test_an_add_while_the_item_is_claimed_is_linked_from_the_next_claim(
    make_queue: Make, off_the_ms: ServerTime
) -> None:
    """A release puts the item back to its place, with its link."""
    queue = make_queue(spans=NumberedSpans())
    queue.add("a")
    request = queue.get(0)
    queue.add("a")
    queue.settle(request)
    again = queue.get(0)
    queue.release(again)
    assert [each.link for each in (request, again, queue.get(0))] == [number(1), number(2), number(2)]


@anywhere
@pytest.mark.parametrize("outcome", [Result(requeue_after=0.5), RetryAfter(0.5)])
def test_an_item_that_comes_back_by_the_clock_is_linked_to_nothing(
    make_queue: Make, off_the_ms: ServerTime, outcome: Result | Exception
) -> None:
    """No span made it pending: neither the first add's, nor one of those at that very moment."""
    queue = make_queue(spans=NumberedSpans())
    queue.add("a")
    queue.settle(queue.get(0), outcome)
    queue.add("later", after=0.5)
    off_the_ms.advance(0.500_9)
    queue.add(*(f"beside-{place}" for place in range(400)))
    off_the_ms.advance(1)
    found = links(queue, 250) | links(queue, 250)
    assert (found.pop("a"), found.pop("later")) == ("", "")
    assert [*found.values()].count(number(3)) in {399, 400}


@anywhere
def test_an_item_that_time_revives_is_linked_to_nothing(make_queue: Make, off_the_ms: ServerTime) -> None:
    """Nor to an add of other items at that very moment."""
    queue = make_queue(spans=NumberedSpans(), max_retries=0, revive_dead_after=60)
    queue.add("a")
    queue.settle(queue.get(0), ValueError("no"))
    off_the_ms.advance(59.999_9)
    queue.add(*(f"beside-{place}" for place in range(900)))
    off_the_ms.advance(1)
    assert links(queue, 1) == {"beside-0": number(2)}
    found = {key: link for _ in range(4) for key, link in links(queue, 250).items()}
    assert found["a"] == ""


@anywhere
def test_an_event_revives_a_dead_item_with_its_link(make_queue: Make, off_the_ms: ServerTime) -> None:
    """As an add that found nothing pending."""
    queue = make_queue(spans=NumberedSpans(), max_retries=0)
    queue.add("a")
    queue.settle(queue.get(0), ValueError("no"))
    queue.add("a")
    assert links(queue) == {"a": number(2)}


@anywhere
def test_an_add_without_a_span_is_linked_to_nothing(make_queue: Make, off_the_ms: ServerTime) -> None:
    """Nor is one whose sampler dropped it, or whose provider's link is none; others go on."""
    traced = make_queue(spans=NumberedSpans())
    traced.add("first")
    make_queue().add("untraced")
    for place, odd in enumerate(("", "garbage", "0" * 5000, number(0), number(7) + "\n")):
        make_queue(spans=NumberedSpans(lambda _, odd=odd: odd)).add(f"odd-{place}")  # type: ignore[misc]  # bound now
    traced.add("last")
    found = links(traced)
    assert (found.pop("first"), found.pop("last")) == (number(1), number(2))
    assert len(found) == 6
    assert {*found.values()} == {""}


@anywhere
def test_a_worker_without_spans_gets_no_links(make_queue: Make, off_the_ms: ServerTime) -> None:
    """A worker without spans beside one with them."""
    make_queue(spans=NumberedSpans()).add("a")
    assert links(make_queue()) == {"a": ""}


def test_a_turn_that_is_repeated_links_as_before(connection: Connection) -> None:
    """Its reply was lost, and its claims are returned with the same links."""
    connection.server_time = 1_795_000_000_000_001
    queue = Queue("foos", connection, spans=NumberedSpans())
    queue.add("a")
    replies = list[object]()
    ask = connection.evaluate

    def evaluate(source: str, sha: str, arguments: Sequence[Argument], *meanwhile: Meanwhile) -> object:
        replies.append(ask(source, sha, arguments))
        return ask(source, sha, arguments)

    connection.evaluate = evaluate  # type: ignore[method-assign]  # each script runs twice
    assert queue.get(0).link == number(1)
    queue.close()


class Wire(Connection):
    """A Connection that keeps what scripts answered."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.replies: list[object] = []

    def evaluate(self, source: str, sha: str, arguments: Sequence[Argument], *meanwhile: Meanwhile) -> object:
        """Run a script."""
        self.replies.append(super().evaluate(source, sha, arguments, *meanwhile))
        return self.replies[-1]


def test_without_spans_redis_holds_and_answers_the_same_as_ever(
    redis_server: EmbeddedValkey, connection: Connection
) -> None:
    """Spans change nothing but one key beside the queue, which is not there without them."""
    states, answers = list[dict[bytes, bytes]](), list[list[object]]()
    for spans in (None, NumberedSpans()):
        connection.execute("FLUSHALL")
        wire = Wire(redis_server.url)
        wire.server_time = 1_795_000_000_000_001
        queue = Queue("foos", wire, spans=spans)
        queue.add("a", "b", priority=3)
        queue.add("c", after=5)
        link = "" if spans is None else number(9)
        StreamStore(wire, "foos", "pods").commit(
            Commit(epoch="1", after="", new="7", batch="x", keys=["d"], link=link)
        )
        names = sorted(connection.execute("KEYS", "distq:{foos}:*"))
        states.append({name: connection.execute("DUMP", name) for name in names})
        assert {request.key for request in queue.turn([], 10).requests} == {"a", "b", "d"}
        answers.append(next(reply for reply in wire.replies if isinstance(reply, list) and len(reply) > 8))
        queue.close()
        wire.close()
    assert states[1].pop(LINKS.encode())
    assert states[0] == states[1]
    assert (len(answers[0]), answers[1][9:]) == (9, [[number(1).encode()] * 2 + [number(9).encode()]])


def test_links_are_bounded(connection: Connection) -> None:
    """Ten thousand at most; the oldest go first."""
    connection.server_time = 1_795_000_000_000_001
    old = [word for place in range(1, 10_001) for word in (place, f"{place} {number(place)}")]
    connection.execute("ZADD", LINKS, *old)
    queue = Queue("foos", connection, spans=NumberedSpans())
    queue.add("a")
    assert queue.get(0).link == number(1)
    queue.close()
    assert connection.execute("ZCARD", LINKS) == 10_000
    assert connection.execute("ZRANGE", LINKS, 0, 0) == [f"2 {number(2)}".encode()]


def _of_a_wrong_type(connection: Connection) -> None:
    connection.execute("SET", LINKS, "by hand")


def _full_of_garbage(connection: Connection) -> None:
    for place, member in enumerate((*TEXTS, *MEMBERS, b"1 garbage", b"1 " + b"9" * 100_000)):
        connection.execute("ZADD", LINKS, SCORES[place % len(SCORES)], member)
    connection.execute("ZADD", LINKS, "+inf", "1 garbage")


@pytest.mark.parametrize("spoil", [_of_a_wrong_type, _full_of_garbage])
def test_links_that_are_spoilt_stop_nothing(
    connection: Connection, spoil: Callable[[Connection], None]
) -> None:
    """Items come and go without links; ``distq check`` names a key of a wrong type."""
    connection.server_time = 1_795_000_000_000_001
    spoil(connection)
    queue = Queue("foos", connection, spans=NumberedSpans())
    connection.execute("ZADD", queue_key("foos", "ready"), 2.0**52 + 1_794_000_000_000_001, "before")
    queue.add("a")
    claimed = {request.key: request for request in queue.turn([], 5).requests}
    assert claimed.keys() == {"a", "before"}
    assert claimed["before"].link == ""
    if spoil is _of_a_wrong_type:
        assert claimed["a"].link == ""
        assert list(findings(connection)) == [
            f"WARN  {LINKS} is a string, where distq keeps a zset: none is kept. RENAME it."
        ]
    assert queue.settle(claimed["a"])
    queue.close()


def test_an_add_that_fails_is_an_error(connection: Connection) -> None:
    """The span ends with it; bad keys, too."""
    spans = NumberedSpans()
    queue = Queue("foos", connection, spans=spans, max_length=1)
    with pytest.raises(QueueFull):
        queue.add("a", "b")
    (failure,) = spans.failures
    assert failure is not None
    assert failure.kind == "distq.errors.QueueFull"


@anywhere
def test_an_add_of_nothing_has_no_span(make_queue: Make) -> None:
    """As ``add(*found)`` where nothing was found: it asks Redis nothing either."""
    spans = NumberedSpans()
    assert make_queue(spans=spans).add() == 0
    assert spans.begun == []


def test_a_queue_refuses_a_provider_that_keeps_no_spans() -> None:
    """By name, before anything is asked."""
    with pytest.raises(ConfigError, match=r"bad spans .*OpenTelemetrySpans"):
        Queue("foos", spans=print)  # type: ignore[arg-type]  # the mistake


def test_a_request_is_the_same_with_any_link() -> None:
    """A link is for people: nothing is decided by it, and it is not printed."""
    assert Request("a", link=number(1)) == Request("a")
    assert "link" not in repr(Request("a", link=number(1)))


def test_the_old_names_of_the_setters_work_for_one_version() -> None:
    """With a warning; the provider that they set is used."""
    queue, spans, metrics = MemoryQueue("old"), NumberedSpans(), RecordedMetrics()
    with pytest.warns(DeprecationWarning, match=r"^measure is set_metrics_provider now\.$"):
        queue.measure(metrics)
    with pytest.warns(DeprecationWarning, match=r"^tell is set_span_provider now\.$"):
        queue.tell(spans)
    queue.add("a")
    assert spans.begun == ["add old 1"]
    assert queue.get(0).key == "a"
    assert metrics.calls
    queue.close()
