"""What a stream reads back of its cache comes in parts that take little memory."""

import threading
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, cast

import pytest

from distq.clock import SYSTEM_CLOCK
from distq.controller.stream.committer import Committer
from distq.redisio.limits import OLD_OBJECTS
from distq.redisio.object_cache import CachedObject
from distq.redisio.stream_store import StreamStore
from tests.controller.leading import Term


class Store:
    """A store of any object, which notes how many it is asked for at a time."""

    stream = "v1/Pod"

    def __init__(self) -> None:
        self.asked: list[int] = []

    def cached_of(self, names: Sequence[str]) -> list[CachedObject]:
        """Return them."""
        self.asked.append(len(names))
        return [CachedObject(name, "1", b"{}") for name in names]

    handed_over = cached_of


@pytest.mark.bound("OLD_OBJECTS")
@pytest.mark.parametrize("read", ["cached_of", "handed_over"])
def test_old_objects_are_read_in_parts(read: str) -> None:
    """No reply has more than ``OLD_OBJECTS`` of them, and a large batch is returned whole and in order."""
    store = Store()
    committer = Committer(
        cast("StreamStore", store),
        Term(),
        SYSTEM_CLOCK,
        threading.Event(),
        about=dict[str, Any],
        present_version=str,
        committed=lambda _: None,
        span=lambda _: nullcontext(""),
    )
    names = [f"ns/pod-{number}" for number in range(3 * OLD_OBJECTS + 1)]
    assert [obj.name for obj in getattr(committer, read)(names)] == names
    assert store.asked == [OLD_OBJECTS] * 3 + [1]
