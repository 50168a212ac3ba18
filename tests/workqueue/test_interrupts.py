"""Interrupts of calls that wait: Ctrl-C, or whatever a signal's handler raises, leaves nothing behind."""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import cast

import pytest

from distq.errors import RedisUnavailable
from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.call_combiner import PendingCall
from distq.workqueue.interface import Settlement, Success, Turn
from distq.workqueue.queue import Queue
from tests.support.eventually import eventually
from tests.support.injected_interrupt import Interrupt
from tests.workqueue.conftest import beat
from tests.workqueue.test_session import Slow

Make = Callable[..., Queue]

TURN = ("call_combiner", "claim_ledger", "redis_session", "turn_client", "turns")
"""The modules that a call goes through until it is answered."""
WAIT = ("wait_coordinator", "sleeper")
"""Those that it sleeps in."""
OPEN = ("redis_session", "turn_client", "heartbeat")
"""Those that begin a session."""
CLOSE = ("redis_session", "heartbeat", "turn_client", "wait_coordinator", "claim_ledger")
"""Those that end it."""
END = ("handle", "redis_session", "claim_ledger", "call_combiner", "sleeper")
"""Those that a shutdown goes through."""


@contextmanager
def interrupting(when: Callable[[], bool]) -> Iterator[None]:
    """Send this thread a real signal, whose handler raises, once the condition holds."""

    def handler(*_: object) -> None:
        raise KeyboardInterrupt

    def send() -> None:
        while not when():
            time.sleep(0.001)
        signal.pthread_kill(main, signal.SIGUSR1)

    main = threading.get_ident()
    before = signal.signal(signal.SIGUSR1, handler)
    sending = threading.Thread(target=send)
    sending.start()
    try:
        yield
    finally:
        sending.join(10)
        signal.signal(signal.SIGUSR1, before)


@pytest.fixture
def slow(redis_server: EmbeddedValkey, connection: Connection) -> Iterator[Slow]:
    """Give a connection whose next script can be answered late, to the emptied database."""
    slow = Slow(redis_server.url)
    yield slow
    slow.go_on.set()
    slow.close()


def _interrupted_behind_a_turn(slow: Slow, queue: Queue) -> threading.Thread:
    """Let another thread's turn wait for its reply, and be interrupted while a get waits behind it."""
    slow.slowly = True
    other = threading.Thread(target=lambda: queue.turn([], 0))
    other.start()
    assert slow.under_way.wait(10)
    with (
        pytest.raises(KeyboardInterrupt),
        interrupting(lambda: len(queue._session._combiner._waiting) == 1),
    ):
        queue.get()
    return other


def test_a_get_interrupted_while_it_waits_for_its_turn_claims_nothing(
    slow: Slow, connection: Connection
) -> None:
    """The turns after it are those of others; an item that comes is claimed by who asks for it."""
    queue = Queue("foos", slow)
    queue.turn([], 0)
    queue.add("a")
    other = _interrupted_behind_a_turn(slow, queue)
    slow.go_on.set()
    other.join(10)
    queue.turn([], 0)
    assert queue.held() == 0
    assert connection.execute("ZCARD", "distq:{foos}:processing") == 0
    assert queue.get(0).key == "a"
    queue.close()


def test_a_claim_that_a_turn_brought_for_an_interrupted_get_is_handed_to_the_next(
    slow: Slow, connection: Connection
) -> None:
    """Another thread's turn carried the call already: its claim is no orphan that heartbeats keep alive."""
    queue = Queue("foos", slow)
    queue.turn([], 0)
    queue.add("a", "b")
    _carried_and_interrupted(slow, queue)
    assert queue.held() == 1
    assert queue.get(0).key == "a"
    assert queue.get(0).key == "b"
    queue.close()


def test_a_claim_that_nobody_asks_for_after_an_interrupt_is_released(
    slow: Slow, connection: Connection
) -> None:
    """By the second heartbeat that finds it without an owner."""
    queue, other = Queue("foos", slow), Queue("foos", connection)
    queue.turn([], 0)
    queue.add("a")
    _carried_and_interrupted(slow, queue)
    assert beat(queue)
    assert beat(queue)
    assert queue.held() == 0
    assert other.get(0).key == "a"
    queue.close()
    other.close()


def test_a_drain_does_not_wait_for_what_came_for_an_interrupted_get(
    slow: Slow, connection: Connection
) -> None:
    """Nobody would settle it."""
    queue, other = Queue("foos", slow), Queue("foos", connection)
    queue.turn([], 0)
    queue.add("a")
    _carried_and_interrupted(slow, queue)
    assert queue.shut_down_with_drain(timeout=10)
    assert other.get(0).key == "a"
    other.close()


