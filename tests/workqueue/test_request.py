"""A Request is a plain value, though its event is made only where someone asks for it."""

import copy
import dataclasses
import pickle
from collections.abc import Callable

import pytest

from distq.workqueue.cancellation import ClaimPeriod
from distq.workqueue.interface import Request, claimed_requests


@pytest.fixture
def claimed() -> Request:
    """Give a request whose event no thread asked for."""
    (request,) = claimed_requests([("default/a", 2, 5, 1.0, "")], 7, ClaimPeriod())
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
