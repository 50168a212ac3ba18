"""Durations as one word: few bytes, exact to a factor of two, for any bytes in Redis."""

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distq.redisio.durations import Durations

seconds = st.floats(0, 1e6)
"""Up to eleven days."""
_MOST = 2**24 / 1000


def durations_of(values: list[float]) -> Durations:
    """Count durations."""
    found = Durations()
    found.note([int(value * 1000) for value in values])
    return found


@given(st.lists(seconds, min_size=1, max_size=60), st.floats(0.01, 1))
def test_a_quantile_is_exact_to_a_factor_of_two(values: list[float], share: float) -> None:
    """Or to a ms, below that; a duration longer than can be recorded counts as 4.7 hours."""
    found = durations_of(values)
    estimate = found.quantile(share)
    assert estimate is not None
    exact = sorted(values)[ceil(share * len(values) - 1e-9) - 1]
    if exact < _MOST:
        assert exact / 2 - 0.001 <= estimate <= exact * 2 + 0.001
    else:
        assert estimate == _MOST


@given(st.lists(seconds, max_size=60), st.lists(seconds, max_size=60))
def test_durations_are_read_as_they_were_written_and_add_up(some: list[float], others: list[float]) -> None:
    """A word is what all of them were."""
    together = Durations.parse(str(durations_of(some)).encode()) + durations_of(others)
    assert str(together) == str(durations_of(some + others))
    assert str(Durations()) == "-"


@pytest.mark.parametrize("together", [1, 7, 250, 3000])
def test_durations_count_alike_singly_and_in_batches(together: int) -> None:
    """A busy worker notes 250 and an idle one 1; a heartbeat may read them at any moment."""
    milliseconds, found = [number % 40 for number in range(3000)], Durations()
    for start in range(0, len(milliseconds), together):
        found.note(milliseconds[start : start + together])
        assert str(found) == str(durations_of([each / 1000 for each in milliseconds[: start + together]]))


@pytest.mark.parametrize(
    ("value", "letter"), [(0, "a"), (0.00099, "a"), (0.001, "b"), (0.0019, "b"), (0.008, "e"), (1e9, "z")]
)
def test_a_range_ends_where_the_next_begins(value: float, letter: str) -> None:
    """Letters are in Redis: they mean tomorrow what they meant yesterday."""
    assert str(durations_of([value])) == f"{letter}1"


@given(st.binary() | st.from_regex(rb"([a-z]?[0-9]*)*", fullmatch=True))
def test_a_word_that_cannot_be_read_counts_nothing(word: bytes) -> None:
    """For any bytes there is an answer."""
    found = Durations.parse(word)
    assert (found.quantile(0.5) is None) == (str(found) == "-")
