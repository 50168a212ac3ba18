"""Turns that a waiting handle sends behind its pop, so that Redis claims as the pop ends."""

import re
import threading
from collections.abc import Callable, Iterator

import pytest

from distq.errors import ShutDown
from distq.redisio.connection import Connection
from distq.redisio.keys import queue_key
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.support.claims import nothing_to_claim
from tests.support.counting_connection import CountingConnection
from tests.support.eventually import eventually
from tests.support.signalled import interrupt, signalled
from tests.workqueue.conftest import beat

SOON = 10.0


class Waiting:
    """A handle, and a thread that waits in it for one item."""

    def __init__(self, url: str, other: Connection) -> None:
        self.connection = CountingConnection(url)
        self.queue = Queue("foos", self.connection)
        self.got: list[Request] = []
        self._other = other
        self._thread = threading.Thread(target=self._get)

    def wait(self) -> None:
        """Let the thread wait until Redis has its turn."""
        self._thread.start()
        eventually(self.sleeps, "it sleeps on Redis")

    def sleeps(self) -> bool:
        """Return whether Redis has its pop, and the turn behind it."""
        clients = self._other.execute("CLIENT", "LIST", "TYPE", "normal").decode().splitlines()
        is_blocked = any(" flags=b " in client and " cmd=blpop " in client for client in clients)
        return is_blocked and self.queue._session.client._in_doubt is not None

    def _get(self) -> None:
        try:
            self.got.append(self.queue.get())
        except ShutDown:
            return

    def key(self) -> str:
        """Return the key that the thread got."""
        self._thread.join(SOON)
        (request,) = self.got
        return request.key

    def close(self) -> None:
        """End the thread, and the session."""
        self.queue.shut_down()
        if self._thread.ident:
            self._thread.join(SOON)
        self.queue.close()


@pytest.fixture
def waiting(redis_server: EmbeddedValkey, connection: Connection) -> Iterator[Waiting]:
    """Give a handle that is about to wait."""
    waiting = Waiting(redis_server.url, connection)
    yield waiting
    waiting.close()


@pytest.fixture
def queue(connection: Connection) -> Queue:
    """Give another handle, which adds."""
    return Queue("foos", connection)


def test_redis_claims_as_many_as_the_wait_has_room_for(
    waiting: Waiting, queue: Queue, connection: Connection
) -> None:
    """The turn before wanted more; other handles get the rest."""
    turn = waiting.queue.turn([], 250)
    waiting._thread = threading.Thread(target=waiting.queue.wait, args=(turn.wait, 2))
    waiting.wait()
    queue.add("a", "b", "c")
    waiting._thread.join(SOON)
    assert connection.execute("ZCARD", queue_key("foos", "processing")) == 2
    assert len(waiting.queue.turn([], 2).requests) == 2


def test_an_idle_handle_claims_without_asking_again(waiting: Waiting, queue: Queue) -> None:
    """The item comes with the end of the pop: no round trip follows it."""
    for _ in range(5):  # a poll may end in between, which sends another turn
        waiting.wait()
        before = waiting.connection.round_trips
        queue.add("a")
        assert waiting.key() == "a"
        if waiting.connection.round_trips == before:
            return
        assert waiting.queue.settle(waiting.got.pop())
        waiting._thread = threading.Thread(target=waiting._get)
    pytest.fail("each of five claims asked again")


def _turn(waiting: Waiting) -> None:
    assert not waiting.queue.turn([], 0).requests


def _beat(waiting: Waiting) -> None:
    assert beat(waiting.queue)


def _recount(waiting: Waiting) -> None:
    waiting.queue._session.recount()


@pytest.mark.parametrize("call", [_turn, _beat, _recount])
def test_other_threads_do_not_wait_for_it(
    waiting: Waiting, queue: Queue, call: Callable[[Waiting], None]
) -> None:
    """They take the turn back, and the thread that waits gets the next item nevertheless, once."""
    waiting.wait()
    call(waiting)
    queue.add("a")
    assert waiting.key() == "a"
    assert waiting.queue.held() == 1
    assert waiting.queue.settle(waiting.got[0])
    assert beat(waiting.queue)
    assert queue.depth() == 0


@pytest.mark.parametrize("command", ["SCRIPT FLUSH", "CLIENT KILL TYPE normal"])
def test_a_turn_that_redis_did_not_make_is_made_again(
    waiting: Waiting, queue: Queue, connection: Connection, command: str
) -> None:
    """The script was dropped, or the connection was cut."""
    waiting.wait()
    connection.execute(*command.split())
    queue.add("a")
    assert waiting.key() == "a"


def test_a_handle_that_holds_an_item_sends_none(waiting: Waiting, queue: Queue) -> None:
    """What it settles next would have to wait for it."""
    queue.add("held")
    assert waiting.queue.get(0).key == "held"
    session = waiting.queue._session
    assert session._follow_up(1, 1.0) is None


def _make_follow_up(handle: Queue, connection: Connection, *, until: float) -> None:
    """Let Redis make the follow-up turn of a handle, which may come until so many seconds from now."""
    follow_up = handle._session._follow_up(1, 3.0)
    assert follow_up is not None
    latest = round((connection.now() + until) * 1e6)
    words = [
        re.sub(r"until \d+$", f"until {latest}", word) if isinstance(word, str) else word
        for word in follow_up.command
    ]
    follow_up.reply = connection.execute(*words)


