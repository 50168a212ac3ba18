"""The cache keeps what it promises under hostile schedules, and the model notices where a rule is missing."""

import pytest

from distq.redisio.connection import Connection
from tests.proofs.cache_model.controls import CONTROLS, Control, planted
from tests.proofs.cache_model.world import Violated, World
from tests.support.parts import IN_CI

SEEDS = 150 if IN_CI else 30


def test_no_read_shows_less_than_promised_and_nothing_is_left_at_rest(connection: Connection) -> None:
    """Neither than an event that was handed over, nor than an own write that was answered; so do indices."""
    complete = 0
    for seed in range(SEEDS):
        world = World(connection, seed)
        world.play()
        complete += world.seen["complete"]
    assert complete > SEEDS


@pytest.mark.parametrize("redis_server", ["redis7"], indirect=True)
@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.name)
def test_each_rule_is_needed(connection: Connection, control: Control) -> None:
    """A schedule shows what goes wrong without it."""
    with planted(control) as mistakes, pytest.raises(Violated):
        World(connection, control.seed, mistakes).play()
