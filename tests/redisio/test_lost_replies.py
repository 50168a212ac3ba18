"""Every operation has one effect, though the network loses the reply to each script once.

One exception is allowed: what makes an item pending again (a plain ``add``, ``add_after``, ``requeue``),
repeated after its item was claimed, costs one more reconcile.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from distq.errors import RetryAfter, TerminalError
from distq.inspector import Inspector
from distq.redisio import scripts
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.keys import queue_key
from distq.redisio.queue_store import QueueStore
from distq.redisio.stream_store import Committed, StreamStore
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.interface import Result
from distq.workqueue.queue import Queue
from distq.workqueue.rate_limiters import (
    BucketRateLimiter,
    ItemExponentialFailureRateLimiter,
    MaxOfRateLimiter,
)
from distq.workqueue.request import Request
from tests.redisio.lossy_proxy import LossyProxy
from tests.support.eventually import eventually

NOW = 1_795_000_000_000_000
LIMITER = MaxOfRateLimiter(ItemExponentialFailureRateLimiter(5.0, 1000.0), BucketRateLimiter(10.0, 100))


class Scene:
    """The queue foos with something in each state, seen through a proxy and beside it."""

    def __init__(self, connection: Connection, proxy: LossyProxy) -> None:
        self.connection, self.proxy = connection, proxy
        connection.execute("FLUSHALL")
        connection.server_time = NOW
        self.through = Connection(f"redis://127.0.0.1:{proxy.port}/0")
        self.through.server_time = NOW
        self.queue = Queue("foos", self.through, rate_limiter=LIMITER, claim_duration=4.0)
        self.inspector = Inspector(self.through)
        self.stream = StreamStore(self.through, "foos", "pods")
        self.beside = Queue("foos", connection)
        self.sees = Inspector(connection)
        self.beside.add("dead")
        self.beside.settle(self.beside.get(), TerminalError("no use"))
        self.beside.add("failing")
        self.beside.settle(self.beside.get(), RetryAfter(500, "no luck"))
        self.beside.add("first", "second", "third", priority=1)
        self.beside.add("later", after=100, priority=3)
        self.requests: list[Request] = []

    def close(self) -> None:
        """End both handles."""
        self.proxy.losing = False
        for queue in (self.queue, self.beside):
            queue.close()
        self.through.close()

    def view(self) -> list[Any]:
        """Return all that there is except the holders, to the ms."""

        def shortly(moment: Any) -> Any:
            return None if moment is None else round(moment, 3)

        info = replace(self.sees.queues("foos")[0], workers=0, oldest_ready=None, catching_up_until=None)
        info = replace(info, done_per_second=0.0, failed_per_second=0.0)
        items = [
            replace(
                item,
                **{name: shortly(getattr(item, name)) for name in ("since", "due", "last_error_at")},
                worker=None,
                claim_deadline=None,
                traceback=None,
            )
            for item in self.sees.items("foos", limit=1000)
        ]
        stream = StreamStore(self.connection, "foos", "pods")
        meta = self.connection.execute("HGETALL", queue_key("foos", "meta"))
        buckets = [field for field in zip(meta[::2], meta[1::2], strict=True) if b"bucket" in field[0]]
        tokens = self.connection.execute("LLEN", queue_key("foos", "wake"))
        return [info, items, stream.load(), sorted(stream.known()), buckets, tokens]


@pytest.fixture
def proxy(redis_server: EmbeddedValkey) -> Iterator[LossyProxy]:
    """Put a proxy before the server."""
    with LossyProxy(("127.0.0.1", redis_server.port)) as proxy:
        yield proxy


@pytest.fixture
def scene(connection: Connection, proxy: LossyProxy) -> Iterator[Scene]:
    """Set the scene, and lose replies from now on."""
    scene = Scene(connection, proxy)
    proxy.losing = True
    yield scene
    scene.close()


def _open(scene: Scene) -> object:
    return scene.queue.get().key


def _turn(scene: Scene) -> object:
    """Claim, and settle in every way there is."""
    scene.queue.add("fourth", "fifth", "sixth", "seventh", "eighth")
    got = [scene.queue.get() for _ in range(8)]
    outcomes = [None, RuntimeError("no luck"), RetryAfter(60), TerminalError("no"), Result(requeue_after=9)]
    settled = [scene.queue.settle(*pair) for pair in zip(got, outcomes, strict=False)]
    scene.queue.add("sixth")
    settled += [scene.queue.settle(got[5], RuntimeError("again")), scene.queue.release(got[6])]
    scene.queue.add_rate_limited("eighth")
    settled.append(scene.queue.done(got[7]))
    assert not scene.queue.settle(got[0], None), "settled before"
    return [request.key for request in got], settled


def _heartbeat(scene: Scene) -> object:
    request = scene.queue.get()
    eventually(lambda: not scene.proxy.losing or "heartbeat" in scene.proxy.answered)
    assert not request.cancelled.is_set()
    return scene.queue.settle(request)


def _close(scene: Scene) -> object:
    scene.queue.get()
    scene.queue.close()
    return scene.queue.held()


def _commit(scene: Scene) -> object:
    first = scene.stream.commit(
        Commit(
            epoch="7", after="", new="100", batch="b0", keys=["first", "pod"], known={"pod": "1", "old": "1"}
        )
    )
    again = scene.stream.commit(
        Commit(epoch="7", after="b0", new="101", batch="b1", keys=["later"], keep_pending=True, gone=["old"])
    )
    return first, again


def _catch_up(scene: Scene) -> object:
    return QueueStore(scene.through, "foos").run("catch_up", epoch="9", timeout=60_000_000)


def _caught_up(scene: Scene) -> object:
    QueueStore(scene.connection, "foos").run("catch_up", epoch="9", timeout=60_000_000)
    return QueueStore(scene.through, "foos").run("caught_up", epoch="9")


def _resume(scene: Scene) -> object:
    scene.sees.pause("foos")
    return scene.inspector.resume("foos")


def _forgive(scene: Scene) -> object:
    """Report that a process lives whose session lapsed, with an item that is dead for that now."""
    session = scene.queue._session
    scene.connection.execute("HSET", queue_key("foos", "failures"), "dead", "0 3 7 crashes@5,6,7 no")
    session.client.lost.add("3-nonce", {"dead": 6, "first": 6}, session.store)
    return session.client.lost._fences


Operation = Callable[[Scene], object]
SETTLED = (["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"], [True] * 8)
OPERATIONS: dict[str, tuple[Operation, object, object]] = {
    "open": (_open, "first", "first"),
    "turn": (_turn, SETTLED, SETTLED),
    "heartbeat": (_heartbeat, True, True),
    "close": (_close, 0, 0),
    "commit": (_commit, (Committed(1), Committed(0)), (Committed(0), Committed(0))),
    "add": (lambda scene: scene.queue.add("first", "new", "dead", "later", priority=5), 3, 0),
    "add_after": (lambda scene: scene.queue.add("first", "new", "dead", "later", after=9, priority=5), 2, 0),
    "forgive": (_forgive, {}, {}),
    "forget": (lambda scene: scene.queue.forget("failing"), None, None),
    "requeue": (lambda scene: scene.inspector.requeue("foos", "dead", "failing", "later", "first"), 3, 0),
    "delete": (lambda scene: scene.inspector.delete("foos", "dead", "failing", "later", "first"), 4, 0),
    "park": (lambda scene: scene.inspector.park("foos", "dead", "failing", "later", "first"), 3, 0),
    "catch_up": (_catch_up, 1, 1),
    "caught_up": (_caught_up, 1, 0),
    "pause": (lambda scene: scene.inspector.pause("foos"), True, False),
    "resume": (_resume, True, False),
    "trace": (lambda scene: scene.inspector.trace_off("foos"), None, None),
    "fair_by": (lambda scene: Queue("foos", scene.through, fair_by="namespace").add("first"), 0, 0),
    "share": (lambda scene: scene.inspector.fair_by("foos", "namespace"), None, "namespace"),
}
"""Each script's operation, its answer, and its answer where the reply was lost: there, the counts of the
others count the changes of the repetition, so nothing. Turns are answered as the first time."""


def test_each_script_is_meant() -> None:
    """No script escapes."""
    assert sorted(OPERATIONS) == list(scripts.names())


@pytest.mark.parametrize("script", OPERATIONS)
def test_an_operation_has_one_effect_though_its_reply_is_lost(
    connection: Connection, proxy: LossyProxy, script: str
) -> None:
    """The queue is as if no reply had been lost; and the reply was lost, and the call repeated."""
    operate, answer, answer_after_a_loss = OPERATIONS[script]
    calm = Scene(connection, proxy)
    assert operate(calm) == answer
    expected = calm.view()
    calm.close()
    scene = Scene(connection, proxy)
    proxy.losing = True
    try:
        assert operate(scene) == answer_after_a_loss
        assert scene.view() == expected
        assert script in proxy.lost
        assert script in proxy.answered
    finally:
        scene.close()


def test_a_long_add_has_one_effect_though_the_reply_of_each_step_is_lost(scene: Scene) -> None:
    """Each step is repeated for itself, and all keep the caller's order."""
    keys = [f"key-{n:04}" for n in range(2500)]
    scene.queue.add(*keys)
    assert scene.proxy.lost == ["add"] * 3
    assert [item.key for item in scene.sees.items("foos", state="ready", limit=3000)][3:] == keys


