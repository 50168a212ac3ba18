"""Who may hold claims, the clock by which they lapse, and what happens to what they held."""

from distq.workqueue.memory.entries import Session
from distq.workqueue.memory.items import Items

_BETWEEN_LOOKS = 100_000
_TAKEN_BACK_AT_ONCE = 100


class Sessions:
    """The sessions of one queue, by number.

    ``clock`` is the claim clock: it runs only while somebody looks, at most ``gap`` µs between two
    looks, so that neither silence nor a step of the server's clock expires anybody.
    """

    def __init__(self, items: Items) -> None:
        self._items = items
        self.all: dict[int, Session] = {}
        self.clock = 0
        self.seen: int | None = None

    def open(self, now: int, nonce: str, worker: str, *, claim_duration: float, gap: int) -> int:
        """Begin a session; return its number."""
        self.look(now, gap)
        number = self._items.next_stamp(now)
        self.all[number] = Session(nonce, self.clock + claim_duration, worker)
        return number

    def heartbeat(
        self, now: int, number: int, nonce: str, worker: str, *, claim_duration: float, gap: int
    ) -> int | None:
        """Keep a session alive; return how many claims it has, None where it is lost."""
        self.look(now, gap)
        session = self.live(number, nonce)
        if session is None:
            return None
        session.deadline, session.worker = self.clock + claim_duration, worker
        return len(self._items.held_by(number))

    def close(self, number: int, nonce: str) -> int:
        """End a session; what it holds is taken back without a crash."""
        session = self.live(number, nonce)
        if session is None:
            return 0
        session.ended, session.deadline = True, 0
        if not self._items.held_by(number):
            del self.all[number]
        return 1

    def live(self, number: int, nonce: str) -> Session | None:
        """Return the session unless it ended or another bears its number."""
        session = self.all.get(number)
        return session if session and session.nonce == nonce and not session.ended else None

    def look(self, now: int, gap: int) -> None:
        """Let the claim clock run, ten times a second at most, and take back what lapsed sessions held."""
        if self.seen is not None:
            if 0 <= now - self.seen < _BETWEEN_LOOKS:
                return
            self.clock += max(0, min(now - self.seen, gap))
        self.seen = now
        room = _TAKEN_BACK_AT_ONCE
        lapsed = sorted((each.deadline, number) for number, each in self.all.items())
        for deadline, number in lapsed[:100]:
            if deadline <= self.clock and room > 0:
                room -= self._take_back(number, room, now)

    def lapse(self, number: int, now: int) -> None:
        """Let a session lapse at once, whatever the claim clock says."""
        if number in self.all:
            self.all[number].deadline = 0
            self._take_back(number, len(self._items.claims) + 1, now)

    def _take_back(self, number: int, room: int, now: int) -> int:
        """Put back up to ``room`` items of a lapsed session; return how many. It ends when none is left."""
        session = self.all[number]
        if not session.ended:
            session.ended = session.crashed = True
        if not any(each.deadline > self.clock for each in self.all.values()):
            session.crashed = False  # it is no crash when everybody was away
        items = self._items.held_by(number)[:room]
        for item in items:
            claim = self._items.claims.pop(item)
            if not (session.crashed and self._items.crash(item, now)):
                self._items.put_back(item, claim.stood)
        if len(items) < room:
            del self.all[number]
        return len(items)
