"""Waiting for a condition, as short as it takes."""

import time
from collections.abc import Callable


def eventually(condition: Callable[[], object], *, timeout: float = 20.0) -> None:
    """Return once the condition holds; fail after ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout:g} s"
        time.sleep(0.005)
