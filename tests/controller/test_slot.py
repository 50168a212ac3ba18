"""One slot: what became of a request is decided once, by its handler or by the clock."""

from distq.controller.worker.slot import Slot
from distq.workqueue.interface import Request


def test_the_clock_takes_only_the_request_that_it_looked_at() -> None:
    """The handler may end with it just then, and the slot go on with another one."""
    slot, first, second = Slot(), Request("a", fence=1), Request("a", fence=1)
    slot.begin(first, 0.0)
    assert slot.end()
    slot.begin(second, 1.0)
    assert not slot.decide(first)
    assert slot.end(), "the second one is its handler's"


def test_a_request_is_decided_once() -> None:
    """What was taken from its handler is not settled by it, and not taken twice."""
    slot, request = Slot(), Request("a", fence=1)
    slot.begin(request, 0.0)
    assert slot.decide(request)
    assert not slot.decide(request)
    assert not slot.end()
    assert not slot.decide(request)
