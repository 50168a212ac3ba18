"""Waiting for a condition, as short as it takes."""

import time
from collections.abc import Callable

SHORTEST, LONGEST = 0.005, 0.025
"""Seconds between two looks: the longer it takes, the less may all the looks cost."""


def eventually(
    condition: Callable[[], object], what: str | Callable[[], str] = "", *, timeout: float = 30.0
) -> None:
    """Return once the condition holds; fail after ``timeout`` seconds, and say what did not happen."""
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        if waited > timeout:
            raise AssertionError(f"not within {timeout:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(min(SHORTEST + waited / 40, LONGEST))
