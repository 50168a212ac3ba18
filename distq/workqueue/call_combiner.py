"""Call combining: what threads ask for while a turn is under way travels together in the next one."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from distq.errors import RedisError
from distq.redisio.limits import TURN_LIMIT
from distq.workqueue.engine import Entry
from distq.workqueue.interface import Turn


@dataclass(eq=False)
class PendingCall:
    """What one thread wants of the next turn; in the end ``turn`` is what it got, or ``error`` why not."""

    entries: Sequence[Entry]
    want: int
    ahead: int = 0
    """How many claims its caller will want next, which the same turn may bring."""
    thread: int = field(default_factory=threading.get_ident)
    turn: Turn | None = None
    error: RedisError | None = None

    def result(self) -> Turn:
        """Return what it got, once it was answered."""
        if self.error is not None:
            raise self.error
        assert self.turn is not None  # noqa: S101  # an answer is one of the two
        return self.turn

    @property
    def is_answered(self) -> bool:
        """Return whether a turn carried it to its end."""
        return self.turn is not None or self.error is not None


class CallCombiner:
    """Lets one thread at a time make a turn, for itself and for those that wait behind it.

    ``make_turn`` receives the calls that it must answer. ``turn_lock`` is held meanwhile.
    """

    def __init__(
        self,
        turn_lock: threading.Lock,
        make_turn: Callable[[Sequence[PendingCall]], None],
    ) -> None:
        self._turn_lock = turn_lock
        self._make_turn = make_turn
        self._under_way: list[PendingCall] = []
        self._waiting: list[PendingCall] = []
        """Those under way that no turn has taken: only a turn takes them, under its lock."""

    def call(self, entries: Sequence[Entry], want: int, ahead: int = 0) -> Turn:
        """Return what a turn, of this thread or of another, brought for this call."""
        call = PendingCall(entries, want, ahead)
        self._under_way.append(call)
        try:
            self._waiting.append(call)
            with self._turn_lock:
                if not call.is_answered:
                    self._make_turn(self._take(call))
            return call.result()
        finally:
            self._under_way.remove(call)

    def claiming(self) -> Sequence[int]:
        """Return the threads whose calls may yet bring a claim."""
        return [call.thread for call in self._under_way.copy() if call.want]

    def _take(self, own: PendingCall) -> list[PendingCall]:
        """Take this thread's call, and of those behind it as many as the same turn carries."""
        self._waiting.remove(own)
        taken, entries, want = [own], len(own.entries), own.want + own.ahead
        for call in self._waiting.copy():
            entries += len(call.entries)
            want += call.want + call.ahead
            if entries > TURN_LIMIT or want > TURN_LIMIT:
                break
            self._waiting.remove(call)
            taken.append(call)
        return taken
