"""The scripts against the specification, by random calls; and the comparison against planted mistakes.

Every reply and the whole state are compared after each step. A failure shows the fewest calls that lead to
it, and the seed. ``--hypothesis-profile=long`` goes on for a million steps, ``--hypothesis-seed`` repeats.
"""

from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from hypothesis import Phase
from hypothesis.stateful import RuleBasedStateMachine

from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from tests.support.parts import IN_CI
from tests.support.redis_servers import server_of
from tests.workqueue.machine import ManyMachine, QueueMachine, examples_of, run
from tests.workqueue.mutants import MUTANTS, Mutant, planted
from tests.workqueue.players import Batch

pytestmark = [pytest.mark.random, pytest.mark.timeout(24 * 3600)]
SEEN_BY_ALL = {
    *("claims", "refused", "resent", "promoted", "revived", "lost", "lost heartbeat", "closed", "crashed"),
    *("suspect alone", "emptying", "suspect passed", "crashes", "forgiven", "terminal", "retries", "parked"),
    *("OK", "MISMATCH", "FENCED", "linked", "not linked", "held back", "let in"),
}
"""What happens in each long run, or the rules are worth nothing."""


@pytest.mark.conformance("PQ-20", "WQ-13", "RD-15")
def test_random_calls_match_the_specification(connection: Connection) -> None:
    """Twelve items, four processes at a time: each reply and all of Redis are as specified."""
    seen: Counter[str] = Counter()
    run(lambda: QueueMachine(connection, seen), examples=examples_of(desk=3, ci=30), steps=250)
    if IN_CI:
        # Examples may end early, and a run's examples resemble each other: what is rare may be missing.
        while seen["steps"] <= 5_000 or (never_in(seen) and seen["steps"] <= 60_000):
            run(lambda: QueueMachine(connection, seen), examples=10, steps=250)
        assert not never_in(seen), f"never seen in {seen['steps']} steps: {never_in(seen)}"


def never_in(seen: Counter[str]) -> set[str]:
    """Return what should have happened and did not."""
    return {each for each in SEEN_BY_ALL if not seen[each]}


@pytest.mark.conformance("PQ-20", "WQ-13", "RD-15")
def test_random_calls_of_many_items_match_the_specification(connection: Connection) -> None:
    """Three hundred items: bounded take-back and promotion lose and reorder nothing."""
    run(lambda: ManyMachine(connection, Counter()), examples=examples_of(desk=3, ci=8), steps=60)


def test_an_item_that_was_held_back_when_its_queue_became_fair_comes_back_as_specified(
    connection: Connection,
) -> None:
    """Random calls found that the specification left such an item in its place by time."""
    machine = QueueMachine(connection, Counter())
    machine.meet_limits(how="", items=("ns/item-0",), state="", who=0)
    machine.share(fair_by="none", replaces=True)
    machine.share(fair_by="namespace", replaces=True)
    machine.teardown()


def test_a_report_that_ends_its_stream_is_as_specified(connection: Connection) -> None:
    """Random calls found that the checker of traces took such a commit for one that was sent again."""
    machine = QueueMachine(connection, Counter())
    for batch in (Batch(["a"]), Batch(["a"], new="", reports=True), Batch(["a"])):
        machine.commit(who=0, batch=batch)
    machine.teardown()


def test_a_delayed_item_that_its_commit_made_dead_is_as_specified(connection: Connection) -> None:
    """Random calls found it dead and delayed, where the script looked for dead items before it made one."""
    machine = QueueMachine(connection, Counter())
    machine.commit(who=0, batch=Batch(["ns/a"], delay=1, unrouted=["ns/a", "ns/b"]))
    machine.teardown()


@pytest.fixture(scope="module")
def any_connection() -> Iterator[Connection]:
    """Give a connection to one server: what a mistake does there, it does everywhere."""
    with EmbeddedValkey(server=server_of("valkey9")) as server:
        connection = Connection(server.url)
        yield connection
        connection.close()


AT_EACH_CHANGE = "clock without a greatest step"
"""The planted mistake that CI looks for: that one soon shows. The night looks for all."""


def test_each_planted_mistake_changes_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """So a change of a script keeps their texts: only the night looks for all of them."""
    for mutant in MUTANTS:
        with planted(mutant, monkeypatch):
            pass


@pytest.mark.conformance("PQ-20")
@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(
            mutant,
            marks=pytest.mark.slow if mutant.name == AT_EACH_CHANGE else pytest.mark.night,
            id=mutant.name.replace(" ", "-"),
        )
        for mutant in MUTANTS
    ],
)
def test_a_mistake_in_the_scripts_is_caught(
    mutant: Mutant, any_connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison is worth something: it notices each of these mistakes."""
    machine: Callable[[], RuleBasedStateMachine]
    if mutant.many:
        machine, examples, steps = lambda: ManyMachine(any_connection, Counter()), 40, 60
    else:
        machine, examples, steps = lambda: QueueMachine(any_connection, Counter()), 60, 250
    with planted(mutant, monkeypatch):
        for number in range(1, 6):  # what a number draws depends on the modules that are loaded, too
            try:
                run(
                    machine,
                    examples=examples,
                    steps=steps,
                    number=number,
                    phases=[Phase.generate],
                    database=None,
                )
            except AssertionError:
                return
    pytest.fail(f"not caught: {mutant.name}")
