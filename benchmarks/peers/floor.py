"""The least that a wake-up takes: a bare BLPOP, and a BLPOP after which a script claims the item."""

from collections.abc import Iterable, Sequence

from benchmarks.peers import Handle, NoBulk
from benchmarks.subjects import Floor
from distq.redisio.connection import Connection

_WAKE = "floor:wake"


class Wake:
    """A worker of ``kind`` blpop, or claim: the item is claimed by a script of the floor."""

    def __init__(self, url: str, kind: str) -> None:
        self._connection = Connection(url)
        self._floor = Floor(self._connection) if kind == "claim" else None

    def add_each(self, keys: Iterable[str]) -> None:
        """Add by one command, or by one script that also wakes the worker."""
        for key in keys:
            if self._floor is None:
                self._connection.execute("RPUSH", _WAKE, key)
            else:
                self._floor.add_and_wake(key, _WAKE)

    def add_many(self, _: Sequence[str]) -> None:
        """Raise NoBulk."""
        raise NoBulk

    def work(self, handle: Handle) -> None:
        """Pop, and claim."""
        blocking = self._connection.dedicated()
        while True:
            blocking.send_command("BLPOP", _WAKE, 2)
            popped = blocking.read_response()
            if popped is None:
                continue
            if self._floor is None:
                handle(popped[1].decode())
            elif claimed := self._floor.claim_one():
                handle(claimed)


def connect(url: str, kind: str) -> Wake:
    """Return the floor."""
    return Wake(url, kind)
