"""Which consumer is woken when, also when consumers die: simulated fleets on the real scripts.

Times are the simulation's, so they are exact: a wake-up takes LATENCY, a timer nothing.
"""

from collections.abc import Callable

import pytest

from distq.redisio.connection import Connection
from tests.workqueue.fleet import HEARTBEAT, LATENCY, Consumer, Fleet

FEW, MANY = 3, pytest.param(2000, marks=pytest.mark.slow)
AT_ONCE = LATENCY
ON_TIME = 1000 + LATENCY
"""µs: a session with two due times within a ms looks once, and then another is woken."""

POLL = 1_250_000
"""µs after which a session of a small fleet looks anyway; a large fleet does so sooner, as a rule."""

MakeFleet = Callable[..., Fleet]


@pytest.fixture
def make_fleet(connection: Connection) -> MakeFleet:
    """Make a fleet that has been idle for a while."""

    def make(size: int, **arguments: int) -> Fleet:
        fleet = Fleet(connection, size, **arguments)
        fleet.run(5)
        fleet.turns.clear()
        return fleet

    return make


def _tokens(connection: Connection) -> int:
    return int(connection.execute("LLEN", "distq:{foos}:wake"))


# All live


@pytest.mark.conformance("WQ-08", "PQ-19", "RD-09")
@pytest.mark.parametrize("size", [1, FEW, MANY])
def test_an_add_wakes_one_consumer_at_once(make_fleet: MakeFleet, size: int) -> None:
    """Each item is claimed as soon as a token can arrive, and no other session is woken for it."""
    fleet = make_fleet(size)
    for number in range(100):
        fleet.at(0.03 * number, lambda item=f"k{number}": fleet.add(item))  # type: ignore[misc]
    fleet.run(4)
    assert len(fleet.lateness) == 100
    assert max(fleet.lateness.values()) <= AT_ONCE
    assert fleet.turns["token"] <= 120


@pytest.mark.parametrize("size", [100, MANY])
def test_a_burst_of_adds_wakes_no_herd(make_fleet: MakeFleet, size: int) -> None:
    """Adds that overtake the wake-ups of those before them wake hardly any session for nothing."""
    fleet = make_fleet(size)
    for number in range(200):
        fleet.at(0.00005 * number, lambda item=f"k{number}": fleet.add(item))  # type: ignore[misc]
    fleet.run(1)
    assert len(fleet.lateness) == 200
    assert max(fleet.lateness.values()) <= AT_ONCE
    assert fleet.turns["token"] <= 1.2 * 200


@pytest.mark.parametrize("size", [100, MANY])
def test_many_items_of_one_add_wake_one_after_another(make_fleet: MakeFleet, size: int) -> None:
    """A consumer that claims and leaves work wakes the next, until nothing is left."""
    fleet = make_fleet(size)
    fleet.add(*(f"k{number}" for number in range(80)))
    fleet.run(1)
    assert len(fleet.lateness) == 80
    assert max(fleet.lateness.values()) <= 80 * LATENCY
    assert fleet.turns["token"] <= 1.2 * 80


@pytest.mark.conformance("DQ-11")
@pytest.mark.parametrize("size", [1, FEW, MANY])
def test_due_times_are_met(make_fleet: MakeFleet, size: int) -> None:
    """The sessions that cover them meet them, in any order of adds, without a herd."""
    fleet = make_fleet(size, work=100)
    for number in range(100):
        delay = fleet.random.uniform(0, 6)
        fleet.at(0.03 * number, lambda item=f"k{number}", delay=delay: fleet.add_after(item, delay))  # type: ignore[misc]
    fleet.run(12)
    assert len(fleet.lateness) == 100
    assert max(fleet.lateness.values()) <= ON_TIME
    assert fleet.turns["token"] <= 120


@pytest.mark.parametrize("size", [100, MANY])
def test_one_of_many_wakes_for_a_due_time(make_fleet: MakeFleet, size: int) -> None:
    """All others sleep on, also those that looked since the due time is known."""
    fleet = make_fleet(size)
    fleet.add_after("later", 1.0)
    for consumer in fleet.consumers:
        fleet.interrupt(consumer)
    fleet.run(0.99)
    fleet.turns.clear()
    fleet.run(0.02)
    assert fleet.lateness["later"] == 0
    assert fleet.turns["poll"] <= 1 + 2  # and who polls just then


