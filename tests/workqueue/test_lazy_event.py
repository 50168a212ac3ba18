"""What ``Request.cancelled`` is: an Event like any other, made when it is needed."""

import threading
from concurrent.futures import ThreadPoolExecutor

from distq import Request


def test_cancelled_is_an_event() -> None:
    """Handlers may look at it, wait for it, and hand it to whatever takes an Event."""
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
    """What ends one claim ends no other."""
    one, other = Request("default/a"), Request("default/a")
    one.cancelled.set()
    assert one == other
    assert not other.cancelled.is_set()


def test_all_threads_that_wait_are_woken() -> None:
    """Many threads at once make one Event, in whatever order they wait and set."""
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
