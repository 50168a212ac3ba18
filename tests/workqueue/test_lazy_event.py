"""What ``Request.cancelled`` is: an Event like any other, made when it is needed."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from distq import Request


def test_cancelled_is_an_event() -> None:
    """Handlers may look at it, wait for it, and pass it to any function that takes an Event."""
    request = Request("default/a")
    assert isinstance(request.cancelled, threading.Event)
    assert not request.cancelled.is_set()
    assert not request.cancelled.wait(0)
    request.cancelled.set()
    assert request.cancelled.is_set()
    assert request.cancelled.wait()
    request.cancelled.clear()
    assert not request.cancelled.is_set()
    assert not hasattr(request.cancelled, "nothing")


def test_requests_do_not_share_it() -> None:
    """The event of one claim ends no other."""
    one, other = Request("default/a"), Request("default/a")
    one.cancelled.set()
    assert one == other
    assert not other.cancelled.is_set()


def test_all_threads_that_wait_are_woken() -> None:
    """Many threads at once make one Event, in any order of waits and sets."""
    for _ in range(200):
        event, ready = Request("default/a").cancelled, threading.Barrier(5)

        def wait(event: threading.Event = event, ready: threading.Barrier = ready) -> bool:
            ready.wait()
            return event.wait(10)

        with ThreadPoolExecutor(4) as pool:
            waiting = [pool.submit(wait) for _ in range(4)]
            ready.wait()
            event.set()
            assert all(each.result() for each in waiting)


def test_a_set_within_its_making_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The garbage collector may run there, end a loop over listen, and find that the session is lost."""
    event, make = Request("default/a").cancelled, threading.Condition

    def interrupted(*arguments: threading.Lock) -> threading.Condition:
        monkeypatch.setattr(threading, "Condition", make)
        event.set()
        return make(*arguments)

    monkeypatch.setattr(threading, "Condition", interrupted)
    event.wait(0)
    assert event.is_set()


def test_an_interrupt_within_its_making_leaves_it_whole() -> None:
    """A signal handler may raise between any two steps in the main thread."""
    for steps in range(40):
        event, left = Request("default/a").cancelled, [steps]

        def raise_once(*_: object, left: list[int] = left) -> Any:
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
            return raise_once

        before = sys.gettrace()
        sys.settrace(raise_once)
        try:
            _ = event._cond  # type: ignore[attr-defined]  # what wait and set read first
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        assert not event.is_set()
        event.set()
        assert event.is_set()
        assert event.wait(0)


def test_a_set_within_a_set_does_not_wait_for_itself() -> None:
    """The garbage collector may run there, too."""
    event = Request("default/a").cancelled

    def set_within() -> None:
        with event._cond:  # type: ignore[attr-defined]  # as its set does
            event.set()

    thread = threading.Thread(target=set_within, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
