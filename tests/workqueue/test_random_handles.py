"""A MemoryQueue answers every call as a Queue does."""

import pytest

from distq.redisio.connection import Connection
from distq.workqueue import claim_ledger
from tests.workqueue.handle_machine import HandleMachine
from tests.workqueue.machine import examples_of, run


@pytest.mark.random
@pytest.mark.conformance("PQ-20")
@pytest.mark.timeout(24 * 3600)
def test_random_calls_of_handles_are_answered_alike_in_redis_and_in_memory(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three handles each, with settings of their own: the same answers, errors, claims and cancellations."""
    # the machine has few items; a suspect comes alone, and is read at once
    monkeypatch.setattr(claim_ledger, "FEW", 1)
    run(lambda: HandleMachine(connection), examples=examples_of(desk=4, ci=25), steps=100)
