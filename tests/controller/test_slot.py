"""One slot: what became of a request is decided once, by its handler or by the clock."""

import math
import threading

from distq.clock import SystemClock
from distq.controller.worker.executors import ThreadExecutor
from distq.controller.worker.slot import Slot
from distq.testing import FakeClock
from distq.workqueue.interface import SUCCESS, Settlement
from distq.workqueue.request import Request


def test_the_clock_takes_only_the_request_that_it_looked_at() -> None:
    """The handler may end with it just then, and the slot go on with another one."""
    slot, first, second = Slot(), Request("a", fence=1), Request("a", fence=1)
    slot.begin(first, 0.0)
    assert slot.end()
    slot.begin(second, 1.0)
    assert not slot.decide(first)
    assert slot.end(), "the second one is its handler's"


def test_a_request_is_decided_once() -> None:
    """A request that was taken from its handler is not settled by it, and not taken twice."""
    slot, request = Slot(), Request("a", fence=1)
    slot.begin(request, 0.0)
    assert slot.decide(request)
    assert not slot.decide(request)
    assert not slot.end()
    assert not slot.decide(request)


def test_a_timeout_cancels_only_the_request_that_it_is_for() -> None:
    """The slot may go on with another one, whose own warning would come a minute late."""
    slot, first, second = Slot(), Request("a", fence=1), Request("a", fence=1)
    slot.begin(first, 0.0)
    assert slot.cancel(first, 60.0)
    assert (slot.warned, first.cancelled.is_set()) == (60.0, True)
    assert slot.end()
    slot.begin(second, 61.0)
    assert not slot.cancel(first, 62.0)
    assert (slot.warned, second.cancelled.is_set()) == (-math.inf, False)


class Hesitant(SystemClock):
    """A clock whose reader is held up, once the handler has returned, until the timeout is over."""

    def __init__(self) -> None:
        self.later, self.has_returned = 0.0, False
        self.executors: list[ThreadExecutor] = []

    def monotonic(self) -> float:
        """Return the time; meanwhile it may become later."""
        shown = 1000.0 + self.later
        if self.has_returned:
            self.has_returned, self.later = False, 100.0
            self.executors[0].check_overdue()
        return shown


def test_a_handler_that_returns_just_before_its_timeout_is_settled() -> None:
    """If the check for the timeout came between its return and its end, its claim would be held for ever."""
    clock, finished, is_finished = Hesitant(), list[Settlement](), threading.Event()

    def reconcile(_: Request) -> None:
        clock.has_returned = True

    def on_finished(settlement: Settlement) -> None:
        finished.append(settlement)
        is_finished.set()

    executor = ThreadExecutor("foos", reconcile, 1, timeout=50.0, clock=clock, on_finished=on_finished)
    clock.executors.append(executor)
    executor.start(lambda: None)
    executor.submit([Request("a")])
    assert is_finished.wait(20)
    executor.close()
    assert [each.outcome for each in finished] == [SUCCESS]


def test_a_timeout_cancels_on_a_machine_that_has_just_started() -> None:
    """Its monotonic clock may have begun within the last minute."""
    clock, begins, go_on = FakeClock(), threading.Event(), threading.Event()

    def reconcile(_: Request) -> None:
        begins.set()
        go_on.wait(20)

    executor = ThreadExecutor("foos", reconcile, 1, timeout=5.0, clock=clock, on_finished=lambda _: None)
    executor.start(lambda: None)
    request = Request("a")
    executor.submit([request])
    assert begins.wait(20)
    clock.step(6.0)
    executor.check_overdue()
    go_on.set()
    assert request.cancelled.is_set()
    executor.close()