def _carried_and_interrupted(slow: Slow, queue: Queue) -> None:
    """Interrupt a get whose call travels in the turn of another thread, which brings a claim for it."""
    session, combiner = queue._session, queue._session._combiner
    locked = threading.Event()

    def turn() -> None:
        with session._turn_lock:
            locked.set()
            while not combiner._waiting:
                time.sleep(0.001)
            slow.slowly = True
            combiner._make_turn(combiner._take(PendingCall([], 0)))

    turning = threading.Thread(target=turn)
    turning.start()
    assert locked.wait(10)
    with pytest.raises(KeyboardInterrupt), interrupting(slow.under_way.is_set):
        queue.get()
    slow.go_on.set()
    turning.join(10)


def _turn_despite_interrupts(queue: Queue, settlements: list[Settlement], want: int) -> None:
    with suppress(KeyboardInterrupt, RedisUnavailable):
        queue._session.turn(settlements, want)


def test_an_interrupt_anywhere_in_a_turn_leaves_nothing_behind(
    redis_server: EmbeddedValkey, connection: Connection, make_queue: Make
) -> None:
    """Each item is claimed by the next who asks, once; what was settled is settled; nothing stays held."""
    place = 0
    while True:
        place += 1
        connection.execute("FLUSHALL")
        queue = Queue("foos", connection)
        queue.add("held", "next")
        held = queue.get(0)
        with Interrupt(place, TURN) as interrupt:
            _turn_despite_interrupts(queue, [Settlement(held, Success())], 1)
        if not interrupt.where:
            queue.close()
            break
        disposition = queue.turn([Settlement(held, Success())], 0).dispositions[0]
        assert disposition.kind == "ended", interrupt.where
        assert [request.key for request in queue.turn([], 2).requests] == ["next"], interrupt.where
        assert queue.held() == connection.execute("ZCARD", "distq:{foos}:processing") == 1, interrupt.where
        assert queue._session.given_up() == 0, interrupt.where
        assert not queue._session.claiming(), interrupt.where
        queue.close()
    assert place > 100


def _answer_behind(queue: Queue, call: PendingCall) -> Turn:
    """Return what the thread of this call gets, once the turn that it waited behind is over."""
    combiner = queue._session._combiner
    for calls in (combiner._under_way, combiner._waiting):
        if call in calls:
            calls.remove(call)
    if not call.is_answered or call.error is not None:  # it makes a turn itself, or calls again
        return queue.turn(cast("Sequence[Settlement]", call.entries), call.want)
    return call.result()


def test_an_interrupt_anywhere_in_a_turn_for_two_hands_each_claim_out_once(
    redis_server: EmbeddedValkey, connection: Connection, make_queue: Make
) -> None:
    """Whether the call of the other thread was answered before, or not."""
    place = 0
    while True:
        place += 1
        connection.execute("FLUSHALL")
        queue = Queue("foos", connection)
        queue.add("own", "other")
        own, other = queue.turn([], 2).requests
        queue.add("a", "b")
        behind = PendingCall([Settlement(other, Success())], 1)
        queue._session._combiner._under_way.append(behind)
        queue._session._combiner._waiting.append(behind)
        with Interrupt(place, TURN) as interrupt:
            _turn_despite_interrupts(queue, [Settlement(own, Success())], 1)
        if not interrupt.where:
            queue.close()
            break
        answer = _answer_behind(queue, behind)
        assert answer.dispositions[0].kind == "ended", interrupt.where
        assert queue.turn([Settlement(own, Success())], 0).dispositions[0].kind == "ended", interrupt.where
        claimed = [*answer.requests, *queue.turn([], 5).requests]
        assert sorted(request.key for request in claimed) == ["a", "b"], interrupt.where
        queue.close()
    assert place > 100


def test_a_second_interrupt_loses_nothing_of_the_first(
    redis_server: EmbeddedValkey, connection: Connection, make_queue: Make
) -> None:
    """What a turn brought for an interrupted call is kept until the next turn has taken it back."""
    place = 0
    while True:
        place += 1
        connection.execute("FLUSHALL")
        queue = Queue("foos", connection)
        queue.add("held")
        held = queue.get(0)
        queue.add("a", "b")
        session, interrupted = queue._session, PendingCall([Settlement(held, Success())], 1)
        with session._turn_lock:
            session._make_turn([interrupted])
        session._combiner._interrupted.append(interrupted)
        with Interrupt(place, TURN) as interrupt:
            _turn_despite_interrupts(queue, [], 0)
        if not interrupt.where:
            queue.close()
            break
        assert queue.turn([Settlement(held, Success())], 0).dispositions[0].kind == "ended", interrupt.where
        assert sorted(each.key for each in queue.turn([], 5).requests) == ["a", "b"], interrupt.where
        queue.close()
    assert place > 30


