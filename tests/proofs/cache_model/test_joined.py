"""Two cached watches whose functions read each other's cache miss nothing under hostile schedules."""

from collections import Counter
from collections.abc import Iterator

import pytest

from distq.redisio.connection import Connection
from tests.proofs.cache_model.joined_controls import CONTROLS, JoinedControl
from tests.proofs.cache_model.joined_world import JoinedWorld, in_step
from tests.proofs.cache_model.world import Violated
from tests.support.parts import IN_CI

SEEDS = 150 if IN_CI else 30


@pytest.fixture(autouse=True)
def stepped() -> Iterator[None]:
    """Let all processes of the model go in step."""
    with in_step():
        yield


def test_the_last_reconcile_saw_all_that_belongs_together(connection: Connection) -> None:
    """Of objects that come and go at once, through all that befalls leaders, Redis and the cluster."""
    seen = Counter[str]()
    for seed in range(SEEDS):
        world = JoinedWorld(connection, seed)
        world.play()
        seen += world.seen
    assert min(seen[what] for what in ("lists", "reconciles", "one_overtakes", "goes_back")) > 0


@pytest.mark.parametrize("redis_server", ["redis7"], indirect=True)
@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.name)
def test_each_rule_is_needed(connection: Connection, control: JoinedControl) -> None:
    """A schedule shows what goes wrong without it."""
    with control.planted(), pytest.raises(Violated):
        JoinedWorld(connection, control.seed).play()
