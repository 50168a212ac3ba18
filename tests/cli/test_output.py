"""Ages, moments and escapes."""

import pytest

from distq.cli.output import escape
from distq.wording import age, rfc3339


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((-1, "0s"), (0.42, "0.4s"), (2, "2s"), (9.97, "10s"), (38.4, "38s"), (59.6, "1m0s")),
        *((252, "4m12s"), (11_520, "3h12m"), (86_399.7, "1d0h"), (457_200, "5d7h")),
    ],
)
def test_ages_are_short(seconds: float, text: str) -> None:
    """Two units at most, tenths below ten seconds."""
    assert age(seconds) == text


def test_moments_are_utc() -> None:
    """RFC 3339 with milliseconds, in every time zone of the machine."""
    assert rfc3339(1_767_323_045.25) == "2026-01-02T03:04:05.250Z"


def test_control_characters_are_escaped() -> None:
    """Printable text of any language stays as it is."""
    assert escape("prod/größe-日本-🙂") == "prod/größe-日本-🙂"
    assert escape("a\x1b[31m\r\n\u202e\u2028\x9b") == "a\\x1b[31m\\r\\n\\u202e\\u2028\\x9b"
