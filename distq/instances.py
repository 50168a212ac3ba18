"""All objects of a kind that a process has."""

from collections.abc import Iterator
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")


class Instances(Generic[T]):
    """Weak references to objects. A WeakSet cannot be read while another thread adds to it."""

    def __init__(self) -> None:
        self._by_id: WeakValueDictionary[int, T] = WeakValueDictionary()

    def add(self, one: T) -> None:
        """Remember an object until nothing else does."""
        self._by_id[id(one)] = one

    def __iter__(self) -> Iterator[T]:
        """Yield the objects that were there at the beginning and still are."""
        for reference in self._by_id.valuerefs():
            if (one := reference()) is not None:
                yield one
