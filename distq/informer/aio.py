"""The reads of a lister for ``async def``: each runs in a thread."""

from functools import partial
from typing import TYPE_CHECKING

from distq.call_threads import AwaitedCalls
from distq.client.objects import Object
from distq.informer.selectors import Labels

if TYPE_CHECKING:
    from distq.informer.indexer import Objects
    from distq.informer.lister import Lister

THREADS = 32
"""Reads at a time, of all listers of a process; more wait for a thread."""

_calls = AwaitedCalls(THREADS, "distq-lister")


class AsyncLister:
    """What ``Lister.aio`` is: the reads of a lister for ``async def``, from any event loop.

    They raise what the reads of the lister raise. All listers of a process make 32 reads at a time.
    """

    def __init__(self, lister: "Lister") -> None:
        self._lister = lister

    async def get(self, key: str) -> Object | None:
        """Return the object of a key, ``namespace/name`` or ``name``; None where there is none."""
        return await _calls.call(partial(self._lister.get, key))

    async def list(self, namespace: str | None = None, *, label_selector: str | Labels = "") -> "Objects":
        """Return all objects, or those of a namespace, whose labels match, in no order."""
        return await _calls.call(partial(self._lister.list, namespace, label_selector=label_selector))

    async def by_index(self, name: str, value: str) -> "Objects":
        """Return the objects that an index has under a value."""
        return await _calls.call(partial(self._lister.by_index, name, value))
