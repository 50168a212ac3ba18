"""Waiting for a condition, as short as it takes."""

import time
from collections.abc import Callable


def eventually(
    condition: Callable[[], object], what: str | Callable[[], str] = "", *, timeout: float = 30.0
) -> None:
    """Return once the condition holds; fail after ``timeout`` seconds, and say what did not happen."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(0.005)
