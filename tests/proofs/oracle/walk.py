"""Random operations for a duel; a seed says all about them.

In a plain walk nothing needs a translation: items that are delayed are not added, nor is anything
that an original would deliver twice or queue elsewhere.
"""

import random
from collections.abc import Callable

from distq.workqueue.rate_limiters import (
    ItemExponentialFailureRateLimiter,
    ItemFastSlowRateLimiter,
    MaxOfRateLimiter,
    ScriptedRateLimiter,
    WithMaxWaitRateLimiter,
)
from tests.proofs.oracle.differences import ClientGo, Differences, PriorityQueue
from tests.proofs.oracle.duel import MS, Duel
from tests.proofs.oracle.original import Original
from tests.proofs.oracle.ours import Ours

KEYS = ["a", "b", "c", "default/d", "default/e", "f"]
PRIORITIES = [0, 0, 0, 0, 1, 5, 100, -100, 900, -900]


def walk(original: Original, differences: Differences, ours: Ours, seed: int) -> Duel:
    """Let both do the same at random, 60 operations or more; return the duel, or raise what differs."""
    walker = Walker(original, differences, ours, seed)
    try:
        walker.run()
    except AssertionError as error:
        history = "\n  ".join(walker.duel.history)
        raise AssertionError(f"{differences.queue}, seed {seed}: {error}\n  {history}") from error
    return walker.duel


class Walker:
    """Chooses what a duel does next."""

    def __init__(self, original: Original, differences: Differences, ours: Ours, seed: int) -> None:
        self.random = random.Random(seed)
        self.plain = seed % 2 == 0
        self.queues_at_done = isinstance(differences, ClientGo)
        self.has_priorities = isinstance(differences, PriorityQueue)
        self.duel = Duel(original, differences, ours, self._limiter())

    def run(self) -> None:
        """Do 60 to 120 operations, then shut down."""
        for _ in range(self.random.randint(60, 120)):
            while not self._one():
                pass
        self.duel.end()
        assert not (self.plain and self.duel.translated), "translated what is the same"

    def _one(self) -> bool:
        """Do one operation, unless there is nothing for it.

        What adds something has a ms of its own, so that no two moments of an order are the same.
        """
        weights: dict[Callable[[], bool], int] = {
            self._add: 20,
            self._add_after: 12,
            self._add_rate_limited: 6,
            self._get: 24,
            self._done: 8,
            self._end: 14,
            self._done_late: 3,
            self._forget: 3,
            self._step: 12,
        }
        (operation,) = self.random.choices(list(weights), list(weights.values()))
        if operation not in (self._get, self._done_late, self._forget, self._step):
            self.duel.tick()
        return operation()

    # Producers

    def _add(self) -> bool:
        keys = self._some(self._is_plainly_added)
        if not keys:
            return self._add_while_claimed()
        self.duel.add(keys, self._priority())
        return True

    def _add_while_claimed(self) -> bool:
        """Add what is claimed and end the claim at once: so the order is the same, at the add or at Done."""
        keys = [key for key in self.duel.claimed if self.duel.items[key].due is None]
        if not keys:
            return False
        key = self.random.choice(keys)
        self.duel.add([key], self._priority())
        self.duel.done(key)
        return True

    def _add_after(self) -> bool:
        delay = self.random.choice(
            [0, 1, 7, self.random.randint(2, 60), self.random.randint(60, 5000), 10**6]
        )
        plain = self._is_plainly_delayed if delay > 0 else self._is_plainly_added
        keys = self._some(plain)
        if not keys:
            return False
        self.duel.add_after(keys, delay * MS, self._priority())
        return True

    def _add_rate_limited(self) -> bool:
        keys = self._some(self._is_plainly_delayed)
        if not keys:
            return False
        self.duel.add_rate_limited(keys[0])
        return True

    def _is_plainly_added(self, key: str) -> bool:
        is_dirtied = self.queues_at_done and key in self.duel.claimed
        return not self.plain or (self.duel.items[key].due is None and not is_dirtied)

    def _is_plainly_delayed(self, key: str) -> bool:
        comes_again = self.duel.items[key].pending or key in self.duel.claimed
        return not (self.plain and self.queues_at_done and comes_again)

    # The worker

    def _get(self) -> bool:
        if self.duel.answer.waiting:
            return False
        self.duel.get()
        return True

    def _done(self) -> bool:
        if not self.duel.claimed:
            return False
        self.duel.done(self._claimed())
        return True

    def _end(self) -> bool:
        if not self.duel.claimed:
            return False
        key = self._claimed()
        match self.random.choice(["succeed", "fail", "requeue"]):
            case "succeed":
                self.duel.succeed(key)
            case "fail":
                self.duel.fail(key)
            case _:
                priority = self.random.choice([None, self._priority()])
                self.duel.requeue_after(key, self.random.randint(1, 2000) * MS, priority)
        return True

    def _done_late(self) -> bool:
        """End a claim once more, where that queues nothing twice and ends no other claim."""
        late = [
            request
            for request in self.duel.ended
            if request.key not in self.duel.claimed and not self.duel.items[request.key].pending
        ]
        if not late:
            return False
        self.duel.done_late(self.random.choice(late))
        return True

    def _forget(self) -> bool:
        self.duel.forget(self.random.choice(KEYS))
        return True

    # Time

    def _step(self) -> bool:
        dues = [item.due - self.duel.now for item in self.duel.items.values() if item.due is not None]
        steps = [1, self.random.randint(1, 60), self.random.randint(60, 3000), 600_000]
        near = [each for due in dues for each in (due, due - MS) if each > 0]
        self.duel.step(self.random.choice([*near, *(step * MS for step in steps)]))
        return True

    # Choices

    def _some(self, allowed: Callable[[str], bool]) -> list[str]:
        keys = [key for key in KEYS if allowed(key)]
        return self.random.sample(keys, min(len(keys), self.random.choice([1, 1, 1, 2, 3])))

    def _claimed(self) -> str:
        return self.random.choice(list(self.duel.claimed))

    def _priority(self) -> int:
        return self.random.choice(PRIORITIES) if self.has_priorities else 0

    def _limiter(self) -> ScriptedRateLimiter:
        base = self.random.choice([1, 5, 20]) / 1000
        exponential = ItemExponentialFailureRateLimiter(base, self.random.choice([0.1, 1.0, 1000.0]))
        fast_slow = ItemFastSlowRateLimiter(base, self.random.choice([0.05, 3.0]), self.random.randint(0, 4))
        return self.random.choice(
            [
                exponential,
                fast_slow,
                MaxOfRateLimiter(exponential, fast_slow),
                WithMaxWaitRateLimiter(exponential, 0.3),
            ]
        )
