"""Elections without Kubernetes, in Redis; on all servers, with time that the tests let pass."""

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from distq.errors import Conflict, InvalidKey, RedisError
from distq.leaderelection import LeaderElectionRecord, RedisLock
from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from tests.leaderelection.participants import (
    SHORT,
    Participant,
    PausableClock,
    end_all,
    later,
    one_acts_at_most,
    pass_time,
)
from tests.support.eventually import eventually
from tests.support.tcp_proxy import Mode, TcpProxy

NOON = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
RECORD = LeaderElectionRecord(
    holder_identity="ada", lease_duration=15.0, acquire_time=NOON, renew_time=NOON, leader_transitions=3
)
KEY = "distq:election:prod/foos"
Enter = Callable[..., Participant]


@pytest.fixture
def lock(connection: Connection) -> RedisLock:
    """Give a lock of which there is no record yet."""
    return RedisLock("prod/foos", connection, identity="ada")


@pytest.fixture
def enter(connection: Connection) -> Iterator[Enter]:
    """Give a function that makes participants, and end them all after the test."""
    entered: list[Participant] = []

    def make(identity: str, **settings: Any) -> Participant:
        made = Participant(
            RedisLock("prod/foos", connection, identity=identity), clock=PausableClock(), **settings
        )
        entered.append(made)
        return made

    yield make
    end_all(entered)


def test_a_record_comes_back_as_it_was_stored(lock: RedisLock, connection: Connection) -> None:
    """With the version of the write; the election's name is its key."""
    assert lock.get(timeout=5) is None
    created = lock.create(RECORD, timeout=5)
    assert created == lock.get(timeout=5) == RECORD
    updated = lock.update(replace(RECORD, leader_transitions=4), timeout=5)
    assert updated.leader_transitions == 4
    assert later(updated.version, created.version)
    assert connection.execute("KEYS", "*") == [KEY.encode()]
    assert connection.execute("HGET", KEY, "version").decode() == updated.version


def test_a_record_that_was_not_seen_is_never_replaced(lock: RedisLock, connection: Connection) -> None:
    """Not the same one of a later renewal, not one that was made meanwhile, not one that is gone."""
    with pytest.raises(Conflict, match="not read yet"):
        lock.update(RECORD, timeout=5)
    lock.create(RECORD, timeout=5)
    other = RedisLock("prod/foos", connection, identity="bob")
    other.get(timeout=5)
    lock.update(RECORD, timeout=5)
    for write in other.update, other.create:
        with pytest.raises(Conflict, match="the record changed"):
            write(replace(RECORD, holder_identity="bob"), timeout=5)
    connection.execute("DEL", KEY)
    with pytest.raises(Conflict):
        lock.update(RECORD, timeout=5)
    assert lock.get(timeout=5) is None


def test_versions_grow_when_the_clock_goes_back_and_after_a_wipe(
    lock: RedisLock, connection: Connection
) -> None:
    """By one, and by the time that went by."""
    connection.server_time = 1_795_000_000_000_000
    assert lock.create(RECORD, timeout=5).version == "1795000000000000"
    connection.server_time -= 10**9
    assert lock.update(RECORD, timeout=5).version == "1795000000000001"
    connection.execute("FLUSHALL")
    connection.server_time += 2 * 10**9
    assert lock.create(RECORD, timeout=5).version == "1795001000000000"


def test_the_watch_reports_each_new_record(lock: RedisLock) -> None:
    """And nothing of records that stay."""
    lock.create(RECORD, timeout=5)
    heard: list[LeaderElectionRecord] = []
    with lock.watch(heard.append):
        eventually(lambda: heard == [RECORD])
        lock.update(replace(RECORD, holder_identity=""), timeout=5)
        eventually(lambda: heard == [RECORD, replace(RECORD, holder_identity="")])
    eventually(
        lambda: not any(each.name.startswith("distq-election-watch") for each in threading.enumerate())
    )


@pytest.mark.parametrize("wrong", [("\xff", "{}"), ("1", "{")], ids=["version", "record"])
def test_the_watch_outlives_a_value_that_is_no_record(
    lock: RedisLock, connection: Connection, wrong: tuple[str, str]
) -> None:
    """Of any writer; the next one is delivered again."""
    version, record = wrong
    connection.execute("HSET", KEY, "version", version.encode("latin-1"), "record", record)
    heard: list[LeaderElectionRecord] = []
    looks = looks_of(connection)
    with lock.watch(heard.append):
        eventually(lambda: looks_of(connection) > looks)
        connection.execute("DEL", KEY)
        lock.create(RECORD, timeout=5)
        eventually(lambda: heard == [RECORD])


