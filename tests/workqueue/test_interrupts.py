"""Interrupts of calls that wait: Ctrl-C, or whatever a signal's handler raises, leaves nothing behind."""

import linecache
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from distq.errors import RedisUnavailable
from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.call_combiner import PendingCall
from distq.workqueue.interface import Settlement, Success
from distq.workqueue.queue import Queue
from tests.workqueue.conftest import beat
from tests.workqueue.test_session import Slow

Make = Callable[..., Queue]

INTERRUPTED = ("call_combiner", "claim_ledger", "redis_session", "turn_client", "turns")
"""The modules that a call goes through until it is answered; an interrupt may come at each of their lines."""


class InterruptAtLine:
    """Raises KeyboardInterrupt in this thread when it comes to the n-th line of those modules."""

    def __init__(self, place: int) -> None:
        self._left = place
        self.where = ""

    def __enter__(self) -> "InterruptAtLine":
        """Begin to count."""
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        """Count no more."""
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if Path(code.co_filename).stem not in INTERRUPTED:
            return None
        line = linecache.getline(code.co_filename, frame.f_lineno).strip()
        if event == "line" and not self.where and _may_be_interrupted(code.co_name, line):
            self._left -= 1
            if not self._left:
                self.where = f"{Path(code.co_filename).name}:{frame.f_lineno} {line}"
                raise KeyboardInterrupt
        return self._trace


def _may_be_interrupted(function: str, line: str) -> bool:
    """Return whether an interrupt is to leave nothing behind there.

    Python handles no signal while it enters or leaves a block; and what ``turn`` returns is its caller's.
    """
    return function != "turn" and not line.startswith(("with ", "finally:", "except ", "try:"))


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
            combiner._make_turn([], combiner._take(PendingCall([], 0)))

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


def test_an_interrupt_at_any_line_of_a_turn_leaves_nothing_behind(
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
        with InterruptAtLine(place) as interrupt:
            _turn_despite_interrupts(queue, [Settlement(held, Success())], 1)
        if not interrupt.where:
            break
        disposition = queue.turn([Settlement(held, Success())], 0).dispositions[0]
        assert disposition.kind == "ended", interrupt.where
        assert [request.key for request in queue.turn([], 2).requests] == ["next"], interrupt.where
        assert queue.held() == connection.execute("ZCARD", "distq:{foos}:processing") == 1, interrupt.where
        assert queue._session.given_up() == 0, interrupt.where
        assert not queue._session.claiming(), interrupt.where
        queue.close()
    assert place > 100


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
        with InterruptAtLine(place):
            _turn_despite_interrupts(queue, [], 0)
        waiting.join(10)
        assert not waiting.is_alive()
        assert answers.pop() == "a"
        assert queue.release(next(iter(queue._session.held())))
