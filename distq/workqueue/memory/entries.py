"""The types in which the specification of the queue is written.

Times are µs by the queue's clock. An item has at most one pending entry, for now or for later, and at
most one claim, each independent of the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

Item = str


class Now(NamedTuple):
    """Pending now, since ``since``: ready, or dirty while the item is claimed.

    ``tag`` is its place in a fair queue, from when it is ready; None: its place is by ``since``.
    """

    priority: int
    since: int
    tag: int | None = None

    @property
    def place(self) -> tuple[int, int]:
        """Return the sort key of an item that is ready: the lower comes first."""
        return -self.priority, self.since if self.tag is None else self.tag


class Later(NamedTuple):
    """Pending from ``due_ms`` on, a time in ms: delayed."""

    priority: int
    due_ms: int


class Dead(NamedTuple):
    """Dead since ``since``, µs; ``time_may_mend``: waiting may help, after too many failures or crashes."""

    since: int
    time_may_mend: bool = False


class Claim(NamedTuple):
    """A session's hold on an item, and the item's place before."""

    session: int
    fence: int
    stood: Now


class Link(NamedTuple):
    """The span that made items pending, with the stamps from ``first`` to ``last``."""

    first: int
    last: int
    span: str


@dataclass(frozen=True)
class FailureHistory:
    """The failure record of an item; ``reason``: why it is dead, or last was; "-" after the next failure.

    ``crashes`` are the fences of the claims whose sessions lapsed, oldest first.
    """

    count: int = 0
    crashes: tuple[int, ...] = ()
    failed_at: int = 0
    reason: str = "-"
    text: str = ""


@dataclass
class Session:
    """A holder of claims, until ``deadline`` on the claim clock.

    ``op``, ``fence``, ``alone`` and ``refused`` belong to the answer of its last turn.
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
    """The session that claims suspects, and since when it empties itself or holds its last suspect."""

    session: int
    since: int


class Policy(NamedTuple):
    """The settings that a handle sends with each turn; ``limiter`` in the scripts' notation."""

    limiter: str
    max_retries: int | None = None
    fleet_concurrency: int | None = None
    revive_after: int | None = None
    wants_links: bool = False
    fleet_concurrency_per_flow: int | None = None


class Ending(NamedTuple):
    """How a claim ends: success, done, retry, after, keep, release, park.

    keep: as after, but the failures are kept. limit counts a failure without a claim. unreadable: the
    worker cannot read the item, so it is dead.
    """

    item: Item
    fence: int
    outcome: str = "success"
    limiter: str = ""
    priority: int | None = None
    text: str = ""


@dataclass(frozen=True)
class Answer:
    """The answer of a turn: ``refused`` endings by their number from 1, a disposition for each non-success.

    ``alone``: a suspect was claimed, or the session may claim nothing until it holds nothing and can claim
    one. ``promoted`` counts the items that became pending, since their delay ended, they came back without
    one, or they were ``revived``. ``links`` are the spans that made the claimed items pending, '' if unknown;
    empty unless the turn asks for them.
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
    """The answer to a turn that names another predecessor than ``last_turn``, the session's last one."""

    last_turn: str


class Stream(NamedTuple):
    """The position of a watched resource's stream."""

    epoch: str
    position: str
    batch: str
    about: str
