"""What threads ask of a session while a turn is under way; it travels together in the next one."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from distq.errors import RedisError
from distq.redisio.limits import TURN_LIMIT
from distq.workqueue.interface import Disposition, Request
from distq.workqueue.turns import Entry


@dataclass(eq=False)
class PendingCall:
    """What one thread wants of the next turn, and what it got."""

    entries: Sequence[Entry]
    want: int
    requests: list[Request] = field(default_factory=list)
    dispositions: list[Disposition] = field(default_factory=list)
    wait: float = 0.0
    promoted: int = 0
    answered: bool = False
    error: RedisError | None = None


class CallCombiner:
    """The asks that no turn has taken; any thread adds, one at a time takes."""

    def __init__(self) -> None:
        self._waiting: deque[PendingCall] = deque()

    def add(self, ask: PendingCall) -> None:
        """Let the ask travel in one of the next turns; raise ValueError for one that no turn can carry."""
        if len(ask.entries) > TURN_LIMIT or ask.want > TURN_LIMIT:
            raise ValueError(
                f"a turn of {len(ask.entries)} settlements and {ask.want} claims: "
                f"at most {TURN_LIMIT} each way"
            )
        self._waiting.append(ask)

    def take(self) -> list[PendingCall]:
        """Take as many asks, from the first, as one turn carries."""
        taken: list[PendingCall] = []
        entries = want = 0
        while self._waiting:
            entries += len(self._waiting[0].entries)
            want += self._waiting[0].want
            if entries > TURN_LIMIT or want > TURN_LIMIT:
                break
            taken.append(self._waiting.popleft())
        return taken
