"""Call combining: calls that threads make while a turn is under way travel together in the next one."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from distq.errors import RedisError, RedisUnavailable
from distq.redisio.limits import TURN_LIMIT
from distq.workqueue.engine import Entry, OnClaims
from distq.workqueue.interface import Turn

_BACK_WITHIN = 0.0005
"""Seconds that a call waits for the next call of a loop that was answered and has not continued yet."""


@dataclass(eq=False, slots=True)
class PendingCall:
    """One thread's part of the next turn. Once it is answered, one of ``turn`` and ``error`` is set."""

    entries: Sequence[Entry]
    want: int
    ahead: int = 0
    """How many claims its caller will want next; the same turn may claim them."""
    on_claims: OnClaims | None = None
    """Receives the claims of its caller's turn before; only in a turn for this call alone."""
    turn: Turn | None = None
    error: RedisError | None = None
    answered: "threading.Lock | None" = None
    """Released with the answer, if the caller waits for it and does not make the turn itself."""


class CallCombiner:
    """Lets one thread at a time make a turn, for itself and for the threads that wait behind it.

    ``make_turn`` receives what the calls want together: entries, claims, and claims ahead. ``turn_lock`` is
    held meanwhile.
    """

    def __init__(
        self,
        turn_lock: threading.Lock,
        make_turn: Callable[[Sequence[Entry], int, int, OnClaims | None], Turn],
    ) -> None:
        self._turn_lock = turn_lock
        self._make_turn = make_turn
        self._calls: list[PendingCall] = []
        """The calls that have not returned, in their order."""

    def call(
        self, entries: Sequence[Entry], want: int, ahead: int = 0, on_claims: OnClaims | None = None
    ) -> Turn:
        """Return the part of a turn, made by this thread or another, that belongs to this call."""
        # a copy: without a reply the turn stays in doubt, and the caller may change its list
        call, is_alone = PendingCall(list(entries), want, ahead, on_claims), not self._calls
        self._calls.append(call)
        try:
            if is_alone or not self._is_taken_along(call):
                with self._turn_lock:
                    if call.turn is None and call.error is None:  # else another thread has just made its turn
                        self._answer([call] if len(self._calls) == 1 else self._with_others(call))
        finally:
            self._calls.remove(call)
        if call.error is not None:
            raise call.error
        assert call.turn is not None  # noqa: S101  # an answer is one of the two
        return call.turn

    def _is_taken_along(self, own: PendingCall) -> bool:
        """Wait for a loop that was answered and has not continued; return whether its next turn had this
        call.

        So threads that were answered together are answered together again. Otherwise each of them would be
        woken twice for an item: for its answer, and to find that another thread makes the next turn.
        """
        # a copy, made in one step: other threads change the list
        if not any(call.turn is not None and call.ahead for call in self._calls.copy()):
            return False
        answered = threading.Lock()
        answered.acquire()
        own.answered = answered  # from here on another thread may release it
        if own.turn is None and own.error is None:  # an answer before that released nothing
            answered.acquire(timeout=_BACK_WITHIN)
        return own.turn is not None or own.error is not None

    def is_claiming(self) -> bool:
        """Return whether a call may still bring a claim."""
        return any(call.want for call in self._calls.copy())

    def _answer(self, calls: Sequence[PendingCall]) -> None:
        try:
            call, *others = calls
            if others:
                self._make_turn_for(calls)
            else:
                call.turn = self._make_turn(call.entries, call.want, call.ahead, call.on_claims)
        except BaseException as error:  # of any kind: the threads of the other calls wait for an answer
            why = error if isinstance(error, RedisError) else RedisUnavailable("the turn failed. Try again.")
            for call in calls:
                if call.turn is None:
                    call.error = why
            if why is not error:  # each call raises a RedisError itself
                raise
        finally:
            for call in calls:
                if call.answered is not None:
                    call.answered.release()

    def _make_turn_for(self, calls: Sequence[PendingCall]) -> None:
        """Make one turn, and give each call its part; the first one gets the counts."""
        entries = [entry for call in calls for entry in call.entries]
        want, ahead = sum(call.want for call in calls), sum(call.ahead for call in calls)
        turn = self._make_turn(entries, want, ahead, None)
        requests, dispositions = iter(turn.requests), iter(turn.dispositions)
        promoted, revived = turn.promoted, turn.revived
        for call in calls:
            own = list(islice(requests, call.want))
            results = list(islice(dispositions, len(call.entries)))
            call.turn = Turn(own, results, turn.wait, promoted, revived, turn.fence, turn.spare)
            promoted = revived = 0

    def _with_others(self, own: PendingCall) -> list[PendingCall]:
        """Return this thread's call, and as many of those that wait as the same turn can carry."""
        taken, entries, want = [own], len(own.entries), own.want + own.ahead
        for call in self._calls.copy():
            if call is own or call.turn or call.error:
                continue
            entries += len(call.entries)
            want += call.want + call.ahead
            if entries > TURN_LIMIT or want > TURN_LIMIT:
                break
            taken.append(call)
        return taken