# What may happen between the loss and the repetition


def _once(scene: Scene, meanwhile: Callable[[], object]) -> None:
    """Let something happen after the first loss only."""

    def between() -> None:
        scene.proxy.between = lambda: None
        meanwhile()

    scene.proxy.between = between


def _runs(queue: Queue) -> Sequence[str]:
    """Work off what is ready; return which items ran."""
    ran = []
    while turn := queue.turn([], 100).requests:
        for request in turn:
            ran.append(request.key)
            queue.settle(request)
    return ran


@pytest.mark.parametrize("after", [None, 1e-6])
def test_an_add_repeated_after_its_item_was_claimed_costs_one_more_reconcile(
    scene: Scene, after: float | None
) -> None:
    """That is the one exception, for a producer without a session: one more, never one too few."""
    claimed: list[Request] = []
    _runs(scene.beside)

    def claim() -> None:
        scene.connection.server_time += 1000
        claimed.append(scene.beside.get())

    _once(scene, claim)
    scene.queue.add("new", after=after)
    assert [request.key for request in claimed] == ["new"]
    scene.connection.server_time += 1_000_000
    assert scene.beside.settle(claimed[0])
    assert _runs(scene.beside) == ["new"]
    assert _runs(scene.beside) == []


def test_a_requeue_repeated_after_its_item_failed_again_costs_one_more_reconcile(scene: Scene) -> None:
    """As an add would; the item is not lost, nor dead."""
    _runs(scene.beside)
    _once(scene, lambda: scene.beside.settle(scene.beside.get(), RuntimeError("no luck")))
    scene.inspector.requeue("foos", "dead")
    assert _runs(scene.beside) == ["dead"]
    assert _runs(scene.beside) == []


