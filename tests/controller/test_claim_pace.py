"""What a dispatcher claims ahead begins soon, with any number of slots."""

from types import SimpleNamespace

import pytest

from distq.controller.worker import claim_pace
from distq.controller.worker.claim_pace import STALE, ClaimPace
from distq.redisio.limits import TURN_LIMIT


class Slots:
    """Slots whose handlers run one after another, as those do that only compute; and a dispatcher of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, concurrency: int, seconds: float) -> None:
        self.seconds = seconds
        self.released = 0
        self.pace = ClaimPace(concurrency, claims_ahead=True)
        self._concurrency = concurrency
        self._now = 1000.0
        self._pending = 0
        monkeypatch.setattr(claim_pace, "time", SimpleNamespace(monotonic=lambda: self._now))

    def turn(self) -> int:
        """Claim what the pace wants, run handlers until the next turn is due, and return what it claimed."""
        want = self.pace.want(self._concurrency, self._pending, settles=True)
        self.pace.submit(want)
        self._pending += want
        while self._pending > self.pace.ahead // 2:
            self._run()
            if self.pace.is_stale(self._pending):
                self.released += self._pending
                self._pending = 0
                self.pace.forget_submissions()
        return want

    def _run(self) -> None:
        """Run those that begin in a millisecond or so."""
        some = min(self._pending, max(1, int(0.001 / self.seconds)))
        self._now += some * self.seconds
        self._pending -= some
        self.pace.learn([self.seconds] * some)


def test_slots_that_run_one_after_another_get_only_items_that_begin_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While items are claimed ahead only to be released again, other workers cannot have them."""
    slots = Slots(monkeypatch, concurrency=50, seconds=0.0002)
    for _ in range(10):
        slots.turn()
    released, claimed = slots.released, [slots.turn() for _ in range(100)]
    assert slots.released == released
    assert max(claimed) * slots.seconds < STALE
    assert sum(claimed) * slots.seconds > 100 * STALE / 10


def test_handlers_that_become_quicker_get_more_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a few turns as much is claimed ahead as two turns have."""
    slots = Slots(monkeypatch, concurrency=50, seconds=0.0005)
    for _ in range(20):
        slots.turn()
    slots.seconds = 0.00001
    for _ in range(20):
        slots.turn()
    assert slots.pace.ahead == 2 * TURN_LIMIT


def test_only_a_turn_that_settles_claims_ahead() -> None:
    """So of many items that are added at once, each idle worker has its part."""
    pace = ClaimPace(8, claims_ahead=True)
    pace.learn([0.005] * 50)
    assert pace.want(8, 0, settles=False) == 8
    assert pace.want(8, 8, settles=False) == 0
    assert pace.want(8, 7, settles=True) == 1 + pace.ahead > 8


def test_items_that_one_turn_cannot_hold_are_claimed_by_the_next() -> None:
    """Without a wait for a result: so quick handlers go on while Redis works."""
    pace = ClaimPace(8, claims_ahead=True)
    pace.learn([0.00001] * 50)
    assert pace.want(8, 0, settles=True) == TURN_LIMIT
    pace.submit(TURN_LIMIT)
    assert pace.want(8, TURN_LIMIT, settles=False) == TURN_LIMIT
    assert pace.want(8, 0, settles=False) == 8  # all of it has ended
    pace.submit(TURN_LIMIT - 1)
    assert pace.want(8, TURN_LIMIT, settles=False) == 0  # all were claimed
