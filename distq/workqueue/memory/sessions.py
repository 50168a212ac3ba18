"""The sessions that hold claims, the clock by which they lapse, and the return of their items."""

from collections.abc import Sequence

from distq.workqueue.memory.entries import Item, Session
from distq.workqueue.memory.flow_bound import FlowBound
from distq.workqueue.memory.history import History
from distq.workqueue.memory.items import Items

STOPPING = '"stopping": true'
"""Part of a worker's description: the process is stopping, so its end is no crash."""

_BETWEEN_STEPS = 100_000
"""µs between two steps of the claim clock."""
_TAKEN_BACK_AT_ONCE = 100


class Sessions:
    """The sessions of one queue, by number.

    ``clock`` is the claim clock: it advances only with calls, at most ``max_clock_step`` µs each
    time, so that neither silence nor a step of the server's clock expires a session.
    """

    def __init__(self, items: Items, bound: FlowBound, history: History) -> None:
        self._items = items
        self._bound = bound
        self._history = history
        self.all: dict[int, Session] = {}
        self.clock = 0
        self.seen: int | None = None

    def open(self, now: int, nonce: str, worker: str, *, claim_duration: float, max_clock_step: int) -> int:
        """Begin a session; return its number."""
        self.advance_clock(now, max_clock_step)
        number = self._items.next_stamp(now)
        self.all[number] = Session(nonce, self.clock + claim_duration, worker)
        return number

    def heartbeat(
        self, now: int, number: int, nonce: str, worker: str, *, claim_duration: float, max_clock_step: int
    ) -> tuple[int, str] | None:
        """Keep a session alive; return the number of its claims and its last turn, None if it is lost."""
        self.advance_clock(now, max_clock_step)
        session = self.live(number, nonce)
        if session is None:
            return None
        self._history.count_settled(session.worker, worker)
        session.deadline, session.worker = self.clock + claim_duration, worker
        return len(self._items.held_by(number)), session.last_turn

    def close(self, number: int, nonce: str, worker: str = "") -> int:
        """End a session with its last description; its items are taken back without a crash."""
        session = self.live(number, nonce)
        if session is None:
            return 0
        self._history.count_settled(session.worker, worker)
        session.ended, session.deadline, session.worker = True, 0, ""
        if not self._items.held_by(number):
            del self.all[number]
        return 1

    def forgive(self, number: int, now: int, held: Sequence[tuple[Item, int]]) -> int:
        """Remove the crashes of items that a session held when it lapsed; return how many.

        Items that it still holds are put back without a crash. The caller is alive, so no item crashed it.
        """
        session = self.all.get(number)
        if session is not None and session.ended:
            session.crashed = False
        return self._items.forgive(now, held)

    def live(self, number: int, nonce: str) -> Session | None:
        """Return the session unless it ended or its number belongs to another."""
        session = self.all.get(number)
        return session if session and session.nonce == nonce and not session.ended else None

    def advance_clock(self, now: int, max_clock_step: int) -> None:
        """Advance the claim clock, at most ten times a second, and take back the items of lapsed sessions."""
        if self.seen is not None:
            if 0 <= now - self.seen < _BETWEEN_STEPS:
                return
            self.clock += max(0, min(now - self.seen, max_clock_step))
        self.seen = now
        at_most = _TAKEN_BACK_AT_ONCE
        lapsed = sorted((each.deadline, number) for number, each in self.all.items())
        for deadline, number in lapsed[:100]:  # as many as a script looks at
            if deadline <= self.clock and at_most > 0:
                at_most -= self._take_back(number, at_most, now)
        if self._items.suspects:
            self._items.look_at_some_suspects(now)

    def lapse(self, number: int, now: int) -> None:
        """Let a session lapse at once."""
        if number in self.all:
            self.all[number].deadline = 0
            self._take_back(number, len(self._items.claims) + 1, now)

    def _take_back(self, number: int, at_most: int, now: int) -> int:
        """Put back up to ``at_most`` items of a lapsed session; return how many. It ends with its last."""
        session = self.all[number]
        if not session.ended:
            session.ended, session.crashed = True, STOPPING not in session.worker
        if not any(each.deadline > self.clock for each in self.all.values()):
            session.crashed = False  # if all sessions lapsed, Redis was away: no crash
        items = self._items.held_by(number)[:at_most]
        for item in items:
            claim = self._items.claims.pop(item)
            self._bound.claimed.discard(item)
            if not (session.crashed and self._items.crash(item, now, claim.fence)):
                self._bound.put_back(item, claim.stood)
        if len(items) < at_most:
            del self.all[number]
        return len(items)
