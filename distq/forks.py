"""What begins anew in a child after a fork: no thread of its parent is there, and a lock may stay held."""

import os
import weakref
from typing import Protocol


class Beginning(Protocol):
    """Has threads or locks."""

    def begin(self) -> None:
        """Start from nothing."""


_all: weakref.WeakSet[Beginning] = weakref.WeakSet()


def begin_after_fork(one: Beginning) -> None:
    """Let it begin anew in the child of each fork from now on."""
    _all.add(one)


def _begin_all() -> None:
    for one in list(_all):
        one.begin()


os.register_at_fork(after_in_child=_begin_all)
