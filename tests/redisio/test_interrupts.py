"""An interrupted call leaves no connection half made: after any interruption the next call works as ever."""

import gc
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from distq.errors import RedisUnavailable
from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from tests import ROOT
from tests.support.eventually import eventually
from tests.support.injected_interrupt import Interrupt

CONNECT = (
    "connection",  # ours, and redis-py's of the same name
    "pool",
    "servers",
    "address",
    "conversation",
    "kernel_timeout",
    "sentinels",
    "cluster",
    "retry",
    "credentials",
    "base",
    "hiredis",
)
"""The modules that a call goes through: to take a connection, to make it, to use it and to give it back."""

Make = Callable[[], Connection]


@pytest.fixture
def database() -> int:
    """Give the number of a database."""
    return 5


@pytest.fixture
def make(redis_server: EmbeddedValkey, connection: Connection, database: int) -> Iterator[Make]:
    """Make handles of that database, on a server whose databases are all empty."""
    made: list[Connection] = []

    def make() -> Connection:
        made.append(Connection(f"{redis_server.url.removesuffix('/0')}/{database}"))
        return made[-1]

    yield make
    for each in made:
        each.close()


def _new(make: Make, other: Connection) -> Connection:
    """Return a handle that has not asked the server for anything."""
    return make()


def _resting(make: Make, other: Connection) -> Connection:
    """Return a handle whose connection rests in the pool."""
    used = make()
    used.execute("PING")
    return used


def _closed(make: Make, other: Connection) -> Connection:
    """Return a handle that has found its server fit, and connects anew."""
    closed = _resting(make, other)
    closed.close()
    return closed


def _stale(make: Make, other: Connection) -> Connection:
    """Return a handle whose resting connection the server has closed."""
    stale = _resting(make, other)
    other.execute("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    return stale


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # redis-py had not kept it yet
@pytest.mark.parametrize(
    ("prepare", "exception", "database"),
    [
        (_closed, KeyboardInterrupt, 5),
        pytest.param(_closed, KeyboardInterrupt, 0, marks=pytest.mark.slow),
        # as an alarm's handler raises, and redis-py where the server is silent
        pytest.param(_closed, TimeoutError, 5, marks=pytest.mark.slow),
        (_resting, KeyboardInterrupt, 5),
        (_stale, KeyboardInterrupt, 5),
        pytest.param(_new, KeyboardInterrupt, 5, marks=[pytest.mark.night, pytest.mark.timeout(600)]),
    ],
)
def test_an_interrupt_anywhere_in_a_call_leaves_no_connection_half_made(
    make: Make,
    connection: Connection,
    database: int,
    prepare: Callable[[Make, Connection], Connection],
    exception: type[BaseException],
) -> None:
    """Later calls succeed and write to the database of the URL, and connections are neither lost nor left."""
    place = 0
    while True:
        place += 1
        handle = prepare(make, connection)
        with Interrupt(place, CONNECT, exception) as interrupt, suppress(exception, RedisUnavailable):
            handle.execute("SET", "interrupted", place)
        if not interrupt.where:
            break
        handle.execute("SET", f"place-{place}", "written")
        assert handle.execute("GET", f"place-{place}") == b"written", interrupt.where
        assert _databases(connection) <= {f"db{database}"}, interrupt.where
        handle.close()
    assert place > 40
    gc.collect()  # a traceback may hold a socket that redis-py had not kept yet
    eventually(
        lambda: len(connection.execute("CLIENT", "LIST").splitlines()) == 2,
        lambda: f"connections are left: {connection.execute('CLIENT', 'LIST').decode()}",
    )


def _databases(connection: Connection) -> set[str]:
    """Return the databases that are not empty."""
    lines = connection.execute("INFO", "keyspace").decode().splitlines()
    return {line.partition(":")[0] for line in lines if line.startswith("db")}


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_interrupts_of_more_calls_than_a_process_has_connections_leave_it_working(make: Make) -> None:
    """Each of 150 calls is interrupted while it connects; none of them costs the later ones a connection."""
    handle, n_interrupted = make(), 0
    handle.execute("PING")
    for place in range(1, 151):
        handle._ready_servers().disconnect()
        with Interrupt(1 + place % 40, CONNECT) as interrupt, suppress(KeyboardInterrupt):
            handle.execute("PING")
        n_interrupted += bool(interrupt.where)
    assert n_interrupted == 150
    assert handle.execute("CLIENT", "LIST").count(b"db=5") == 1


_UNDER_SIGNALS = """
import random, signal, sys, time
from distq.errors import RedisError
from distq.redisio.connection import Connection

class Interrupted(Exception):
    pass

def handler(number, frame):
    while frame is not None and frame.f_code is not attempt.__code__:
        frame = frame.f_back
    if frame is not None:
        raise Interrupted

def attempt(number):
    if number % 2:
        connection.close()
    connection.execute("SET", f"attempt-{number}", number)

connection, interrupted = Connection(sys.argv[1]), 0
drawn, until = random.Random(20), time.monotonic() + 20
signal.signal(signal.SIGALRM, handler)
for number in range(6000):
    signal.setitimer(signal.ITIMER_REAL, drawn.uniform(0.00005, 0.001), 0.00007)
    try:
        attempt(number)
    except (Interrupted, RedisError, SystemError):  # the last is Python's, of two signals at once
        interrupted += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    if time.monotonic() > until:
        break
assert interrupted > 50, interrupted
connection.execute("SET", "last", "written")
print(connection.execute("GET", "last").decode(), connection.execute("CLIENT", "LIST").count(b"db=5"))
"""


@pytest.mark.slow
def test_a_process_under_dense_signals_writes_to_its_database_and_lives(
    redis_server: EmbeddedValkey, connection: Connection, database: int
) -> None:
    """Thousands of real signals whose handler raises, in connects and calls: no crash, no other database."""
    url = f"{redis_server.url.removesuffix('/0')}/{database}"
    program = [sys.executable, "-c", _UNDER_SIGNALS, url]
    ended = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout) == (0, "written 1\n"), ended.stderr[-2000:]
    assert _databases(connection) == {f"db{database}"}
