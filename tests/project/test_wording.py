"""Durations and counts are written for people."""

import pytest

from distq.wording import counted, duration

pytestmark = pytest.mark.first_contact(13)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 µs"),
        (-1, "0 µs"),
        (5.48e-06, "5.5 µs"),
        (5e-06, "5 µs"),
        (0.0121, "12 ms"),
        (0.9996, "1 s"),
        (3.21, "3.2 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1m0s"),
        (252, "4m12s"),
        (3599.6, "1h0m"),
        (11520, "3h12m"),
        (5 * 86400 + 7 * 3600, "5d7h"),
    ],
)
def test_a_duration_is_read_at_a_glance(seconds: float, text: str) -> None:
    """Two digits are enough, and no power of ten is shown."""
    assert duration(seconds) == text


def test_one_of_a_thing_is_no_plural() -> None:
    """One object, two objects."""
    assert [counted(n, "object") for n in range(3)] == ["0 objects", "1 object", "2 objects"]
