"""Call combining: calls that threads make while a turn is under way travel together in the next one."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from distq.errors import RedisError
from distq.redisio.limits import TURN_LIMIT
from distq.workqueue.engine import Entry
from distq.workqueue.interface import Turn


@dataclass(eq=False)
class PendingCall:
    """One thread's part of the next turn. At its end exactly one of ``turn`` and ``error`` is set."""

    entries: Sequence[Entry]
    want: int
    ahead: int = 0
    """How many claims its caller will want next; the same turn may bring them."""
    thread: int = field(default_factory=threading.get_ident)
    turn: Turn | None = None
    error: RedisError | None = None

    def result(self) -> Turn:
        """Return the answer or raise the error, once there is one."""
        if self.error is not None:
            raise self.error
        assert self.turn is not None  # noqa: S101  # an answer is one of the two
        return self.turn

    @property
    def is_answered(self) -> bool:
        """Return whether a turn has answered it."""
        return self.turn is not None or self.error is not None


class CallCombiner:
    """Lets one thread at a time make a turn, for itself and for the threads that wait behind it.

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
        """The calls under way that no turn has taken yet. Only a turn removes them, under its lock."""

    def call(self, entries: Sequence[Entry], want: int, ahead: int = 0) -> Turn:
        """Return the part of a turn, made by this thread or another, that belongs to this call."""
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
        """Take this thread's call, and as many of the calls behind it as the same turn can carry."""
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
