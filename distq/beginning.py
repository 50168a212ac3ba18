"""The start of a program, until its command runs: signals, and the imported modules."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """Keep the cyclic collector away from imported modules, then and later: modules stay.

    It would take an eighth of the time, and find nothing. For a program that has its process to itself.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def leave(*_: object) -> None:
    """End at once with status 0: nothing has begun."""
    os._exit(0)
