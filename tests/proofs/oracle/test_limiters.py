"""The limiters give the delays of client-go's and of golang.org/x/time/rate, for any parameters."""

import math
import os
import random
from collections.abc import Sequence

import pytest

from distq.workqueue.interface import Retry, Settlement
from distq.workqueue.rate_limiters import (
    TEN_YEARS,
    BucketRateLimiter,
    ItemExponentialFailureRateLimiter,
    ItemFastSlowRateLimiter,
    MaxOfRateLimiter,
    ScriptedRateLimiter,
    WithMaxWaitRateLimiter,
    default_controller_rate_limiter,
)
from tests.proofs.oracle.conftest import MakeOurs
from tests.proofs.oracle.duel import MS
from tests.proofs.oracle.original import Original
from tests.proofs.oracle.ours import Ours, since_began
from tests.support.redis_servers import anywhere

KEYS = ["a", "b", "c"]
TIME_RESOLUTION = 0.25
"""In µs: what two doubles of µs since the epoch differ by, at least."""


class LimiterDuel:
    """A limiter of client-go, asked directly, and ours, asked by failures in a queue.

    Our due times are whole ms, rounded up, and no delay is longer than ten years.
    """

    def __init__(
        self, original: Original, ours: Ours, limiter: ScriptedRateLimiter, program: str | None = None
    ) -> None:
        self.original = original
        self.ours = ours
        self.queue = ours.handle(rate_limiter=limiter)
        self.skew = 0
        # the limiter counts failures there, and a bucket none; here the queue does
        self.counts = any(word in limiter.program() for word in ("exp", "fastslow"))
        original.begin("workqueue", program or limiter.program())

    def fail(self, keys: Sequence[str]) -> list[float]:
        """Count a failure of each key, in this order; compare the delays and return the original's, µs."""
        self.queue.add(*keys)
        requests = self.queue.turn([], len(keys)).requests
        dispositions = self.queue.turn([Settlement(each, Retry("no")) for each in requests], 0).dispositions
        delays = []
        for request, disposition in zip(requests, dispositions, strict=True):
            delays.append(self.original.do("when", request.key).delay)
            delay = min(delays[-1], TEN_YEARS * 1e6)
            if disposition.kind == "pending":  # without a delay it is added at once, as by AddAfter
                assert delay <= TIME_RESOLUTION, f"{request.key}: pending, not after {delay} µs"
                continue
            assert disposition.due is not None
            late = since_began(disposition.due) - self.ours.now - delay
            assert -TIME_RESOLUTION <= late < MS + TIME_RESOLUTION, f"{request.key}: {late} µs after {delay}"
        return delays

    def forget(self, key: str) -> None:
        """Drop the failures of a key."""
        self.original.do("forget", key)
        self.queue.forget(key)

    def compare_counts(self) -> None:
        """Compare the failures of all keys."""
        for key in KEYS if self.counts else ():
            assert self.queue.num_requeues(key) == self.original.do("look", key).requeues

    def step(self, duration: int) -> None:
        """Let time pass; below zero it goes back, which the original receives as a skew."""
        if duration >= 0:
            self.original.do("step", duration=duration)
        else:
            self.skew += duration
            self.original.do("skew", duration=self.skew)
        self.ours.move_to(self.ours.now + duration)


