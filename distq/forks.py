"""Objects begin anew in the child of a fork: no thread of the parent is there, and a lock may stay held."""

import functools
import os
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Protocol, TypeVar

from distq.instances import Instances

Value = TypeVar("Value")


class ForkAware(Protocol):
    """Has threads or locks."""

    def begin(self) -> None:
        """Start from nothing."""


class cached_property(functools.cached_property[Value]):  # noqa: N801  # as functools names it
    """functools.cached_property without the lock of Python 3.11, which all objects of a class share.

    A thread may hold it at a fork; nothing in the child could then read the property of any object. Threads
    that read it first at the same time may both make the value, as from Python 3.12 on.
    """

    def __init__(self, func: Callable[[Any], Value]) -> None:
        super().__init__(func)
        self.lock = nullcontext()


_all = Instances[ForkAware]()


def begin_after_fork(one: ForkAware) -> None:
    """Let it begin anew in the child of each fork from now on."""
    _all.add(one)


def _begin_all() -> None:
    for one in _all:
        one.begin()


os.register_at_fork(after_in_child=_begin_all)
