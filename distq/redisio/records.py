"""The texts in a queue's hashes, as the scripts write them."""

import json
from dataclasses import dataclass
from typing import Any, Self

from distq.redisio.scores import decode_order


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """A value of ``claims``: who holds the item, since which turn, and where it stood before."""

    session: int
    fence: int
    priority: int
    since_us: int

    @classmethod
    def parse(cls, text: bytes) -> Self:
        """Read ``session fence order``."""
        session, fence, score = text.split(b" ")
        return cls(int(session), int(fence), *decode_order(score))


@dataclass(frozen=True, slots=True)
class FailureRecord:
    """A value of ``failures``; ``reason`` is why the item was parked after its last failure, if it was."""

    count: int
    crashes: int
    failed_at_us: int
    reason: str
    error: str
    traceback: str

    @classmethod
    def parse(cls, text: bytes) -> Self:
        """Read ``count crashes failed_at reason text``; the traceback begins at the text's second line."""
        count, crashes, failed_at, reason, rest = text.decode(errors="replace").split(" ", 4)
        error, _, traceback = rest.partition("\n")
        return cls(int(count), int(crashes), int(failed_at), reason.strip("-"), error, traceback)


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """A value of ``streams``: how far a watched resource was handed over, and by whom."""

    epoch: str
    position: str
    batch: str
    about: dict[str, Any]

    @classmethod
    def parse(cls, text: bytes) -> Self:
        """Read ``epoch position batch JSON``."""
        epoch, position, batch, about = text.decode().split(" ", 3)
        return cls(epoch, position, batch, json.loads(about))

    def gone_since(self, now: float) -> float | None:
        """Return since when its leader is gone, at the server's time ``now``; None while it leads.

        A leader commits each second. It is gone when its last commit says so, or is older than its lease; of
        a distq 0.1.0, whose commits have no time, nothing is known.
        """
        seen: float | None = self.about.get("seen")
        if seen is not None and (self.about.get("left") or now - seen > self.about["lease"]):
            return seen
        return None