def run(duel: LimiterDuel, chance: random.Random, *, back: bool = False) -> None:
    """Fail, forget and wait at random."""
    for _ in range(40):
        what = chance.random()
        if what < 0.7:
            duel.fail(chance.sample(KEYS, chance.randint(1, len(KEYS))))
        elif what < 0.8:
            duel.forget(chance.choice(KEYS))
        else:
            longest = 10 ** chance.randint(3, 8)
            duel.step(chance.randint(-longest if back else 0, longest) // MS * MS)
        duel.compare_counts()


def some_delay(chance: random.Random) -> float:
    """Return seconds: none, usual, or beyond all bounds."""
    return chance.choice([0.0, 0.001, 0.005, chance.uniform(0, 2), 10 ** chance.uniform(-6, 12), 1000.0])


def some_limiter(chance: random.Random, depth: int = 0) -> ScriptedRateLimiter:
    """Return a limiter of random parameters, of others where depth allows."""
    kinds = ["exp", "fastslow", "bucket"] + ["maxof", "maxwait"] * (depth < 2)
    match chance.choice(kinds):
        case "exp":
            return ItemExponentialFailureRateLimiter(some_delay(chance), some_delay(chance))
        case "fastslow":
            attempts = chance.choice([0, 1, 3, 10])
            return ItemFastSlowRateLimiter(some_delay(chance), some_delay(chance), attempts)
        case "bucket":
            # buckets of the same parameters are one, so no two here are
            qps = chance.choice([math.inf, 0.0, 10 ** chance.uniform(-12, 6), chance.uniform(0, 50)])
            return BucketRateLimiter(qps, chance.randint(1, 10**6) if depth else chance.choice([1, 2, 10]))
        case "maxof":
            return MaxOfRateLimiter(*(some_limiter(chance, depth + 1) for _ in range(chance.randint(1, 3))))
        case _:
            return WithMaxWaitRateLimiter(some_limiter(chance, depth + 1), some_delay(chance))


@pytest.mark.random
@pytest.mark.conformance(
    "RL-01", "RL-02", "RL-03", "RL-04", "RL-05", "RL-06", "RL-07", "RL-08", "RL-09", "RL-11"
)
@anywhere
def test_random_limiters_give_the_originals_delays(original: Original, make_ours: MakeOurs) -> None:
    """With any parameters, alone, bounded, or the slowest of several."""
    first = int(os.environ.get("DISTQ_SEED") or random.randrange(10**9))
    for seed in range(first, first + 20):
        chance = random.Random(seed)
        limiter = some_limiter(chance)
        print(f"DISTQ_SEED={seed} {limiter}")  # noqa: T201  # shown where it fails
        ours = make_ours()
        run(LimiterDuel(original, ours, limiter), chance)
        ours.close()


@pytest.mark.conformance("RL-12")
@anywhere
def test_a_bucket_survives_time_that_goes_back(original: Original, make_ours: MakeOurs) -> None:
    """Nothing is refilled by it, and nothing lost."""
    for seed in range(20):
        chance = random.Random(seed)
        limiter = BucketRateLimiter(chance.uniform(0.1, 50), chance.randint(1, 5))
        ours = make_ours()
        ours.move_to(10**12)
        duel = LimiterDuel(original, ours, limiter, f"skewed-{limiter.program()}")
        run(duel, chance, back=True)
        ours.close()


@pytest.mark.conformance("RL-02")
@anywhere
@pytest.mark.parametrize(
    ("base", "most"),
    [
        (0.001, 1000.0),
        pytest.param(60.0, 3_600_000.0, marks=pytest.mark.slow),
        pytest.param(1e-6, 1e9, marks=pytest.mark.slow),
    ],
)
def test_an_exponential_delay_overflows_into_its_most(
    original: Original, ours: Ours, base: float, most: float
) -> None:
    """Failure after failure, until 2^n is more than any number."""
    duel = LimiterDuel(original, ours, ItemExponentialFailureRateLimiter(base, most))
    for _ in range(1100):
        (delay,) = duel.fail(["a"])
    assert delay == min(most, TEN_YEARS) * 1e6


@pytest.mark.conformance("RL-13", "RL-14")
@anywhere
@pytest.mark.parametrize(
    ("program", "limiter"),
    [
        ("default", default_controller_rate_limiter()),
        ("item-default", ItemExponentialFailureRateLimiter(0.001, 1000.0)),
    ],
)
def test_the_defaults_are_client_gos(
    original: Original, ours: Ours, program: str, limiter: ScriptedRateLimiter
) -> None:
    """That for controllers with the bucket of 100 retries, filled by ten a second; that for items without."""
    duel = LimiterDuel(original, ours, limiter, program)
    keys = [str(number) for number in range(150)]
    duel.fail(keys)
    duel.step(3_000 * MS)
    for _ in range(25):
        duel.fail(["a", *keys[:5]])
