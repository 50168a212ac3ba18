"""Ctrl-C, or any exception of a signal's handler, loses no claim, no connection and no thread."""

import gc
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FrameType

import pytest

from distq.clock import SYSTEM_CLOCK
from distq.errors import Empty
from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue import MemoryQueue
from distq.workqueue.announcement import Announcement
from distq.workqueue.interface import Settlement, Success
from distq.workqueue.main_thread import is_given_up, run_apart
from distq.workqueue.queue import Queue
from tests.support.eventually import eventually
from tests.support.injected_interrupt import Interrupt
from tests.support.signalled import interrupt, signalled
from tests.workqueue.test_session import Slow

CALL = ("main_thread", "handle")
"""The modules of which something runs in the main thread until its call is answered."""


def _outermost(frame: FrameType) -> FrameType:
    while frame.f_back is not None:
        frame = frame.f_back
    return frame


def _busy() -> list[FrameType]:
    """Return the frames of the helpers that have something to do."""
    gc.disable()  # Python 3.11 hangs for ever if it collects garbage within the next call
    try:
        running = sys._current_frames().values()
    finally:
        gc.enable()
    frames = [each for each in running if _outermost(each).f_code.co_name == "_help"]
    return [each for each in frames if each.f_code.co_name != "_help" or not each.f_locals["calls"].empty()]


def let_helpers_end() -> None:
    """Wait until what the interrupted caller left is undone."""
    for _ in range(2):  # one that has just taken its call looks as if it had none
        eventually(lambda: not _busy(), "the helpers rest")
        time.sleep(0.002)


@pytest.fixture
def slow(redis_server: EmbeddedValkey, connection: Connection) -> Iterator[Slow]:
    """Give a connection whose next script can be answered late, to the emptied database."""
    slow = Slow(redis_server.url)
    yield slow
    slow.go_on.set()
    slow.close()


# The call of a function


def test_the_main_thread_lets_a_helper_call_and_others_call_themselves() -> None:
    """Values are returned, and exceptions are raised, as by a direct call."""
    threads = [run_apart(threading.get_ident), run_apart(threading.get_ident)]
    assert threads[0] == threads[1] != threading.get_ident()
    seen: list[bool] = []
    other = threading.Thread(
        target=lambda: seen.append(run_apart(threading.get_ident) == threading.get_ident())
    )
    other.start()
    other.join(10)
    assert seen == [True]

    def fail() -> None:
        raise ValueError("as it is")

    with pytest.raises(ValueError, match="as it is"):
        run_apart(fail)


def test_the_thread_that_forks_is_the_main_thread_of_its_child() -> None:
    """Signal handlers run in it there, so a helper makes its calls."""
    codes: list[int] = []

    def fork() -> None:
        child = os.fork()
        if not child:
            os._exit(run_apart(threading.get_ident) == threading.get_ident())
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    thread = threading.Thread(target=fork)
    thread.start()
    thread.join(20)
    assert codes == [0]


def test_the_requests_of_a_call_that_failed_are_free_at_once() -> None:
    """Its error leads to no cycle, which would keep requests until the next garbage collection."""
    kept: list[weakref.ref[threading.Event]] = []

    def fail() -> None:
        had = threading.Event()
        kept.append(weakref.ref(had))
        raise ValueError("no")

    gc.disable()
    try:
        with suppress(ValueError):
            run_apart(fail)
        let_helpers_end()
        assert kept[0]() is None
    finally:
        gc.enable()


