"""Lets a worker of a fleet hang in the midst of its work, so that it can be killed there."""

import itertools
import os
import threading
from pathlib import Path
from typing import Any

from distq.client.raw import RawClient

VARIABLE = "FLEET_HOLD"
"""The environment names a file: from when that exists, a process does a few writes more, and then hangs.

The last of them takes effect, but the process never sees its answer, as if it had died in between.
"""
WRITES = 5

_numbers = itertools.count(1)
_request = RawClient.request


def hold_writes() -> None:
    """Let this process hang in the last write that it may do, if it is to."""
    if VARIABLE in os.environ:
        RawClient.request = _request_or_hang  # type: ignore[assignment,method-assign]


def _request_or_hang(client: RawClient, method: str, path: str, **options: Any) -> bytes:
    counts = method != "GET" and "/events" not in path and Path(os.environ[VARIABLE]).exists()
    number = next(_numbers) if counts else 0
    answer = b"" if number > WRITES else _request(client, method, path, **options)
    if number >= WRITES:
        threading.Event().wait()
    return answer
