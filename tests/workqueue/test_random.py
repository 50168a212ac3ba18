"""The scripts against a plain model, by random calls; and the comparison itself against planted mistakes.

Every reply and the whole state are compared after each step. A failure tells its seed; DISTQ_SEED repeats it.
"""

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from tests.fixtures.redis_servers import server_of
from tests.workqueue.model import Item
from tests.workqueue.mutants import MUTANTS, Mutant, planted
from tests.workqueue.random_calls import FEW, MANY, RandomCalls


def _run(connection: Connection, seed: int, steps: int, items: Sequence[Item] = FEW) -> Counter[str]:
    """Run one seed to its end; a failure tells how to repeat it."""
    connection.server_time = 0
    connection.execute("FLUSHALL")
    calls = RandomCalls(connection, seed, items)
    try:
        calls.run(steps)
        calls.drain()
    except AssertionError as error:
        raise AssertionError(f"{error} (repeat with DISTQ_SEED={seed})") from error
    return calls.seen


def _seeds(count: int) -> list[int]:
    """Return the seed given, or new ones."""
    given = os.environ.get("DISTQ_SEED")
    first = int(given) if given else time.time_ns() // 1_000_000 % 100_000_000
    return [first] if given else [first + n for n in range(count)]


@pytest.mark.timeout(600)
def test_random_calls_do_what_the_model_says(connection: Connection) -> None:
    """Twelve items, four processes at a time: each reply and all of Redis are as in the model."""
    seeds = _seeds(10 if os.environ.get("CI") else 1)
    seen: Counter[str] = Counter()
    for seed in seeds:
        print(f"DISTQ_SEED={seed}")  # noqa: T201  # shown where it fails
        seen += _run(connection, seed, 2000)
    wanted = {"claims", "refused", "lost", "suspect alone", "crashes", "terminal", "OK", "MISMATCH", "FENCED"}
    never = {each for each in wanted if not seen[each]}
    assert not never or len(seeds) == 1, f"never seen in {len(seeds)} runs: {never}"


def test_random_calls_of_many_items_do_what_the_model_says(connection: Connection) -> None:
    """Three hundred items: bounded take-back and promotion lose and reorder nothing."""
    for seed in _seeds(3 if os.environ.get("CI") else 1):
        print(f"DISTQ_SEED={seed}")  # noqa: T201  # shown where it fails
        _run(connection, seed, 300, MANY)


@pytest.fixture(scope="module")
def any_connection() -> Iterator[Connection]:
    """Give a connection to one server: what a mistake does there, it does everywhere."""
    with EmbeddedValkey(server=server_of("valkey9")) as server:
        connection = Connection(server.url)
        yield connection
        connection.close()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_mistake_in_the_scripts_is_caught(
    mutant: Mutant, any_connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison is worth something: it notices each of these mistakes."""
    with planted(mutant, monkeypatch):
        for seed in range(1, 11):
            try:
                _run(any_connection, seed, 1000 if mutant.items is FEW else 300, mutant.items)
            except AssertionError:
                return
    pytest.fail(f"not caught: {mutant.name}")