def test_the_child_of_a_fork_waits_for_no_lock_of_the_parents_threads() -> None:
    """One of them may have announced something just then."""
    announcement, holds_lock, go_on = Announcement(), threading.Event(), threading.Event()

    def hold_lock() -> None:
        with announcement._lock:
            holds_lock.set()
            go_on.wait(20)

    thread = threading.Thread(target=hold_lock)
    thread.start()
    assert holds_lock.wait(20)
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        announcement.wait_for(lambda: True, 1.0, SYSTEM_CLOCK)
        os._exit(0)
    go_on.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_an_announcement_within_another_does_not_wait_for_it() -> None:
    """The garbage collector may run there, end a loop over listen, and find that its session is lost."""
    announcement = Announcement()
    announcement._waiting.append(threading.Event())

    def announce_within() -> None:
        with announcement._lock:  # as announce does
            announcement.announce()

    thread = threading.Thread(target=announce_within, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()


def test_a_call_within_a_call_gets_a_helper_of_its_own() -> None:
    """As that of a signal's handler, which comes while the main thread waits."""
    go_on, answers = threading.Event(), list[int]()

    def handler(*_: object) -> None:
        answers.append(run_apart(threading.get_ident))
        go_on.set()

    entered = threading.Event()

    def wait() -> int:
        entered.set()
        assert go_on.wait(10)
        return threading.get_ident()

    with signalled(entered.is_set, handler):
        assert run_apart(wait) not in answers
    assert len(answers) == 1


def test_an_interrupted_call_goes_on_and_its_answer_is_undone() -> None:
    """It learns that its caller has gone, and its wait ends."""
    entered, ended, undone = threading.Event(), threading.Event(), list[str]()

    def work() -> str:
        entered.set()
        assert ended.wait(10)
        assert is_given_up()
        return "answer"

    with pytest.raises(KeyboardInterrupt), signalled(entered.is_set, interrupt):
        run_apart(work, undo=undone.append, interrupt=ended.set)
    let_helpers_end()
    assert undone == ["answer"]
    assert not is_given_up()


def test_an_interrupt_anywhere_in_a_call_undoes_the_claims_that_its_caller_did_not_get() -> None:
    """Each answer is the caller's or undone, never both and never neither."""
    place = 0
    while True:
        place += 1
        made, undone, returned = list[int](), list[int](), list[int]()

        def work(made: list[int] = made, place: int = place) -> int:
            made.append(place)
            return place

        with Interrupt(place, ("main_thread",)) as injected, suppress(KeyboardInterrupt):
            returned.append(run_apart(work, undo=undone.append))
        let_helpers_end()
        assert returned + undone == made, injected.where
        if not injected.where:
            break
    assert place > 5


# Gets


def test_a_get_interrupted_while_it_waits_for_its_turn_claims_nothing(
    slow: Slow, connection: Connection
) -> None:
    """The turn of another thread is under way; the next call that asks for items claims the new item."""
    queue = Queue("foos", slow)
    queue.turn([], 0)
    queue.add("a")
    slow.slowly = True
    other = threading.Thread(target=lambda: queue.turn([], 0))
    other.start()
    assert slow.under_way.wait(10)
    with (
        pytest.raises(KeyboardInterrupt),
        signalled(lambda: len(queue._session._combiner._calls) == 2, interrupt),
    ):
        queue.get()
    slow.go_on.set()
    other.join(10)
    let_helpers_end()
    assert queue.held() == 0
    assert connection.execute("ZCARD", "distq:{foos}:processing") == 0
    assert queue.get(0).key == "a"
    queue.close()


def _interrupted_in_its_turn(slow: Slow, queue: Queue) -> None:
    """Interrupt a get whose turn Redis has made, and whose reply has not come yet."""
    slow.slowly = True
    with pytest.raises(KeyboardInterrupt), signalled(slow.under_way.is_set, interrupt):
        queue.get()
    slow.go_on.set()


def test_a_claim_that_came_for_an_interrupted_get_is_released(slow: Slow, connection: Connection) -> None:
    """Heartbeats do not keep it alive without an owner: another handle can claim it at once."""
    queue, other = Queue("foos", slow), Queue("foos", connection)
    queue.turn([], 0)
    queue.add("a")
    _interrupted_in_its_turn(slow, queue)
    request = other.get(10)
    assert (request.key, request.attempt) == ("a", 1)
    assert queue.held() == 0
    queue.close()
    other.close()


def test_a_drain_does_not_wait_for_an_item_that_an_interrupted_get_claimed(
    slow: Slow, connection: Connection
) -> None:
    """It would not be settled."""
    queue, other = Queue("foos", slow), Queue("foos", connection)
    queue.turn([], 0)
    queue.add("a")
    _interrupted_in_its_turn(slow, queue)
    assert queue.shut_down_with_drain(timeout=10)
    assert other.get(10).key == "a"
    other.close()


def test_a_get_that_is_interrupted_asleep_takes_no_token_later(connection: Connection) -> None:
    """Its sleep on Redis ends with it, and the handle goes on."""
    queue = Queue("foos", connection)
    with (
        pytest.raises(KeyboardInterrupt),
        signalled(lambda: queue._session._sleeper._is_asleep, interrupt),
    ):
        queue.get()
    let_helpers_end()
    assert not queue._session._sleeper._waiting
    queue.add("a")
    assert queue.get(10).key == "a"
    queue.close()


# Anywhere


def _handles(connection: Connection) -> list[Callable[[], Queue | MemoryQueue]]:
    return [lambda: Queue("foos", connection), lambda: MemoryQueue("foos")]


@pytest.mark.parametrize("kind", [0, 1], ids=["redis", "memory"])
def test_an_interrupt_anywhere_in_a_turn_leaves_nothing_behind(connection: Connection, kind: int) -> None:
    """Settled items are settled; claimed items are claimed by the next caller."""
    place = 0
    while True:
        place += 1
        connection.execute("FLUSHALL")
        queue = _handles(connection)[kind]()
        queue.add("held", "next")
        held = queue.get(0)
        with Interrupt(place, CALL) as injected, suppress(KeyboardInterrupt):
            queue.turn([Settlement(held, Success())], 1)
        if not injected.where:
            queue.close()
            break
        let_helpers_end()
        again = queue.turn([Settlement(held, Success())], 0).dispositions[0]
        assert again.kind == "ended" or kind, injected.where  # in memory one cannot ask what became of it
        assert [request.key for request in queue.turn([], 2).requests] == ["next"], injected.where
        assert queue.held() == 1, injected.where
        assert not queue._session.is_claiming(), injected.where
        queue.close()
    assert place > 5


@pytest.mark.parametrize("kind", [0, 1], ids=["redis", "memory"])
@pytest.mark.parametrize("call", ["get", "wait", "shut_down", "close", "add_rate_limited"])
def test_an_interrupt_anywhere_in_a_call_blocks_no_other_call(
    connection: Connection, kind: int, call: str
) -> None:
    """Turns go on, and so does the close that follows, as at the end of the process."""
    calls: dict[str, Callable[[Queue | MemoryQueue], object]] = {
        "get": lambda queue: queue.get(0),
        "wait": lambda queue: queue.wait(0.002),
        "shut_down": lambda queue: queue.shut_down(),
        "close": lambda queue: queue.close(),
        "add_rate_limited": lambda queue: queue.add_rate_limited("b"),
    }
    place = 0
    while True:
        place += 1
        connection.execute("FLUSHALL")
        queue = _handles(connection)[kind]()
        queue.add("a")
        with Interrupt(place, CALL) as injected, suppress(KeyboardInterrupt):
            calls[call](queue)
        if not injected.where:
            queue.close()
            break
        let_helpers_end()
        assert queue.held() == 0, injected.where
        if not queue.shutting_down:
            with suppress(Empty):
                assert queue.settle(queue.get(0)), injected.where
        queue.close()
        assert connection.execute("ZCARD", "distq:{foos}:sessions") == 0, injected.where
    assert place > 5


def test_a_call_that_waited_behind_a_turn_that_failed_may_be_repeated(connection: Connection) -> None:
    """The turn that would have carried the call failed by an error of the program; the call reports that."""
    queue = Queue("foos", connection, rate_limiter=lambda _: 1 / 0)
    queue.add("a")
    request = queue.get(0)
    assert queue.settle(request, ValueError("no"))  # the limiter's error costs the item its delay alone
    queue.close()
