"""Waiting for a condition, as short as it takes."""

import time
from collections.abc import Callable

_SHORTEST, _LONGEST = 0.005, 0.1
_LOOKS = 0.2
"""Of the time that a wait takes, so much may be spent on looking: what is waited for needs the processors."""


def eventually(
    condition: Callable[[], object], what: str | Callable[[], str] = "", *, timeout: float = 30.0
) -> None:
    """Return once the condition holds; fail after ``timeout`` seconds, and say what did not happen."""
    began = time.monotonic()
    looked_at = began
    while not condition():
        now = time.monotonic()
        if now > began + timeout:
            raise AssertionError(f"not within {timeout:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(min(max(_SHORTEST, (now - looked_at) / _LOOKS), _LONGEST))
        looked_at = time.monotonic()
