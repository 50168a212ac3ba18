"""Behind Sentinels the primary is followed: killed, demoted, unknown; by plan nothing is lost."""

import threading
import time
from collections.abc import Iterator

import pytest

from distq.config import Settings
from distq.errors import ConfigError, RedisRefused, RedisUnavailable
from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.workqueue.queue import Queue
from tests.support.eventually import eventually
from tests.support.redis_servers import KINDS, server_of
from tests.support.redis_topologies import SERVICE, Sentinels, raw
from tests.workqueue.fleet_under_load import FleetUnderLoad


@pytest.fixture(scope="module", params=[kind for kind in KINDS if kind != "redis6"])
def sentinels(request: pytest.FixtureRequest) -> Iterator[Sentinels]:
    """Run a primary, two replicas and three Sentinels."""
    with Sentinels(server_of(request.param)) as sentinels:
        sentinels.wait_until_settled()
        yield sentinels


@pytest.fixture
def settled(sentinels: Sentinels) -> Sentinels:
    """Give them with nothing in them, and all of them there."""
    while len(sentinels.servers) < 3:  # one was killed
        sentinels.start_server("--replicaof", "127.0.0.1", str(sentinels.primary()))
    sentinels.wait_until_settled()
    raw(sentinels.primary())("FLUSHALL")
    wait_until_everywhere(sentinels, 0)
    return sentinels


def wait_until_everywhere(sentinels: Sentinels, keys: int) -> None:
    """Wait until all servers have so many keys: what a replica lacks a failover loses.

    After a failover the old primary of a Valkey 9 takes no write for some seconds, its own primary's neither.
    """
    eventually(lambda: all(sentinels.ask(port, "DBSIZE") == keys for port in sentinels.servers), timeout=60)


def test_the_primary_is_found(settled: Sentinels) -> None:
    """With a database, and by a first Sentinel that is not there; messages name the service."""
    url = settled.url.replace("://", "://127.0.0.1:1,").replace("/0", "/2")
    connection = Connection(url)
    assert connection.execute("HSET", "distq:x", "a", "b") == 1
    assert raw(settled.primary())("INFO", "keyspace").count(b"db2:keys=1") == 1
    assert connection.address.startswith(f'"{SERVICE}" of Sentinels 127.0.0.1:1, 127.0.0.1:')
    assert any("standalone" in finding for finding in connection.check())
    connection.close()


def test_a_fleet_outlives_the_death_of_its_primary(settled: Sentinels) -> None:
    """Producers, claims, heartbeats and sleepers all find the next one, and added items are processed."""
    with FleetUnderLoad(settled.url) as fleet:
        fleet.wait_for_progress()
        dead = settled.primary()
        settled.kill(dead)
        eventually(lambda: settled.primary() != dead)
        fleet.wait_for_progress()
    fleet.finish()


def test_acknowledged_writes_outlive_a_planned_failover(settled: Sentinels) -> None:
    """By the runbook: claims are stopped, writes held until the replicas have all, then one is promoted."""
    connection = Connection(settled.url)
    inspector = Inspector(connection)
    with FleetUnderLoad(settled.url) as fleet:
        fleet.wait_for_progress()
        inspector.pause("foos")
        eventually(lambda: inspector.queues("foos")[0].processing == 0)
        old = settled.primary()
        raw(old)("CLIENT", "PAUSE", 20000, "WRITE")
        eventually(lambda: len(offsets(settled)) == 1)
        settled.fail_over()
        eventually(lambda: is_resumed(inspector))
        fleet.wait_for_progress()
    assert fleet.finish() == []
    connection.close()


def offsets(sentinels: Sentinels) -> set[bytes]:
    """Return how far the primary and its replicas are."""
    infos = (raw(port)("INFO", "replication") for port in sentinels.servers)
    return {info.partition(b"\nmaster_repl_offset:")[2].split()[0] for info in infos}


def is_resumed(inspector: Inspector) -> bool:
    """Let the queue go on, if Redis lets us."""
    try:
        inspector.resume("foos")
    except RedisUnavailable:
        return False
    return True


def test_a_primary_that_does_not_know_its_end_yet_is_left(settled: Sentinels) -> None:
    """It goes on taking writes, which are lost, until the Sentinels demote it some ten seconds later."""
    connection = Connection(settled.url)
    queue = Queue("foos", connection)
    queue.add("before")
    old = settled.primary()
    settled.fail_over()
    later = time.monotonic() + 1.5  # a second is what an answer of theirs is believed
    eventually(lambda: time.monotonic() > later)
    queue.add("after")
    assert b"role:master" in raw(old)("INFO", "replication")
    assert raw(settled.primary())("ZSCORE", "distq:{foos}:ready", "after") is not None
    connection.close()


