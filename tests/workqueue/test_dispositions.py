"""The disposition of a settlement is kept until its call fetches it, which may be a repeated one."""

import pytest

from distq.workqueue.dispositions import Dispositions
from distq.workqueue.engine import RateLimitedAdd
from distq.workqueue.interface import ENDED, REFUSED, Settlement, Success
from distq.workqueue.request import Request
from distq.workqueue.turns import PENDING


@pytest.fixture
def dispositions() -> Dispositions:
    """Give some of no turn yet."""
    return Dispositions()


def _settled(fence: int) -> Settlement:
    return Settlement(Request("a", fence=fence), Success())


def test_a_disposition_is_fetched_once(dispositions: Dispositions) -> None:
    """Whether by the call that sent the entries, or by a later one with an equal list."""
    entries = [_settled(1)]
    dispositions.add(entries, [ENDED])
    assert dispositions.take(list(entries)) == [ENDED]
    assert dispositions.take(entries) == [REFUSED]
    dispositions.add(entries, [ENDED])
    assert dispositions.take(entries) == [ENDED]
    assert dispositions.take(entries) == [REFUSED]


def test_a_late_disposition_is_that_of_its_claim(dispositions: Dispositions) -> None:
    """A repeated call may come with a copy of the Request; another claim of the key has another fence."""
    dispositions.add([_settled(1)], [ENDED])
    dispositions.add([_settled(2)], [PENDING])
    assert dispositions.take([_settled(3), _settled(2), _settled(1)]) == [REFUSED, PENDING, ENDED]


def test_two_failures_of_a_key_are_two(dispositions: Dispositions) -> None:
    """They differ though they look alike, since each call counts one."""
    first, second = RateLimitedAdd("a", 0), RateLimitedAdd("a", 0)
    dispositions.add([first], [PENDING])
    assert first in dispositions
    assert second not in dispositions
    assert dispositions.take([second, first]) == [REFUSED, PENDING]


def test_those_that_no_call_fetches_do_not_pile_up(dispositions: Dispositions) -> None:
    """The oldest are dropped."""
    entries = [_settled(fence) for fence in range(5000)]
    dispositions.add(entries, [ENDED] * len(entries))
    kept = [each is ENDED for each in dispositions.take(list(entries))]
    assert kept == [False] * 4000 + [True] * 1000
