"""The texts in a queue's hashes, as the scripts write them.

Somebody else may have written there, too: to parse a text never fails, and of what cannot be read it returns
what is true of nothing.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, Self

from distq.redisio.checkpoints import checkpoint_of
from distq.redisio.scores import decode_order, decode_time

_NUMBER = rb"(\d{1,16})"
_CLAIM = re.compile(rb"%b %b (\S+)" % (_NUMBER, _NUMBER))
_FAILURE = re.compile(rb"%b %b (\d+) (\S+?)(?:@[\d,]+)? (.*)" % (_NUMBER, _NUMBER), re.DOTALL)
_STREAM = re.compile(rb"(\S+) (\S+) (\S+) (.*)", re.DOTALL)
_LATEST = 2**52 / 1e6
UNREADABLE = "unreadable"
"""The reason of an item that was set aside."""
UNMAPPED = "unmapped"
"""The reason of an object that a mapping watch's functions failed on; its name is no key."""
UNROUTED = {"routing", UNMAPPED}
"""The reasons of objects that a watch's functions failed on."""


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """A value of ``claims``: who holds the item, since which turn, and where it stood before; or zeros."""

    session: int
    fence: int
    priority: int
    since_us: int

    @classmethod
    def parse(cls, text: bytes) -> Self:
        """Read ``session fence order``."""
        found = _CLAIM.fullmatch(text)
        if found is None:
            return cls(0, 0, 0, 0)
        return cls(int(found[1]), int(found[2]), *decode_order(found[3]))


@dataclass(frozen=True, slots=True)
class FailureRecord:
    """A value of ``failures``; ``reason`` is why the item was parked after its last failure, if it was.

    Of one that is not ``readable`` the text is all there is.
    """

    count: int
    crashes: int
    failed_at_us: int
    reason: str
    error: str
    traceback: str
    readable: bool = True

    @classmethod
    def parse(cls, text: bytes) -> Self:
        """Read ``count crashes failed_at reason text``; the traceback begins at the text's second line.

        Behind the reason are the claims that crashed, ``@fence,fence``, which are the scripts' alone.
        """
        found = _FAILURE.fullmatch(text)
        if found is None or max(int(found[1]), int(found[2])) >= 2**53:
            return cls(0, 0, 0, UNREADABLE, text.decode(errors="backslashreplace"), "", readable=False)
        reason = found[4].decode(errors="backslashreplace").strip("-")
        # a text may be cut within a letter; of what could not be read each byte counts
        errors = "backslashreplace" if reason == UNREADABLE else "replace"
        error, _, traceback = found[5].decode(errors=errors).partition("\n")
        return cls(int(found[1]), int(found[2]), decode_time(found[3]) or 0, reason, error, traceback)


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """A value of ``streams``: how far a watched resource was handed over, and by whom."""

    epoch: str
    position: str
    batch: str
    about: dict[str, Any]

    @classmethod
    def parse(cls, text: bytes) -> Self | None:
        """Read ``epoch position batch JSON``; None for what the scripts take for no record, either."""
        found = _STREAM.fullmatch(text)
        if found is None:
            return None
        epoch, position, batch = (word.decode(errors="backslashreplace") for word in found.groups()[:3])
        return cls(epoch, position, batch, parse_fields(found[4]))

    def cached_indices(self) -> frozenset[str] | None:
        """Return by which indices the stream's cache finds objects; None where it is not complete.

        Its leader says so with each commit (``cached``), once a list of its own was handed over or the leader
        before said the same. One of 0.1.0 keeps no cache and says nothing; nor does the mark to list anew.
        """
        names = self.about.get("cached")
        if not checkpoint_of(self.position).isdigit() or not isinstance(names, list):
            return None
        return frozenset(name for name in names if isinstance(name, str))

    def moment(self, name: str) -> float | None:
        """Return a time that was reported, seconds since the epoch; None for none."""
        return moment_of(self.about.get(name))

    def gone_since(self, now: float) -> float | None:
        """Return since when its leader is gone, at the server's time ``now``; None while it leads.

        A leader commits each second. It is gone when its last commit says so, or is older than its lease; of
        a distq 0.1.0, whose commits have no time, nothing is known.
        """
        seen, lease = self.moment("seen"), moment_of(self.about.get("lease"))
        if seen is not None and (self.about.get("left") or (lease is not None and now - seen > lease)):
            return seen
        return None


def parse_fields(text: bytes | str) -> dict[str, Any]:
    """Read what a process reports of itself as JSON; nothing where that cannot be read."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def moment_of(value: object) -> float | None:
    """Return a number of seconds that was reported, a time or a duration; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < _LATEST else None


def count_of(value: object) -> int:
    """Return a whole number that was reported; 0 for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def words_of(value: object) -> str | None:
    """Return a text that was reported, as UTF-8 can hold it; None for anything else."""
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else None