def test_a_demoted_primary_is_left(settled: Sentinels) -> None:
    """It lives on as a replica and answers READONLY; clients that were connected go to the new one."""
    connection = Connection(settled.url)
    queue = Queue("foos", connection)
    queue.add("before")
    wait_until_everywhere(settled, raw(settled.primary())("DBSIZE"))
    settled.fail_over()
    settled.wait_until_settled()

    def add() -> bool:
        try:
            queue.add("after")
        except RedisUnavailable:
            return False
        return True

    eventually(add)
    assert raw(settled.primary())("ZCARD", "distq:{foos}:ready") == 2
    connection.close()


def test_a_sentinel_that_is_behind_is_not_believed_twice(settled: Sentinels) -> None:
    """One that names a replica is asked last from then on."""
    connection = Connection(settled.url)
    replica = next(port for port in settled.servers if port != settled.primary())
    sentinels = connection._address._sentinels
    right = sentinels._ask
    behind = sentinels._places[0]
    sentinels._ask = lambda place: ("127.0.0.1", replica) if place == behind else right(place)  # type: ignore[method-assign]
    connection._address.checked.add(connection.address)
    assert connection.execute("HSET", "distq:x", "a", "b") == 1
    connection.close()


def test_no_primary_is_an_outage_that_names_the_sentinels() -> None:
    """Which may pass; what each Sentinel said, and the remedy."""
    with Sentinels(server_of("redis7")) as sentinels:
        sentinels.wait_until_settled()
        named = sentinels.url.replace(SERVICE, "other")
        connection = Connection(named)
        places = ", ".join(f"127.0.0.1:{port}" for port in sentinels.ports)
        with pytest.raises(RedisUnavailable) as caught:
            connection.execute("PING")
        assert str(caught.value) == (
            f'no Sentinel of {places} knows a primary "other": '
            + "; ".join(f"127.0.0.1:{port} has no such service" for port in sentinels.ports)
            + ". Check the service's name, and DISTQ_REDIS_SENTINEL_PASSWORD."
        )
        assert caught.value.retryable
    connection = Connection(sentinels.url)
    with pytest.raises(RedisUnavailable, match=rf'knows a primary "{SERVICE}": .*Connection refused'):
        connection.execute("PING")


def test_a_connected_client_goes_on_without_sentinels() -> None:
    """They are needed to find the primary, and not to talk to it."""
    with Sentinels(server_of("redis7")) as sentinels:
        sentinels.wait_until_settled()
        connection = Connection(sentinels.url)
        connection.execute("PING")
        sentinels.end_sentinels()
        connection._address._sentinels._ask_again_at = 0.0
        assert connection.execute("HSET", "distq:x", "a", "b") == 1
        connection.close()


def test_the_sentinels_login_is_their_own() -> None:
    """The URL's user and password are Redis' own; those of the Sentinels are settings."""
    with Sentinels(
        server_of("redis7"),
        options=("--masterauth", "data"),
        sentinel_options=(f"sentinel auth-pass {SERVICE} data", "requirepass watch"),
        client={"password": "data"},
        sentinel_client={"password": "watch"},
    ) as sentinels:
        sentinels.wait_until_settled()
        url = sentinels.url.replace("://", "://:data@")
        connection = Connection(settings=Settings(redis_url=url, redis_sentinel_password="watch"))
        assert connection.execute("PING") == b"PONG"
        connection.close()
        for settings in (Settings(redis_url=url), Settings(redis_url=url, redis_sentinel_password="data")):
            with pytest.raises(RedisRefused, match="DISTQ_REDIS_SENTINEL_PASSWORD") as caught:
                Connection(settings=settings).execute("PING")
            assert "data" not in str(caught.value).replace("has the data", "")
        with pytest.raises(RedisRefused, match=f'"{SERVICE}" of Sentinels .* no password given'):
            Connection(settings=Settings(redis_url=sentinels.url, redis_sentinel_password="watch")).now()


def test_a_sleeper_finds_the_next_primary(settled: Sentinels) -> None:
    """A worker that waits at the moment of a failover gets the items that are added after it."""
    connection, producer = Connection(settled.url), Connection(settled.url)
    queue = Queue("foos", connection)
    got: list[str] = []
    waiting = threading.Thread(target=lambda: got.extend(next(iter(queue.listen())).key), daemon=True)
    waiting.start()
    primary = settled.primary()
    eventually(lambda: b"cmd=blpop" in raw(primary)("CLIENT", "LIST"))
    settled.kill(primary)
    eventually(lambda: settled.primary() != primary)

    def add() -> bool:
        try:
            return bool(Queue("foos", producer).add("a"))
        except RedisUnavailable:
            time.sleep(0.05)
            return False

    eventually(add)
    waiting.join(60)
    assert got == ["a"]
    queue.close()
    connection.close()
    producer.close()


@pytest.mark.parametrize(
    "url",
    ["redis+sentinel://a,b", "redis+sentinel://a:x/main", "redis+cluster://a/1", "redis+sentinel:///main"],
)
def test_an_incomplete_url_is_refused(url: str) -> None:
    """And the error has the shape that works."""
    with pytest.raises(
        ConfigError, match=r"Use redis\+(sentinel|cluster)://user:password@host:port,host:port"
    ):
        Connection(url).execute("PING")
