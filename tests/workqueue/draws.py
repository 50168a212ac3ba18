"""What the random tests draw: places in lists that begin with the simplest, so that failures shrink to it."""

from collections.abc import Sequence
from itertools import chain, combinations
from random import Random
from typing import TypeVar

from hypothesis import strategies as st

from distq.workqueue.memory.entries import Item
from tests.workqueue.players import CLAIM_DURATIONS, Kind

T = TypeVar("T")


def any_of(*simplest_first: T) -> st.SearchStrategy[T]:
    """Draw one by its place."""
    return st.sampled_from(simplest_first)


def _some(items: Sequence[Item], most: int) -> list[tuple[Item, ...]]:
    """Return groups of items, single ones first."""
    groups = chain.from_iterable(combinations(items, size) for size in range(2, most + 1))
    return [(item,) for item in items] + Random(1).sample(list(groups), 50)


def _plans(kinds: Sequence[Kind]) -> list[tuple[Kind, ...]]:
    """Return how up to five claims are settled in one turn, single ones first."""
    random = Random(2)
    return [(kind,) for kind in kinds] + [tuple(random.sample(kinds, 2 + n % 4)) for n in range(50)]


LIMITERS = (
    "",
    "fixed 0",
    "fixed 250000",
    "fastslow 5000 10000000 2",
    "fixed 1000000000000000000",
    "bucket 0.5 1 maxwait 2000000",
    "bucket inf 0",
    "exp 1000 3000000 bucket 0.0 2 maxwait 5000000 maxof 2",
)
KINDS = (
    *(Kind(outcome) for outcome in ("success", "retry", "done", "release", "park", "unreadable")),
    *(Kind("after", limiter, priority) for limiter in ("fixed 0", "fixed 9000") for priority in (None, 7)),
    *(Kind("keep", limiter) for limiter in ("fixed 0", "fixed 9000")),
    *(Kind("retry", limiter, priority) for limiter in LIMITERS[1:] for priority in (None, -100)),
    *(Kind(outcome, wrong=wrong) for wrong in ("stale", "twice") for outcome in ("success", "retry")),
)
PLANS = _plans(KINDS)
SIMPLE_PLANS = _plans(KINDS[:10])
NAMESPACES = ("ns/", "prod/", "")
ITEMS = tuple(f"{NAMESPACES[n % 5 % 3]}item-{n}" for n in range(12))
SOME = _some(ITEMS, 4)

any_process = any_of(*range(len(CLAIM_DURATIONS)))
some = st.sampled_from(SOME)
priority = any_of(0, 5, -100, 900, -900)
most = any_of(None, None, None, 1, 6)