def test_a_commit_repeated_after_its_items_were_done_adds_nothing(scene: Scene) -> None:
    """The stream knows its last batch: no second reconcile."""
    _runs(scene.beside)
    ran: list[str] = []
    _once(scene, lambda: ran.extend(_runs(scene.beside)))
    assert scene.stream.commit(
        Commit(epoch="7", after="", new="1", batch="b0", keys=["x", "y"])
    ) == Committed(0)
    assert ran == ["x", "y"]
    assert _runs(scene.beside) == []


@pytest.mark.conformance("RD-04")
def test_a_settlement_repeated_after_another_claim_of_the_item_leaves_that_claim(scene: Scene) -> None:
    """The first time counted; the second is answered from the record, and touches no other claim."""
    request = scene.queue.get()
    others: list[Request] = []

    def claim() -> None:
        scene.beside.add(request.key, priority=900)
        others.append(scene.beside.get())

    _once(scene, claim)
    assert scene.queue.settle(request)
    assert [other.key for other in others] == [request.key]
    assert scene.sees.queues("foos")[0].processing == 1
    assert scene.beside.settle(others[0])


def test_a_claim_whose_reply_was_lost_goes_to_no_other_worker(scene: Scene) -> None:
    """A claim in between gets the next item; the repetition gets the first."""
    others: list[Request] = []
    scene.queue.turn([], 0)  # opens the session
    _once(scene, lambda: others.append(scene.beside.get()))
    request = scene.queue.get()
    assert (request.key, [other.key for other in others]) == ("first", ["second"])
    assert scene.queue.settle(request)
    assert scene.beside.settle(others[0], None)
