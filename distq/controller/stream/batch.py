"""What one commit carries, and how a known set remembers an object."""

import logging
from collections.abc import Callable, Iterable, Sequence

from distq.errors import InvalidKey
from distq.redisio.keys import validate_key
from distq.redisio.limits import BATCH_LIMIT

logger = logging.getLogger(__name__)


def known_line(version: str, keys: Iterable[str] | None) -> str:
    """Return what the known set holds of an object: its version, then the keys that are not its own."""
    return "\n".join((version, *(keys or ())))


def parse_known(line: str | None) -> tuple[str | None, list[str]]:
    """Return version and mapped keys; None for an object that was never handed over."""
    if line is None:
        return None, []
    version, *keys = line.split("\n")
    return version, keys


def possible_keys(names: Iterable[str]) -> list[str]:
    """Return the objects' names that can be keys of a queue; say which cannot.

    API servers let objects of few kinds, such as Role, have any name, and one must not stop the others.
    """
    possible = []
    for name in names:
        try:
            validate_key(name)
        except InvalidKey as error:
            logger.warning("an object is left out: %s", error)
        else:
            possible.append(name)
    return possible


class Batch:
    """Collects what happened to objects, in order, and commits whenever a commit is full.

    ``commit`` takes this batch; ``version`` is then the version up to which it is whole, "" where a part of
    an event is still to come.
    """

    def __init__(self, commit: Callable[["Batch"], None]) -> None:
        self._commit = commit
        self.keys: dict[str, None] = {}
        self.known: dict[str, str] = {}
        self.gone: dict[str, None] = {}
        self.version = ""

    def add(self, name: str, line: str | None, keys: Sequence[str], version: str = "") -> None:
        """Add an object's keys and what to remember of it; None: it is gone."""
        if self._size() + 1 + len(keys) > BATCH_LIMIT:
            self.flush()
        while len(keys) >= BATCH_LIMIT:
            self.keys = dict.fromkeys(keys[:BATCH_LIMIT])
            self.version = ""
            self.flush()
            keys = keys[BATCH_LIMIT:]
        self.keys.update(dict.fromkeys(keys))
        self.version = version
        self.known.pop(name, None)
        self.gone.pop(name, None)
        if line is None:
            self.gone[name] = None
        else:
            self.known[name] = line

    def flush(self) -> None:
        """Commit what was added, if anything."""
        if self._size():
            self._commit(self)
            self.keys, self.known, self.gone = {}, {}, {}

    def _size(self) -> int:
        return len(self.keys) + len(self.known) + len(self.gone)
