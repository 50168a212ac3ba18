"""What a known set remembers of an object: what the next list is compared with."""

from collections.abc import Sequence
from typing import NamedTuple

from distq.redisio.keys import bytes_of, text_of


class Known(NamedTuple):
    """The version up to which an object was handed over, None for never, and the keys other than its own."""

    version: str | None = None
    keys: Sequence[bytes] = ()

    @classmethod
    def parse(cls, line: str | None) -> "Known":
        """Read the known set's line: the version, then a key a line."""
        if line is None:
            return NEVER
        version, *keys = line.split("\n")
        return cls(version, list(map(bytes_of, keys)))

    def line(self) -> str:
        """Return what is stored."""
        return "\n".join((self.version or "", *map(text_of, self.keys)))


NEVER = Known()
"""Of an object that was never handed over."""
