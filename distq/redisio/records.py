"""The texts in a queue's hashes, as the scripts write them.

Other programs may have written there, too: parsing never fails, and a text that cannot be read becomes a
record that is true of nothing.
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
_STREAM = re.compile(rb"(\d+) ([!-~]+) ([!-~]+) (.*)", re.DOTALL)
LATEST = 2**52 / 1e6
"""No time is later, in seconds since the epoch: the year 2112."""
UNREADABLE = "unreadable"
"""The reason of an item whose key or failure record a worker could not read."""
UNMAPPED = "unmapped"
"""The reason of an object for which a mapping watch's functions failed; its name is no key."""
UNROUTED = {"routing", UNMAPPED}
"""The reasons of objects for which a watch's functions failed."""


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """A value of ``claims``: the item's session, the turn of the claim, its place before; or zeros."""

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

    A record that is not ``readable`` has only its text.
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

        The claims that crashed follow the reason, ``@fence,fence``; only the scripts use them.
        """
        found = _FAILURE.fullmatch(text)
        # the scripts count in doubles, which are exact below 2**53
        if found is None or max(int(found[1]), int(found[2])) >= 2**53:
            return cls(0, 0, 0, UNREADABLE, text.decode(errors="backslashreplace"), "", readable=False)
        reason = found[4].decode(errors="backslashreplace").strip("-")
        # a text may be cut within a letter; of an unreadable item each byte matters
        errors = "backslashreplace" if reason == UNREADABLE else "replace"
        error, _, traceback = found[5].decode(errors=errors).partition("\n")
        return cls(int(found[1]), int(found[2]), decode_time(found[3]) or 0, reason, error, traceback)


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """A value of ``streams``: the position to which a leader, of ``epoch``, has handed a resource over."""

    epoch: str
    position: str
    batch: str
    about: dict[str, Any]

    @classmethod
    def parse(cls, text: bytes) -> Self | None:
        """Read ``epoch position batch JSON``; None for texts that the scripts do not count as a record."""
        found = _STREAM.fullmatch(text)
        if found is None:
            return None
        epoch, position, batch = (word.decode() for word in found.groups()[:3])
        return cls(epoch, position, batch, parse_fields(found[4]))

    def cached_indices(self) -> frozenset[str] | None:
        """Return the indices by which the stream's cache finds objects; None if the cache is incomplete.

        A leader writes them with each commit (``cached``), after it has handed over a list of its own, or if
        the leader before wrote them. A leader of 0.1.0 keeps no cache and does not write them; nor does the
        mark to list again.
        """
        names = self.about.get("cached")
        if not checkpoint_of(self.position).isdigit() or not isinstance(names, list):
            return None
        return frozenset(name for name in names if isinstance(name, str))

    def moment(self, name: str) -> float | None:
        """Return a reported time, seconds since the epoch; None if there is none."""
        return moment_of(self.about.get(name))

    def gone_since(self, now: float) -> float | None:
        """Return since when the stream's leader is gone, at the server's time ``now``; None while it leads.

        A leader commits each second. It is gone if its last commit reports so, or is older than its lease.
        The commits of distq 0.1.0 have no time: None.
        """
        seen, lease = self.moment("seen"), moment_of(self.about.get("lease"))
        if seen is not None and (self.about.get("left") or (lease is not None and now - seen > lease)):
            return seen
        return None


def parse_fields(text: bytes | str) -> dict[str, Any]:
    """Read the JSON that a process reports about itself; an empty dict if that is unreadable."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):  # another program may have nested it deeply
        return {}
    return fields if isinstance(fields, dict) else {}


def moment_of(value: object) -> float | None:
    """Return a reported number of seconds, a time or a duration; None for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < LATEST else None


def count_of(value: object) -> int:
    """Return a reported whole number; 0 for any other value."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def words_of(value: object) -> str | None:
    """Return a reported text, in a form that UTF-8 can hold; None for any other value."""
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else None