def looks_of(connection: Connection) -> int:
    """Return how many times a record was looked at, by all clients."""
    calls = re.search(rb"cmdstat_hmget:calls=(\d+)", connection.execute("INFO", "commandstats"))
    return int(calls[1]) if calls else 0


def test_a_value_that_is_no_record_and_an_absent_server_are_errors(
    lock: RedisLock, connection: Connection, redis_server: EmbeddedValkey
) -> None:
    """Typed, and within the time that the caller has."""
    connection.execute("HSET", KEY, "version", "1", "record", "{")
    with pytest.raises(RedisError, match="no record can be read"):
        lock.get(timeout=5)
    with pytest.raises(RedisError):
        RedisLock("prod/foos", "redis://127.0.0.1:1/0").get(timeout=5)
    with pytest.raises(InvalidKey):
        RedisLock("", connection)
    assert RedisLock("a", connection).identity != RedisLock("a", connection).identity
    assert lock.describe() == "prod/foos"


def test_a_dead_leader_is_replaced_when_its_lease_ends(enter: Enter) -> None:
    """Not before, and with a greater epoch; the dead one never acts again."""
    ada, bob = enter("ada").lead(), enter("bob").follow()
    with one_acts_at_most(ada, bob):
        ada.pause()
        pass_time(14.5, ada, bob)
        assert bob.epochs == []
        pass_time(0.5, ada, bob)
        eventually(bob.elector.may_act)
        ada.resume()
        ada.thread.join(20)
    assert later(bob.elector.epoch, ada.elector.epoch)
    assert ada.stopped == 1


def test_a_release_is_taken_up_without_waiting(enter: Enter) -> None:
    """The followers look often; epochs grow over releases."""
    history: list[str] = []
    ada, bob = enter("ada", history=history).lead(), enter("bob", history=history).follow()
    for one, other in (ada, bob), (bob, ada), (ada, bob):
        terms = len(other.epochs)
        with one_acts_at_most(ada, bob):
            one.end()
            eventually(lambda other=other, terms=terms: len(other.epochs) > terms)  # type: ignore[misc]
        one.restart()
        eventually(lambda one=one, other=other: one.elector.get_leader() == other.lock.identity)  # type: ignore[misc]
    assert len(history) == 4
    assert all(later(after, before) for before, after in pairwise(history))


def test_a_lost_record_changes_no_leader(enter: Enter, connection: Connection) -> None:
    """As after a Redis without persistence restarted: the leader makes it again, followers wait."""
    ada, bob = enter("ada").lead(), enter("bob").follow()
    with one_acts_at_most(ada, bob):
        for _ in range(3):
            connection.execute("FLUSHALL")
            pass_time(6.0, ada, bob)
    assert ada.elector.may_act()
    assert (len(ada.epochs), bob.epochs) == (1, [])


def test_a_record_that_went_back_ends_the_term_of_the_other(enter: Enter, connection: Connection) -> None:
    """As by a failover to a replica without the last leader's record; the next epoch is greater."""
    ada = enter("ada").lead()
    old = connection.execute("HGETALL", KEY)
    ada.end()
    bob = enter("bob").lead()
    connection.execute("DEL", KEY)
    connection.execute("HSET", KEY, *old)
    pass_time(2.0, bob)
    bob.thread.join(20)
    assert (bob.elector.may_act(), bob.stopped) == (False, 1)
    eve = enter("eve").follow()
    pass_time(15.0, eve)
    eventually(eve.elector.may_act)
    assert later(eve.elector.epoch, bob.elector.epoch)


@pytest.mark.parametrize("mode", ["hang", "reset", "refuse"])
def test_a_leader_cut_off_stops_before_another_starts(
    connection: Connection, redis_server: EmbeddedValkey, mode: Mode
) -> None:
    """Its packets vanish, or its connections break; it stops by its own clock."""
    with TcpProxy(("127.0.0.1", redis_server.port)) as proxy:
        proxied = Connection(f"redis://127.0.0.1:{proxy.port}/0")
        ada = Participant(RedisLock("foos", proxied, identity="ada"), **SHORT).lead()
        bob = Participant(RedisLock("foos", connection, identity="bob"), **SHORT).follow()
        try:
            with one_acts_at_most(ada, bob):
                proxy.mode = mode
                eventually(lambda: not ada.elector.may_act())
                assert bob.epochs == []
                eventually(bob.elector.may_act)
                proxy.mode = "pass"
                ada.thread.join(20)
            assert (ada.stopped, ada.terms[0].is_set(), ada.error) == (1, True, None)
        finally:
            end_all([ada, bob])
            proxied.close()
