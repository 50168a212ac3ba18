"""Whether a process reaches Redis, and what a term is to what outlives it."""

import threading
from collections.abc import Iterator

import pytest

from distq.controller.redis_health_probe import RedisHealthProbe
from distq.controller.term_work import Term
from distq.leaderelection import LeaderElectionConfig, LeaderElector
from distq.redisio.connection import Connection
from distq.testing import FakeLock
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.testing.fake_clock import FakeClock
from distq.workqueue.queue import Queue
from tests.support.eventually import eventually
from tests.support.tcp_proxy import TcpProxy


@pytest.fixture
def proxy(redis_server: EmbeddedValkey) -> Iterator[TcpProxy]:
    """Give a proxy in front of the server."""
    with TcpProxy(("127.0.0.1", redis_server.port)) as proxy:
        yield proxy


@pytest.fixture
def behind(proxy: TcpProxy, connection: Connection) -> Iterator[Connection]:
    """Give a connection through it."""
    behind = Connection(f"redis://127.0.0.1:{proxy.port}")
    yield behind
    behind.close()


@pytest.mark.parametrize("mode", ["refuse", "hang", "reset"])
def test_silence_counts_from_the_first_look_that_failed_until_one_is_answered(
    proxy: TcpProxy, behind: Connection, mode: str
) -> None:
    """However Redis is silent; time without a look, as of a frozen process, does not count."""
    clock = FakeClock()
    reach = RedisHealthProbe([Queue("foos", behind), Queue("bars", behind)], clock)
    reach.look()
    clock.step(1000)
    assert reach.silence == 0
    proxy.mode = mode  # type: ignore[assignment]
    reach.look()
    clock.step(10)
    reach.look()
    assert reach.silence == 10
    proxy.mode = "pass"
    eventually(lambda: is_answered(reach))
    reach.close()


def is_answered(reach: RedisHealthProbe) -> bool:
    """Look once."""
    reach.look()
    return not reach.silence


def test_a_refusal_is_an_answer(behind: Connection, connection: Connection) -> None:
    """Any other leader would get the same: it is no reason to leave the lease to others."""
    reach = RedisHealthProbe([Queue("foos", behind)], clock := FakeClock())
    connection.execute("ACL", "SETUSER", "default", "-ping")
    try:
        reach.look()
        clock.step(1)
        assert reach.silence == 0
    finally:
        connection.execute("ACL", "SETUSER", "default", "+ping")
        reach.close()


def test_a_redis_that_is_unfit_for_queues_has_answered(behind: Connection, connection: Connection) -> None:
    """For example with other settings after a restart: a candidate competes again, and reports the fault."""
    reach = RedisHealthProbe([Queue("foos", behind)], clock := FakeClock())
    connection.execute("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        reach.look()
        clock.step(1)
        assert reach.silence == 0
    finally:
        connection.execute("CONFIG", "SET", "maxmemory-policy", "noeviction")
        reach.close()


def test_one_redis_that_answers_is_enough(connection: Connection) -> None:
    """Where queues have servers of their own, those of the others are fed."""
    nowhere = Connection("redis://127.0.0.1:1")
    queues = [Queue("foos", nowhere), Queue("bars", connection)]
    alone, both = RedisHealthProbe(queues[:1], clock := FakeClock()), RedisHealthProbe(queues, clock)
    alone.look()
    both.look()
    clock.step(5)
    assert (alone.silence, both.silence) == (5, 0)
    both.close()


def test_a_stream_that_outlives_its_term_acts_in_no_later_one() -> None:
    """A process may lead again while a stream of its last term still waits for an answer."""
    terms: list[Term] = []

    def lead(over: threading.Event) -> None:
        terms.append(Term(elector, over))
        over.wait()

    elector = LeaderElector(
        LeaderElectionConfig(lock=FakeLock("a"), on_started_leading=lead, on_stopped_leading=lambda: None)
    )
    for number in (1, 2):
        stop = threading.Event()
        thread = threading.Thread(target=elector.run, args=(stop,), daemon=True)
        thread.start()
        eventually(lambda it=number: len(terms) == it)  # type: ignore[misc]
        assert [term.may_act() for term in terms] == [False] * (number - 1) + [True]
        stop.set()
        thread.join(30)
    assert [term.may_act() for term in terms] == [False, False]
    assert int(terms[0].epoch) < int(terms[1].epoch)
    assert terms[0].began <= terms[1].began


def test_without_queues_there_is_no_silence() -> None:
    """A leader that runs something else than watches needs no Redis, and keeps its lease."""
    clock = FakeClock()
    probe = RedisHealthProbe([], clock)
    probe.look()
    clock.step(1000)
    assert probe.silence == 0
