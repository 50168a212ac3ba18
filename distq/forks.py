"""Objects begin anew in the child of a fork: no thread of the parent is there, and a lock may stay held."""

import os
import weakref
from typing import Protocol


class ForkAware(Protocol):
    """Has threads or locks."""

    def begin(self) -> None:
        """Start from nothing."""


_all: weakref.WeakSet[ForkAware] = weakref.WeakSet()


def begin_after_fork(one: ForkAware) -> None:
    """Let it begin anew in the child of each fork from now on."""
    _all.add(one)


def _begin_all() -> None:
    for one in list(_all):
        one.begin()


os.register_at_fork(after_in_child=_begin_all)
