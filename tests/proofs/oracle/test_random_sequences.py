"""The same random operations to the originals and to ours give the same history, wherever we say "same".

A failure shows its seed and all that was done; ``DISTQ_SEED=n`` begins with that seed.
"""

import os
import random

import pytest

from tests.proofs.oracle.conftest import MakeOurs
from tests.proofs.oracle.differences import ClientGo, Differences, PriorityQueue
from tests.proofs.oracle.original import Original
from tests.proofs.oracle.walk import walk
from tests.support.redis_servers import anywhere
from tests.workqueue.machine import examples_of

pytestmark = pytest.mark.random
CLIENT_GO = [
    *("WQ-01", "WQ-03", "WQ-04", "WQ-05", "WQ-06", "WQ-08", "WQ-11", "WQ-12", "WQ-14", "WQ-15", "WQ-21"),
    *("DQ-01", "DQ-02", "DQ-03", "DQ-04", "DQ-05", "DQ-12", "DQ-13", "RL-16", "MX-02"),
]
PRIORITY_QUEUE = [
    *("PQ-01", "PQ-02", "PQ-03", "PQ-04", "PQ-05", "PQ-06", "PQ-07", "PQ-08", "PQ-09", "PQ-10", "PQ-11"),
    *("PQ-13", "PQ-14", "PQ-18"),
]


@anywhere
@pytest.mark.timeout(24 * 3600)
@pytest.mark.parametrize(
    "differences",
    [
        pytest.param(ClientGo(), marks=pytest.mark.conformance(*CLIENT_GO), id="client-go"),
        pytest.param(
            PriorityQueue(), marks=pytest.mark.conformance(*PRIORITY_QUEUE), id="controller-runtime"
        ),
    ],
)
def test_random_sequences_have_the_originals_history(
    original: Original, make_ours: MakeOurs, differences: Differences, redis_server: object
) -> None:
    """What is handed out and when, priorities, latencies, lengths, failures, counters: 400 in CI."""
    count = examples_of(desk=20, ci=50 if redis_server else 250)
    first = int(os.environ.get("DISTQ_SEED") or random.randrange(10**9))
    for seed in range(first, first + count):
        walk(original, differences, make_ours(), seed)
