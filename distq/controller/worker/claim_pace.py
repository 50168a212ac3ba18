"""How many items a dispatcher claims: as many as it has free slots, and ahead for handlers that are quick."""

import math
import time
from collections import deque
from collections.abc import Sequence

from distq.redisio.limits import TURN_LIMIT

QUICK = 0.02
"""Seconds; for handlers that take less on average, items are claimed ahead, so turns claim several."""

CLAIM_AHEAD = 0.01
"""Seconds of work that may be claimed beyond the free slots."""

STALE = 0.025
"""Seconds after which a claimed request that no slot took is released."""

TWO_TURNS = 2 * TURN_LIMIT
"""Items that are claimed beyond the free slots at most."""


class ClaimPace:
    """Learns how long handlers take, and notices requests that were claimed for slots that did not come free.

    ``claims_ahead`` says whether anything may be claimed beyond the free slots.
    """

    def __init__(self, concurrency: int, *, claims_ahead: bool) -> None:
        self._concurrency = concurrency
        self._claims_ahead = claims_ahead
        self._typical = math.inf
        self._most = TWO_TURNS
        self._submissions: deque[tuple[float, int]] = deque()
        self._was_full = False
        """Whether the last turn that claimed had as many requests as it can hold."""
        self.submitted = 0
        """How many requests were submitted so far."""

    @property
    def is_quick(self) -> bool:
        """Return whether handlers end so soon that it is worthwhile to wait for them."""
        return self._typical < QUICK

    @property
    def ahead(self) -> int:
        """Return how many items may be claimed beyond the free slots: at most the items of two turns.

        So handlers work on the items of one turn while the next one is made.
        """
        if not (self._claims_ahead and self.is_quick):
            return 0
        # the clock may have shown no time at all
        return min(int(self._concurrency * CLAIM_AHEAD / max(self._typical, 1e-7)), self._most)

    def want(self, slots: int, in_hand: int, *, settles: bool) -> int:
        """Return how many items the next turn claims; ``settles`` says whether it settles any."""
        goes_on = self._was_full and in_hand > slots  # one turn was too small for all that may be ahead
        # others claim for free slots only: items that come all at once are shared by all idle workers
        ahead = self.ahead if settles or goes_on else 0
        return max(0, min(TURN_LIMIT, slots + ahead - in_hand))

    def submit(self, requests: int) -> None:
        """Note that so many requests wait for slots from now on."""
        self.submitted += requests
        self._was_full = requests == TURN_LIMIT
        self._submissions.append((time.monotonic(), self.submitted))

    def learn(self, times: Sequence[float]) -> None:
        """Learn from the seconds that handlers took."""
        kept = 0.9 ** len(times) if self._typical < math.inf else 0.0
        # bounded, so that handlers which become quick count as quick soon
        self._typical = kept * min(self._typical, STALE) + (1 - kept) * sum(times) / len(times)

    def is_stale(self, pending: int) -> bool:
        """Return whether requests wait for too long, of ``pending`` ones; then handlers are not quick."""
        started, now, submissions = self.submitted - pending, time.monotonic(), self._submissions
        while submissions and submissions[0][1] <= started:
            submitted_at, _ = submissions.popleft()
            if now - submitted_at < STALE / 3:  # so twice as many would begin in time, too
                self._most = min(2 * self._most, TWO_TURNS)
        if not submissions or now - submissions[0][0] < STALE:
            return False
        # handlers that compute run one after another, so there are fewer real slots than it seems
        self._most = max(1, self._most // 4)
        self._typical = STALE
        return True

    def forget_submissions(self) -> None:
        """Note that nothing waits for a slot any more."""
        self._submissions.clear()