@pytest.mark.parametrize(("late", "claims"), [(-0.5, 0), (60.0, 1)])
def test_a_process_that_was_gone_for_long_claims_nothing_by_it(
    connection: Connection, queue: Queue, late: float, claims: int
) -> None:
    """It would keep the item until its session lapses: so the turn says until when it comes at the latest."""
    gone = Queue("foos", connection)
    assert not gone.turn([], 3).requests
    queue.add("a")
    _make_follow_up(gone, connection, until=late)
    assert len(gone.turn([], claims).requests) == claims
    gone.close()
    queue.close()


def test_a_turn_may_come_a_second_after_the_planned_end_of_the_wait(queue: Queue) -> None:
    """No turn follows a long wait, as large fleets have them: the pop may end much later."""
    last = queue.turn([], 3)
    assert queue._session._follow_up(1, 4.1) is None
    follow_up = queue._session._follow_up(3, 3.0)
    assert follow_up is not None
    assert f"3 until {last.fence + 4_000_000}" in follow_up.command
    queue.close()


def test_no_turn_follows_a_wait_where_a_test_gives_the_time(connection: Connection) -> None:
    """It would be that of the sending when Redis makes the turn."""
    queue = Queue("foos", connection)
    queue.turn([], 1)
    connection.server_time = 1_795_000_000_000_000
    assert queue._session._follow_up(1, 1.0) is None
    connection.server_time = 0
    queue.close()


def test_a_handle_that_shuts_down_leaves_nothing_claimed(waiting: Waiting, queue: Queue) -> None:
    """The end of its pop may claim an item, which is given back."""
    waiting.wait()
    queue.add("a")
    waiting.close()
    assert queue.get(0).key == "a"
    queue.close()


def test_an_interrupted_get_gives_back_the_item_that_the_end_of_its_wait_claims(
    waiting: Waiting, queue: Queue, connection: Connection
) -> None:
    """As if Ctrl-C came just before the token of the item."""

    def may_be_claimed() -> bool:
        sleeps = waiting.sleeps()
        if sleeps:
            order = 2**52 + round(connection.now() * 1e6)
            connection.execute("ZADD", "distq:{foos}:ready", order, "a")
        return sleeps

    with signalled(may_be_claimed, interrupt), pytest.raises(KeyboardInterrupt):
        waiting.queue.get()
    eventually(lambda: not nothing_to_claim(queue), "another handle claims it", timeout=SOON)
    queue.close()


def test_a_turn_that_comes_late_wakes_no_other_consumer(connection: Connection, queue: Queue) -> None:
    """Its process makes another one at once. Otherwise one add would wake all that wait for as long."""
    consumer = Queue("foos", connection)
    assert not consumer.turn([], 1).requests
    queue.add("a")
    assert connection.execute("LPOP", "distq:{foos}:wake") == b"1"  # as its pop does
    _make_follow_up(consumer, connection, until=-0.5)
    assert connection.execute("LLEN", "distq:{foos}:wake") == 0
    consumer.close()


def test_a_handle_whose_turn_came_late_makes_another_one_at_once(
    connection: Connection, queue: Queue
) -> None:
    """It does not wait once more before."""
    consumer = Queue("foos", connection)
    assert not consumer.turn([], 1).requests
    queue.add("a")
    _make_follow_up(consumer, connection, until=-0.5)
    (claimed,) = consumer.turn([], 1).requests
    assert consumer.settle(claimed)
    consumer.close()


def test_each_thread_that_waits_claims_for_itself_alone(waiting: Waiting, queue: Queue) -> None:
    """Else what it claims for others lies there while they sleep, though their calls shared its last turn."""
    others = [threading.Thread(target=waiting._get) for _ in range(2)]
    with waiting.queue._session._changing():  # so that the calls travel together
        for thread in (waiting._thread, *others):
            thread.start()
        eventually(lambda: len(waiting.queue._session._combiner._calls) == 3, "all want an item")
    eventually(waiting.sleeps, "one sleeps on Redis")
    follow_up = waiting.queue._session.client._in_doubt
    assert follow_up is not None
    assert follow_up.want == 1
    queue.add("a", "b", "c")
    for thread in (waiting._thread, *others):
        thread.join(SOON)
    assert sorted(request.key for request in waiting.got) == ["a", "b", "c"]


def test_close_cancels_no_item_that_no_caller_had(redis_server: EmbeddedValkey, queue: Queue) -> None:
    """It was claimed as the wait ended, and is given back as if it had not been."""
    consumer, cancelled = Queue("foos", redis_server.url), list[Request]()
    consumer.on_cancel = cancelled.append
    assert not consumer.turn([], 1).requests
    waits = threading.Thread(target=consumer.wait, args=(3.0,))
    waits.start()
    eventually(lambda: consumer._session.client.awaits_follow_up, "it waits")
    queue.add("a")
    waits.join()
    consumer.close()
    assert not cancelled
    assert queue.get(0).key == "a"


def test_another_threads_claim_costs_one_turn(waiting: Waiting) -> None:
    """It claims by the follow-up turn, and needs no second one."""
    for _ in range(5):  # a poll may end in between, which sends another turn
        waiting.wait()
        before = waiting.connection.round_trips
        assert nothing_to_claim(waiting.queue)
        if waiting.connection.round_trips == before + 1:
            return
        waiting.queue.interrupt()
        waiting.queue.add("a")
        assert waiting.key() == "a"
        assert waiting.queue.settle(waiting.got.pop())
        waiting._thread = threading.Thread(target=waiting._get)
    pytest.fail("each of five claims asked twice")
