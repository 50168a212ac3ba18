"""A Request is a plain value, though its event is made only where someone asks for it."""

import copy
import dataclasses
import pickle
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from distq.workqueue import request as request_module
from distq.workqueue.cancellation import Cancelled, ClaimPeriod
from distq.workqueue.request import Request, claimed_requests, is_cancelled


@pytest.fixture
def claimed() -> Request:
    """Give a request whose event no thread asked for."""
    (request,) = claimed_requests(["default/a"], [2], [5], [1.0], [""], fence=7, period=ClaimPeriod())
    return request


@pytest.mark.parametrize("duplicate", [copy.copy, dataclasses.replace])
def test_a_copy_learns_that_the_claim_ended(
    claimed: Request, duplicate: Callable[[Request], Request]
) -> None:
    """Its event is that of the claim, also where nothing had asked for it before."""
    other = duplicate(claimed)
    assert (other, hash(other)) == (claimed, hash(claimed))
    claimed.cancelled.set()
    assert other.cancelled.is_set()


def _sent(request: Request) -> Request:
    """Return what another process would have of it."""
    sent: Request = pickle.loads(pickle.dumps(request))  # noqa: S301  # of this process itself
    return sent


@pytest.mark.parametrize("duplicate", [copy.deepcopy, _sent])
def test_it_goes_to_other_processes(claimed: Request, duplicate: Callable[[Request], Request]) -> None:
    """There its event is another one."""
    other = duplicate(claimed)
    assert other == claimed
    other.cancelled.set()
    assert not claimed.cancelled.is_set()


def test_a_name_that_it_has_not_is_an_attribute_error(claimed: Request) -> None:
    """Python suggests the right one."""
    with pytest.raises(AttributeError, match="kay"):
        claimed.kay  # type: ignore[attr-defined]  # noqa: B018  # the mistake of the test


def test_threads_that_read_the_event_first_get_the_same_one(
    claimed: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that waits for it and one that sets it may both be the first."""
    both = threading.Barrier(2)

    def made(period: ClaimPeriod) -> Cancelled:
        with suppress(threading.BrokenBarrierError):
            both.wait(0.1)  # until both make one, if they may
        return Cancelled(period)

    monkeypatch.setattr(request_module, "Cancelled", made)
    with ThreadPoolExecutor(2) as pool:
        one, other = [pool.submit(lambda: claimed.cancelled) for _ in range(2)]
        assert one.result() is other.result() is claimed.cancelled


def test_what_runs_while_the_event_is_made_gets_the_same_one(
    claimed: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal handler or the garbage collector may set it at any point, and that counts."""

    def made(period: ClaimPeriod) -> Cancelled:
        monkeypatch.setattr(request_module, "Cancelled", Cancelled)
        claimed.cancelled.set()
        return Cancelled(period)

    monkeypatch.setattr(request_module, "Cancelled", made)
    assert claimed.cancelled.is_set()
    assert is_cancelled(claimed, 0.0)


def test_the_claims_of_one_turn_end_apart() -> None:
    """Each has an event of its own."""
    one, other = claimed_requests(
        ["a", "b"], [1, 1], [0, 0], [1.0, 1.0], ["", ""], fence=7, period=ClaimPeriod()
    )
    one.cancelled.set()
    assert [is_cancelled(each, 0.0) for each in (one, other)] == [True, False]
    assert not other.cancelled.is_set()


def test_it_is_a_frozen_dataclass(claimed: Request) -> None:
    """Of which nothing is seen but its fields."""
    names = [each.name for each in dataclasses.fields(claimed)]
    assert names == ["key", "attempt", "priority", "fence", "enqueued_at", "cancelled", "link"]
    assert Request(**dataclasses.asdict(claimed)) == claimed
    assert repr(claimed) == "Request(key='default/a', attempt=2, priority=5, fence=7, enqueued_at=1.0)"
    assert weakref.ref(claimed)() is claimed
    for name in ("key", "cancelled", "name", "other"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(claimed, name, "b")


@dataclasses.dataclass(frozen=True)
class Named(Request):
    """A Request of a program, with a field more."""

    title: str = "none"


class Noted(Request):
    """A Request of a program, with an attribute."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.note = "new"


@pytest.mark.parametrize("duplicate", [copy.copy, _sent])
def test_a_program_may_extend_it(duplicate: Callable[[Request], Request]) -> None:
    """And copy what it made."""
    named, noted = duplicate(Named("a", title="first")), duplicate(Noted("b"))
    assert isinstance(named, Named)
    assert (named.key, named.attempt, named.title) == ("a", 1, "first")
    assert isinstance(noted, Noted)
    assert (noted.key, noted.note) == ("b", "new")
    assert not is_cancelled(named, 0.0)
    named.cancelled.set()
    assert is_cancelled(named, 0.0)