def test_a_delay_wakes_no_handle_where_another_comes_first(make_fleet: MakeFleet) -> None:
    """The handle that covers the first due time covers the next."""
    fleet = make_fleet(FEW)
    for number in range(100):
        fleet.add_after(f"k{number}", 1 + number / 100)
    fleet.run(0.5)
    assert fleet.turns["token"] == 1


@pytest.mark.parametrize(
    ("size", "rate"), [(1, 1), (FEW, 3), (100, 10), pytest.param(2000, 10, marks=pytest.mark.slow)]
)
def test_an_idle_fleet_of_any_size_polls_at_the_same_rate(
    make_fleet: MakeFleet, connection: Connection, size: int, rate: float
) -> None:
    """About ten times a second, small ones once a second each; and at most one token lies there."""
    fleet = make_fleet(size)
    for consumer in fleet.consumers:  # who joined early believes the fleet to be small
        fleet.interrupt(consumer)
    fleet.turns.clear()
    fleet.run(20)
    assert set(fleet.turns) == {"poll"}
    assert fleet.turns["poll"] <= 1.35 * 20 * rate
    assert _tokens(connection) <= 1


def test_a_session_that_becomes_busy_hands_over_the_due_time_that_it_covered(make_fleet: MakeFleet) -> None:
    """Another session is woken to cover it."""
    fleet = make_fleet(FEW, work=60_000_000)
    fleet.add_after("later", 1.0)
    fleet.run(0.1)
    coverer = fleet.coverer()
    assert coverer is not None
    while not coverer.held:
        fleet.add(f"now {fleet.now}")
        fleet.run(0.01)
    fleet.join()
    fleet.run(2)
    assert fleet.lateness["later"] <= ON_TIME


def test_a_paused_fleet_sleeps_and_is_woken_when_it_resumes(
    make_fleet: MakeFleet, connection: Connection
) -> None:
    """Neither adds nor due times wake it meanwhile."""
    fleet = make_fleet(FEW)
    fleet.script("pause")
    fleet.add("now")
    fleet.add_after("later", 1)
    fleet.run(5)
    assert set(fleet.turns) == {"poll"}
    assert fleet.turns["poll"] <= 20
    fleet.script("resume")
    fleet.run(1)
    assert fleet.lateness["now"] <= 5_000_000 + AT_ONCE
    assert fleet.lateness["later"] <= 4_000_000 + 2 * AT_ONCE
    assert _tokens(connection) <= 1


# With deaths


def _kill(fleet: Fleet, consumer: Consumer) -> None:
    """As kill -9 does: the server sees the connection end."""
    fleet.kill(consumer)


def _cut(fleet: Fleet, consumer: Consumer) -> None:
    """Its machine is gone, and the server waits for it."""
    fleet.kill(consumer, noticed=False)


def _stop(fleet: Fleet, consumer: Consumer) -> None:
    """As SIGSTOP does, for some seconds."""
    fleet.freeze(consumer, 4)


DEATHS = pytest.mark.parametrize("death", [_kill, _cut, _stop], ids=["killed", "cut off", "stopped"])
Death = Callable[[Fleet, Consumer], None]


@pytest.mark.conformance("RD-09")
@DEATHS
@pytest.mark.parametrize("size", [FEW, 100, MANY])
def test_a_token_that_dies_with_its_taker_costs_at_most_a_poll(
    make_fleet: MakeFleet, size: int, death: Death
) -> None:
    """Another looks soon, though no session knows; and the fleet is as before."""
    fleet = make_fleet(size)
    for number in range(8):
        fleet.add(f"k{number}")
        assert fleet.last_token_taker is not None
        death(fleet, fleet.last_token_taker)
        fleet.run(2)
        assert fleet.lateness[f"k{number}"] <= POLL
        fleet.join()
        fleet.run(3)
    fleet.add("last")
    fleet.run(1)
    assert fleet.lateness["last"] <= (POLL if death is _cut else AT_ONCE)


