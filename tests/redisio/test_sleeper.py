"""Sleeping on the wake list: what wakes, and what an outage does to sleep. Bounds are generous."""

import threading
import time
from collections.abc import Iterator

import pytest

from distq.redisio.connection import Connection
from distq.redisio.sleeper import FollowUp, Sleeper
from distq.testing.embedded_valkey import EmbeddedValkey
from tests.support.eventually import eventually
from tests.support.ports import free_port

WAKE = "distq:{foos}:wake"
LONG, SOON = 60.0, 10.0


@pytest.fixture
def sleeper(connection: Connection) -> Iterator[Sleeper]:
    """Make a sleeper on an empty wake list."""
    sleeper = Sleeper(connection, WAKE)
    yield sleeper
    sleeper.close()


def _slept(sleeper: Sleeper, seconds: float) -> float:
    began = time.monotonic()
    sleeper.wait(seconds)
    return time.monotonic() - began


def _is_blocked(connection: Connection) -> bool:
    return b"\r\nblocked_clients:0\r\n" not in connection.execute("INFO", "clients")


def _wait_until_blocked(connection: Connection) -> None:
    eventually(lambda: _is_blocked(connection))


def test_a_token_wakes_and_is_taken(connection: Connection, sleeper: Sleeper) -> None:
    """One that was there before, and one that comes while asleep."""
    connection.execute("RPUSH", WAKE, 1)
    assert _slept(sleeper, LONG) < SOON
    sleeping = threading.Thread(target=_slept, args=(sleeper, LONG))
    sleeping.start()
    _wait_until_blocked(connection)
    connection.execute("RPUSH", WAKE, 1)
    sleeping.join(SOON)
    assert not sleeping.is_alive()
    assert connection.execute("LLEN", WAKE) == 0


def test_an_interrupt_wakes(connection: Connection, sleeper: Sleeper) -> None:
    """One that comes while asleep."""
    sleeping = threading.Thread(target=_slept, args=(sleeper, LONG))
    sleeping.start()
    _wait_until_blocked(connection)
    sleeper.interrupt()
    sleeping.join(SOON)
    assert not sleeping.is_alive()


def test_an_interrupt_before_the_sleep_wakes_once(sleeper: Sleeper) -> None:
    """It is not lost, counts once even if it was given twice, and costs no patience."""
    for _ in range(30):
        sleeper.interrupt()
        sleeper.interrupt()
        assert _slept(sleeper, LONG) < SOON / 4
    assert _slept(sleeper, 0.1) >= 0.1


def test_a_sleep_ends_though_the_server_is_slow(connection: Connection, sleeper: Sleeper) -> None:
    """The order to wake up may be carried out before the order to sleep, and is given again."""
    for pause in (20, 40, 60, 80, 100):
        sleeper.interrupt()
        connection.execute("CLIENT", "PAUSE", pause)
        assert _slept(sleeper, LONG) < SOON / 4


def test_time_ends_a_sleep(connection: Connection, sleeper: Sleeper) -> None:
    """Not before it is over; and no call is left blocked that would take a token for nothing."""
    assert 0.1 <= _slept(sleeper, 0.1) < SOON
    for _ in range(30):
        assert _slept(sleeper, 0.0) < SOON / 4
    assert not _is_blocked(connection)


def test_the_end_of_a_sleep_may_be_moved_forward(connection: Connection, sleeper: Sleeper) -> None:
    """By a thread that has to look sooner; one that may look later ends no sleep."""
    began = time.monotonic()
    sleeping = threading.Thread(target=sleeper.wait, args=(LONG,))
    sleeping.start()
    _wait_until_blocked(connection)
    sleeper.wait(2 * LONG, 0.05)
    assert _is_blocked(connection)
    sleeper.wait(0.1, 0.01)
    sleeping.join(SOON)
    assert not sleeping.is_alive()
    assert time.monotonic() >= began + 0.1


def test_a_sleeper_that_does_not_listen_leaves_tokens_to_others(
    connection: Connection, sleeper: Sleeper
) -> None:
    """The sleep takes its time, and the token stays."""
    connection.execute("RPUSH", WAKE, 1)
    began = time.monotonic()
    sleeper.wait(0.1, for_work=False)
    assert time.monotonic() - began >= 0.1
    assert connection.execute("LLEN", WAKE) == 1


def test_a_server_that_dies_meanwhile_does_not_hold_the_sleeper(redis_server: EmbeddedValkey) -> None:
    """It wakes within about a second, so that the next turn fails at its caller; and sleeps again later."""
    server = EmbeddedValkey(server=redis_server._server, port=free_port()).start()
    connection = Connection(server.url)
    sleeper = Sleeper(connection, WAKE)
    sleeping = threading.Thread(target=_slept, args=(sleeper, LONG))
    sleeping.start()
    _wait_until_blocked(connection)
    server.stop()
    sleeping.join(SOON)
    assert not sleeping.is_alive()
    assert _slept(sleeper, 0.1) >= 0.1

    with EmbeddedValkey(server=redis_server._server, port=server.port):
        connection.execute("RPUSH", WAKE, 1)
        assert _slept(sleeper, LONG) < SOON
        sleeper.close()
        connection.close()


def test_a_sleeper_that_may_not_unblock_sleeps_no_longer(connection: Connection) -> None:
    """Where CLIENT UNBLOCK is denied its connection ends with the sleep."""
    user = ("worker", "reset", "on", "nopass", "~*", "&*", "+@all", "-client", "+client|id")
    connection.execute("ACL", "SETUSER", *user)
    denied = Connection(f"redis://worker:any@{connection.address}/0")
    sleeper = Sleeper(denied, WAKE)
    assert 1.0 <= _slept(sleeper, 1.0) < 1.9
    eventually(lambda: not _is_blocked(connection))
    sleeper.close()
    denied.close()
    connection.execute("ACL", "DELUSER", "worker")


def test_a_close_ends_the_sleep_and_its_connection(connection: Connection, sleeper: Sleeper) -> None:
    """It may be done twice; a later wait opens another, after one that it ends."""
    for _ in range(3):
        sleeping = threading.Thread(target=_slept, args=(sleeper, LONG))
        sleeping.start()
        _wait_until_blocked(connection)
        sleeper.close()
        sleeping.join(SOON)
        assert not sleeping.is_alive()
        assert not _is_blocked(connection)
        assert sleeper._blocking is None
        assert sleeper._pipe is None
    sleeper.close()
    assert _slept(sleeper, LONG) < SOON
    assert _slept(sleeper, 0.1) >= 0.1


def test_a_sleeper_that_ends_waits_for_no_slow_follow_up(connection: Connection) -> None:
    """As while Redis holds back writes, before a failover."""
    sleeper = Sleeper(connection.with_timeout(LONG), WAKE)
    slow = FollowUp(("BLPOP", f"{WAKE}:never", "0"))
    sleeping = threading.Thread(target=lambda: sleeper.wait(LONG, follow_up=lambda: slow), daemon=True)
    sleeping.start()
    _wait_until_blocked(connection)
    sleeper.end()
    sleeping.join(SOON)
    assert not sleeping.is_alive()
    assert slow.reply is None
