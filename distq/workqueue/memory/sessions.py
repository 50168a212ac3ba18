"""Who may hold claims, the clock by which they lapse, and what happens to what they held."""

from collections.abc import Sequence

from distq.workqueue.memory.entries import Item, Session
from distq.workqueue.memory.history import History
from distq.workqueue.memory.items import Items

STOPPING = '"stopping": true'
"""In what a session says of its worker: the process was told to stop, so its end is no crash."""

_BETWEEN_STEPS = 100_000
_TAKEN_BACK_AT_ONCE = 100


class Sessions:
    """The sessions of one queue, by number.

    ``clock`` is the claim clock: it advances only while somebody calls, at most ``max_clock_step`` µs each
    time, so that neither silence nor a step of the server's clock expires anybody.
    """

    def __init__(self, items: Items, history: History) -> None:
        self._items = items
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
        """Keep a session alive; return how many claims it has, and its last turn, None where it is lost."""
        self.advance_clock(now, max_clock_step)
        session = self.live(number, nonce)
        if session is None:
            return None
        self._history.count_settled(session.worker, worker)
        session.deadline, session.worker = self.clock + claim_duration, worker
        return len(self._items.held_by(number)), session.last_turn

    def close(self, number: int, nonce: str, worker: str = "") -> int:
        """End a session, described for the last time; what it holds is taken back without a crash."""
        session = self.live(number, nonce)
        if session is None:
            return 0
        self._history.count_settled(session.worker, worker)
        session.ended, session.deadline, session.worker = True, 0, ""
        if not self._items.held_by(number):
            del self.all[number]
        return 1

    def forgive(self, number: int, now: int, held: Sequence[tuple[Item, int]]) -> int:
        """Take back what was counted against items that a session held when it lapsed; return how much.

        What it still holds is put back without a crash. Who asks lives, so nothing crashed it.
        """
        session = self.all.get(number)
        if session is not None and session.ended:
            session.crashed = False
        return self._items.forgive(now, held)

    def live(self, number: int, nonce: str) -> Session | None:
        """Return the session unless it ended or another bears its number."""
        session = self.all.get(number)
        return session if session and session.nonce == nonce and not session.ended else None

    def advance_clock(self, now: int, max_clock_step: int) -> None:
        """Advance the claim clock, ten times a second at most, and take back what lapsed sessions held."""
        if self.seen is not None:
            if 0 <= now - self.seen < _BETWEEN_STEPS:
                return
            self.clock += max(0, min(now - self.seen, max_clock_step))
        self.seen = now
        at_most = _TAKEN_BACK_AT_ONCE
        lapsed = sorted((each.deadline, number) for number, each in self.all.items())
        for deadline, number in lapsed[:100]:
            if deadline <= self.clock and at_most > 0:
                at_most -= self._take_back(number, at_most, now)
        if self._items.suspects:
            self._items.look_at_some_suspects(now)

    def lapse(self, number: int, now: int) -> None:
        """Let a session lapse at once, whatever the claim clock says."""
        if number in self.all:
            self.all[number].deadline = 0
            self._take_back(number, len(self._items.claims) + 1, now)

    def _take_back(self, number: int, at_most: int, now: int) -> int:
        """Put back up to ``at_most`` items of a lapsed session, which ends with its last; return how many."""
        session = self.all[number]
        if not session.ended:
            session.ended, session.crashed = True, STOPPING not in session.worker
        if not any(each.deadline > self.clock for each in self.all.values()):
            session.crashed = False  # it is no crash when everybody was away
        items = self._items.held_by(number)[:at_most]
        for item in items:
            claim = self._items.claims.pop(item)
            if not (session.crashed and self._items.crash(item, now, claim.fence)):
                self._items.put_back(item, claim.stood)
        if len(items) < at_most:
            del self.all[number]
        return len(items)