@pytest.mark.parametrize("size", [100, MANY])
def test_a_large_fleet_that_fell_asleep_all_at_once_still_polls(make_fleet: MakeFleet, size: int) -> None:
    """After a burst no session looks later for a lost token than in quiet times."""
    fleet = make_fleet(size)
    for start in range(0, size, 1000):
        fleet.add(*(f"w{number}" for number in range(start, min(start + 1000, size))))
    fleet.run(3)
    fleet.lateness.clear()
    for number in range(3):
        fleet.add(f"k{number}")
        assert fleet.last_token_taker is not None
        fleet.kill(fleet.last_token_taker)
        fleet.run(2)
        assert fleet.lateness[f"k{number}"] <= POLL


@DEATHS
@pytest.mark.parametrize("size", [FEW, 100, MANY])
def test_a_due_time_whose_coverer_died_waits_for_a_poll(
    make_fleet: MakeFleet, size: int, death: Death
) -> None:
    """The others expect a session to wake for it until it is over; then the next that polls claims it."""
    fleet = make_fleet(size)
    for number in range(8):
        fleet.add_after(f"k{number}", 1.0)
        fleet.run(0.9)  # a small fleet covers what is due before its next poll
        coverer = fleet.coverer()
        assert coverer is not None
        death(fleet, coverer)
        fleet.run(2)
        assert fleet.lateness[f"k{number}"] <= POLL
        fleet.join()
        fleet.run(3)


@pytest.mark.parametrize("leave", [Fleet.kill, Fleet.close])
def test_a_due_time_is_met_though_the_session_that_covered_it_left_long_ago(
    make_fleet: MakeFleet, leave: Callable[[Fleet, Consumer], None]
) -> None:
    """When a session lapses or ends, another is woken to cover what it did."""
    fleet = make_fleet(300)
    fleet.add_after("later", 50)
    fleet.run(0.1)
    coverer = fleet.coverer()
    assert coverer is not None
    leave(fleet, coverer)
    fleet.run(60)
    assert fleet.lateness["later"] <= ON_TIME
    assert fleet.coverer() is not coverer


@pytest.mark.parametrize("size", [FEW, MANY])
def test_a_handle_that_says_goodbye_passes_its_wake_up_on(make_fleet: MakeFleet, size: int) -> None:
    """A handle that is closed just then makes no turn any more, but wakes another."""
    fleet = make_fleet(size)
    fleet.add("now")
    assert fleet.last_token_taker is not None
    fleet.close(fleet.last_token_taker)
    fleet.run(0.1)
    assert fleet.lateness["now"] <= AT_ONCE


@pytest.mark.conformance("DQ-11")
def test_a_heartbeat_notices_an_item_that_all_sleepers_miss(make_fleet: MakeFleet) -> None:
    """The few that are left of a large fleet sleep for minutes; nothing waits for more than ten seconds."""
    fleet = make_fleet(300)
    for consumer in fleet.consumers[:-3]:
        fleet.close(consumer)
    for item, make_pending in ("now", fleet.add), ("later", lambda item: fleet.add_after(item, 0.1)):
        make_pending(item)
        assert fleet.last_token_taker is not None
        fleet.freeze(fleet.last_token_taker, 20)
        fleet.run(30)
        assert fleet.lateness[item] <= HEARTBEAT + LATENCY


@pytest.mark.parametrize("size", [FEW, 30])
def test_nothing_is_forgotten_when_any_part_dies(
    make_fleet: MakeFleet, connection: Connection, size: int
) -> None:
    """Adds, delays and deaths of all kinds by chance; nothing waits for more than ten seconds."""
    fleet = make_fleet(size, slots=2, work=200, seed=7)
    chance = fleet.random

    def disturb() -> None:
        victim = chance.choice([each for each in fleet.consumers if each.alive and not each.frozen])
        taker = fleet.last_token_taker
        if taker is not None and taker.alive and not taker.frozen and chance.random() < 0.5:
            victim = taker
        chance.choice([_kill, _cut, _stop, Fleet.close])(fleet, victim)
        fleet.join(2, 200)

    for number in range(1000):
        act = (
            fleet.add
            if chance.random() < 0.5
            else lambda item: fleet.add_after(item, chance.expovariate(0.5))
        )
        fleet.at(chance.uniform(0, 100), lambda act=act, item=f"k{number}": act(item))  # type: ignore[misc]
    for _ in range(20):
        fleet.at(chance.uniform(0, 100), disturb)
    fleet.run(150)
    assert len(fleet.lateness) == 1000
    assert max(fleet.lateness.values()) <= HEARTBEAT + ON_TIME
    assert not fleet.pending_since
    assert _tokens(connection) <= 1
