"""Each script beside each kind of garbage in each structure: it does its work, and no item vanishes."""

from collections.abc import Sequence
from itertools import product

import pytest

from distq.redisio import scripts
from distq.redisio.connection import Connection
from distq.redisio.round_trips import Command
from tests.proofs.contents.garbage import SCORES, TEXTS
from tests.support.populated import Populated, key

HASHES = ("claims", "failures", "workers", "streams", "known", "meta")
SORTED_SETS = ("ready", "suspects", "dirty", "processing", "delayed", "dead", "sessions")
ITEMS = ("ready", "suspects", "processing", "delayed", "dead")
EACH = 3
"""Of how many pairs of a script and a structure a desk tries one; CI tries all."""
ENDED = {"turn": {b"held"}, "delete": {b"ready", b"again", b"later", b"poison", b"suspect"}}
"""What a call of a script takes out of the queue."""


def _items(populated: Populated) -> set[bytes]:
    found = populated.store.read(*(("ZRANGE", name, 0, -1) for name in ITEMS))
    return {item for items in found for item in items}


def _run_beside(connection: Connection, script: str, plant: Sequence[Command], odd: object) -> None:
    """Run a script in a new queue into which garbage was planted; nothing vanishes that it does not end."""
    connection.execute("FLUSHALL")
    populated = Populated(connection)
    inputs = populated.inputs(script)
    before = _items(populated)
    for command in plant:
        connection.execute(*command)
    populated.run(script, **inputs)
    assert before - _items(populated) <= ENDED.get(script, set()), odd


def pairs(structures: Sequence[str]) -> list[object]:
    """Return each script with each structure."""
    found = enumerate(product(scripts.names(), structures))
    return [pytest.param(*each, marks=[pytest.mark.slow] if place % EACH else []) for place, each in found]


@pytest.mark.parametrize(("script", "structure"), pairs(HASHES))
def test_a_script_works_beside_garbage_in_a_hash(connection: Connection, script: str, structure: str) -> None:
    """Every value of it at once, of each kind; but for whether the queue is paused, which is yes or no."""
    connection.execute("FLUSHALL")
    fields = Populated(connection).store.read(("HKEYS", structure))[0]
    more = [b"cover", b"coverer", b"emptying", b"bucket 10 1"] if structure == "meta" else []
    for text in TEXTS:
        plant = [("HSET", key(structure), field, text) for field in [*fields, *more]]
        _run_beside(connection, script, plant, text)


@pytest.mark.parametrize(("script", "structure"), pairs(SORTED_SETS))
def test_a_script_works_beside_garbage_scores(connection: Connection, script: str, structure: str) -> None:
    """All members at once, with each kind of score."""
    connection.execute("FLUSHALL")
    members = Populated(connection).store.read(("ZRANGE", structure, 0, -1))[0]
    for score in SCORES:
        plant = [("ZADD", key(structure), score, member) for member in members]
        _run_beside(connection, script, plant, score)