def test_an_interrupt_anywhere_in_a_sleep_leaves_it_to_the_next_who_waits(
    redis_server: EmbeddedValkey, connection: Connection, make_queue: Make
) -> None:
    """Nobody stands by for a sleeper that is gone, and the interrupt is what its caller sees."""
    place = 0
    while True:
        place += 1
        queue = Queue("foos", connection)
        waits = queue._session._waits
        with Interrupt(place, WAIT) as interrupt, suppress(KeyboardInterrupt):
            waits.wait(0.002, 0.002, for_work=True)
        if not interrupt.where:
            queue.close()
            break
        assert waits._asleep is None, interrupt.where
        assert not waits._present, interrupt.where
        assert waits._lock.acquire(blocking=False), interrupt.where
        waits._lock.release()
        queue.close()
    assert place > 30


def test_an_interrupt_anywhere_in_a_shutdown_locks_nobody_out(
    redis_server: EmbeddedValkey, connection: Connection, make_queue: Make
) -> None:
    """Turns and the close that follow go on, as at the end of the process."""
    place = 0
    while True:
        place += 1
        connection.execute("FLUSHALL")
        queue = Queue("foos", connection)
        queue.add("a")
        queue.settle(queue.get(0))
        with Interrupt(place, END) as interrupt, suppress(KeyboardInterrupt):
            queue.shut_down()
        if not interrupt.where:
            queue.close()
            break
        assert not queue._session._turn_lock.locked(), interrupt.where
        queue.close()
    assert place > 30


def test_who_waited_behind_an_interrupted_turn_makes_one_of_its_own(make_queue: Make) -> None:
    """The turn that would have carried it ended without an answer: it hears of that, and may repeat."""
    queue = make_queue()
    queue.turn([], 0)
    queue.add("a", "b")
    combiner = queue._session._combiner
    answers: list[str] = []

    def get() -> None:
        while True:
            try:
                answers.append(queue.get(0).key)
            except RedisUnavailable:
                continue
            return

    for place in range(1, 40, 3):
        queue._session._turn_lock.acquire()
        waiting = threading.Thread(target=get)
        waiting.start()
        while len(combiner._waiting) < 1:
            time.sleep(0.001)
        queue._session._turn_lock.release()
        with Interrupt(place, TURN):
            _turn_despite_interrupts(queue, [], 0)
        waiting.join(10)
        assert not waiting.is_alive()
        assert answers.pop() == "a"
        assert queue.release(next(iter(queue._session.held())))


def test_an_interrupt_anywhere_in_the_opening_of_a_session_leaves_it_watched(
    redis_server: EmbeddedValkey, connection: Connection, make_queue: Make
) -> None:
    """The thread that sends heartbeats and the one that watches the deadline run before it claims."""
    place = 0
    while True:
        place += 1
        connection.execute("FLUSHALL")
        queue = Queue("foos", connection)
        with Interrupt(place, OPEN) as interrupt:
            _turn_despite_interrupts(queue, [], 0)
        if not interrupt.where:
            queue.close()
            break
        queue.turn([], 0)
        _is_watched(queue, interrupt.where)
        queue.close()
    assert place > 30


def test_a_session_that_follows_an_interrupted_close_is_watched(
    redis_server: EmbeddedValkey, connection: Connection, make_queue: Make
) -> None:
    """Wherever the interrupt came, the next session does not go on with threads that were stopped."""
    place = 0
    while True:
        place += 1
        connection.execute("FLUSHALL")
        queue = Queue("foos", connection)
        queue.turn([], 0)
        with Interrupt(place, CLOSE) as interrupt, suppress(KeyboardInterrupt):
            queue.close()
        if not interrupt.where:
            break
        queue.add("a")
        assert queue.get(10).key == "a", interrupt.where
        _is_watched(queue, interrupt.where)
        queue.close()
    assert place > 30


def _is_watched(queue: Queue, where: str) -> None:
    """Check that both threads of a handle's session run, or soon do."""
    heartbeat = queue._session._heartbeat
    assert heartbeat is not None, where
    assert not heartbeat.is_stopped, where
    for task in ("deadline", "heartbeat"):
        eventually(partial(heartbeat._threads.get, task), f"{task} after {where}", timeout=10)
        assert heartbeat._threads[task].is_alive(), where
