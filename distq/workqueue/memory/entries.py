"""The words in which the specification of the queue is written.

Times are µs by the queue's clock. An item has at most one pending entry, for now or for later, and at
most one claim, each independent of the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

Item = str


class Now(NamedTuple):
    """Pending now, since ``since``: ready, or dirty while the item is claimed."""

    priority: int
    since: int


class Later(NamedTuple):
    """Pending from ``due_ms`` on, a time in ms: delayed."""

    priority: int
    due_ms: int


class Dead(NamedTuple):
    """Parked at ``since``, µs; ``time_may_mend`` why: too many failures, or crashes."""

    since: int
    time_may_mend: bool = False


class Claim(NamedTuple):
    """A session's hold on an item, and where it stood before."""

    session: int
    fence: int
    stood: Now


class Link(NamedTuple):
    """The span that gave the stamps from ``first`` to ``last`` to what it made pending."""

    first: int
    last: int
    span: str


@dataclass(frozen=True)
class FailureHistory:
    """What is remembered of an item that failed; ``reason``: why it is dead, or was until it fails again.

    ``crashes`` are the fences of the claims whose sessions lapsed, oldest first.
    """

    count: int = 0
    crashes: tuple[int, ...] = ()
    failed_at: int = 0
    reason: str = "-"
    text: str = ""


@dataclass
class Session:
    """Who may hold claims, until ``deadline`` on the claim clock.

    ``op``, ``fence``, ``alone`` and ``refused`` are what its last turn answered.
    """

    nonce: str
    deadline: float
    worker: str = ""
    op: str = "-"
    fence: int = 0
    alone: bool = False
    refused: Sequence[int] = ()
    ended: bool = False  # its claims are being taken back
    crashed: bool = False

    @property
    def last_turn(self) -> str:
        """Return its last turn by number and fence."""
        return "- -" if self.op == "-" else f"{self.op} {self.fence}"


class Emptying(NamedTuple):
    """The session that is to claim suspects, and since when it empties itself or holds its last one."""

    session: int
    since: int


class Policy(NamedTuple):
    """What a handle says with each turn; ``limiter`` as the scripts write it."""

    limiter: str
    max_retries: int | None = None
    fleet_concurrency: int | None = None
    revive_after: int | None = None
    wants_links: bool = False


class Ending(NamedTuple):
    """How a claim ends: success, done, retry, after, keep, release, park.

    keep: as after, but the failures are kept. limit counts a failure without a claim. unreadable: its
    worker cannot read the item, which is set aside.
    """

    item: Item
    fence: int
    outcome: str = "success"
    limiter: str = ""
    priority: int | None = None
    text: str = ""


@dataclass(frozen=True)
class Answer:
    """What a turn returns: ``refused`` endings by their number from 1, a disposition of each other.

    ``alone``: a suspect was claimed, or the session is to claim no more until it
    holds nothing and can claim one; ``promoted``: how many items became pending, since their delay ended or
    they came back without one, or they were ``revived``. ``links`` are the spans that made the claimed items
    pending, '' where none is known, of a turn that asks for them.
    """

    fence: int
    alone: bool
    refused: Sequence[int]
    dispositions: Sequence[str]
    claimed: Sequence[tuple[Item, Now]]
    failures: Sequence[FailureHistory | None]
    promoted: int = 0
    revived: int = 0
    links: Sequence[str] = field(default_factory=list)


class WentBack(NamedTuple):
    """What a turn returns instead that comes after another turn than ``last_turn``, the session's last."""

    last_turn: str


class Stream(NamedTuple):
    """How far a watched resource was handed over."""

    epoch: str
    position: str
    batch: str
    about: str
