"""How a process finds its Redis, what it says when it does not, and what it outlives."""

import errno
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from distq.config import Settings
from distq.errors import ConfigError, RedisRefused, RedisUnavailable
from distq.redisio import address, server_checks
from distq.redisio.address import Address
from distq.redisio.connection import Connection
from distq.redisio.error_mapping import typed_error
from distq.redisio.queue_store import QueueStore
from distq.redisio.redis_url import RedisUrl
from distq.testing.embedded_valkey import EmbeddedValkey
from tests.support.ports import free_port
from tests.support.tcp_proxy import TcpProxy

StartServer = Callable[..., EmbeddedValkey]
SECRET = "s3cr3t"


@pytest.fixture
def start_server(redis_server: EmbeddedValkey) -> Iterator[StartServer]:
    """Start more servers of the same kind, which a test may change and kill."""
    started: list[EmbeddedValkey] = []

    def start(*options: str, port: int = 0) -> EmbeddedValkey:
        port = port or free_port()  # it stays the server's while it is away
        started.append(EmbeddedValkey(server=redis_server._server, options=options, port=port).start())
        return started[-1]

    yield start
    for server in started:
        server.stop()


def _url(server: EmbeddedValkey, credentials: str = "") -> str:
    return f"redis://{credentials}127.0.0.1:{server.port}/0"


def _add_user(server: EmbeddedValkey, *rules: str) -> None:
    admin = Connection(server.url)
    admin.execute("ACL", "SETUSER", "worker", "reset", "on", f">{SECRET}", "~*", "&*", "+@all", *rules)
    admin.close()


# The messages


def test_no_redis_where_nothing_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first thing that a newcomer sees names the variable and a way out."""
    monkeypatch.setattr(address, "DEFAULT_URL", "redis://127.0.0.1:1/0")
    with pytest.raises(RedisUnavailable) as caught:
        Connection(settings=Settings()).execute("PING")
    assert str(caught.value) == (
        'no Redis at 127.0.0.1:1 (DISTQ_REDIS_URL unset): connection refused. Set it or try "distq sandbox".'
    )
    assert caught.value.retryable


def test_the_default_is_the_port_that_redis_has() -> None:
    """Without a URL it is this machine's Redis."""
    assert Connection(settings=Settings()).address == "127.0.0.1:6379"


def test_a_wrong_password_names_the_user_and_the_variable(start_server: StartServer) -> None:
    """It is refused at once, and not retried."""
    server = start_server()
    _add_user(server)
    with pytest.raises(RedisRefused) as caught:
        Connection(_url(server, "worker:wrong@")).execute("PING")
    assert str(caught.value) == (
        f'Redis at 127.0.0.1:{server.port} refused user "worker": wrong password. Check its URL.'
    )
    assert not caught.value.retryable


def test_a_wrong_password_names_the_place_that_it_came_from(
    start_server: StartServer, tmp_path: Path
) -> None:
    """Whoever rotated it corrects that place: a file, a variable, or the URL."""
    server = start_server()
    _add_user(server)
    file = tmp_path / "password"
    file.write_text("wrong")
    url = _url(server, "worker:wrong@")
    for settings, place in (
        (Settings(redis_password_file=file), f"DISTQ_REDIS_PASSWORD_FILE ({file})"),
        (Settings(redis_password="wrong"), "DISTQ_REDIS_PASSWORD"),
        (Settings(redis_url=url), "DISTQ_REDIS_URL"),
    ):
        given = None if settings.redis_url else url
        with pytest.raises(RedisRefused) as caught:
            Connection(given, settings=settings).execute("PING")
        assert str(caught.value).endswith(f": wrong password. Check {place}.")


def test_a_missing_password_gets_another_error_than_a_wrong_one(start_server: StartServer) -> None:
    """A server that wants a password gets none."""
    server = start_server()
    admin = Connection(server.url)
    admin.execute("CONFIG", "SET", "requirepass", SECRET)
    admin.close()
    with pytest.raises(RedisRefused, match='refused user "default": no password given'):
        Connection(server.url).execute("PING")


def test_a_server_that_may_evict_work_is_refused(start_server: StartServer) -> None:
    """The first use says so, and writes nothing."""
    server = start_server("--maxmemory-policy", "allkeys-lru")
    connection = Connection(server.url)
    with pytest.raises(ConfigError) as caught:
        QueueStore(connection, "foos").run("add", items=["a"], priority=0, max_length="")
    assert str(caught.value) == (
        f"Redis at 127.0.0.1:{server.port} may evict work: maxmemory-policy allkeys-lru. Set noeviction."
    )
    raw = redis.Redis(port=server.port)
    assert raw.dbsize() == 0
    raw.close()


@pytest.mark.parametrize("scheme", ["http", "or"])
def test_a_bad_scheme_names_those_that_work(scheme: str) -> None:
    """A URL of something else is refused before anything is connected."""
    with pytest.raises(ConfigError) as caught:
        Connection(settings=Settings(redis_url=f"{scheme}://db")).execute("PING")
    assert str(caught.value) == (
        f'bad DISTQ_REDIS_URL: unknown scheme "{scheme}". '
        "Use redis, rediss, unix, redis+sentinel, rediss+sentinel, redis+cluster or rediss+cluster."
    )


@pytest.mark.parametrize(
    "url",
    [
        f"redis://:{SECRET}/x@db:6379",
        f"redis://:{SECRET}@db:port/0",
        f"redis://:{SECRET}@db/zero",
        f"redis://:{SECRET}@db/0?socket_timeout=soon",
        f"redis://:{SECRET}@db/0?nonsense={SECRET}",
        f"redis://:{SECRET}@[::1/0",
    ],
)
def test_a_url_that_makes_no_sense_is_refused_without_its_secrets(url: str) -> None:
    """The message helps, and quotes no part of a password."""
    with pytest.raises(ConfigError, match=r"^bad Redis URL: .* make no sense") as caught:
        Connection(url).execute("PING")
    assert SECRET not in str(caught.value)


def test_no_message_has_a_secret(start_server: StartServer) -> None:
    """Neither a refusal, nor an outage, nor the report of a check."""
    server = start_server()
    _add_user(server, "-get", "-eval", "-info")
    connection = Connection(_url(server, f"worker:{SECRET}@"))
    shown = [*connection.check(), connection.address, repr(connection)]
    with pytest.raises(RedisRefused) as refused:
        connection.execute("GET", "a")
    server.stop()
    with pytest.raises(RedisUnavailable) as unavailable:
        connection.execute("PING")
    shown += [str(refused.value), str(unavailable.value)]
    assert not [line for line in shown if SECRET in line]


def test_an_old_server_is_refused() -> None:
    """Redis before 6.2 lacks what the scripts need."""
    for info in (b"redis_version:6.0.16", b"redis_version:7.2.4\r\nvalkey_version:7.1.0"):
        with pytest.raises(ConfigError, match=r"is too old: .* Use Redis 6\.2, Valkey 7\.2 or newer\."):
            server_checks.enforce(lambda *_, info=info: info, Address("redis://db", Settings()))
    for info in (
        b"redis_version:6.2.0",
        b"redis_version:7.2.4\r\nvalkey_version:7.2.0",
        b"redis_version:10.0",
    ):
        server_checks.enforce(lambda *_, info=info: info, Address("redis://db", Settings()))


# Who we are


def test_settings_override_the_url(start_server: StartServer) -> None:
    """User and password of the settings count; the URL's are replaced."""
    server = start_server()
    _add_user(server)
    settings = Settings(redis_username="worker", redis_password=SECRET)
    connection = Connection(_url(server, "nobody:wrong@"), settings=settings)
    assert connection.execute("ACL", "WHOAMI") == b"worker"
    connection.close()


def test_a_password_file_is_read_at_every_connection(start_server: StartServer, tmp_path: Path) -> None:
    """A rotated secret is used by the next connection, for the user that the URL names."""
    server = start_server()
    _add_user(server)
    file = tmp_path / "password"
    file.write_text(f"{SECRET}\n")
    connection = Connection(_url(server, "worker@"), settings=Settings(redis_password_file=file))
    assert connection.execute("ACL", "WHOAMI") == b"worker"

    admin = Connection(server.url)
    admin.execute("ACL", "SETUSER", "worker", "resetpass", ">new")
    file.write_text("new")
    admin.execute("CLIENT", "KILL", "USER", "worker")
    assert connection.execute("ACL", "WHOAMI") == b"worker"

    file.unlink()
    admin.execute("CLIENT", "KILL", "USER", "worker")
    with pytest.raises(RedisUnavailable) as caught:
        connection.execute("PING")
    assert str(caught.value) == (
        f"cannot log in to Redis at 127.0.0.1:{server.port}: no password file {file}: "
        "no such file or directory. Check DISTQ_REDIS_PASSWORD_FILE."
    )
    file.write_bytes(b"\xff")
    with pytest.raises(RedisUnavailable, match=f"no password file {file}: it is no text"):
        connection.execute("PING")
    admin.close()
    connection.close()


def test_a_unix_socket_serves_as_well(start_server: StartServer, tmp_path: Path) -> None:
    """A URL unix:// reaches the server by its socket."""
    path = tmp_path / "redis.sock"
    start_server("--unixsocket", str(path))
    connection = Connection(f"unix://{path}?db=1")
    assert connection.execute("PING") == b"PONG"
    assert connection.address == str(path)
    connection.close()


def test_replies_are_bytes_with_any_url(start_server: StartServer) -> None:
    """An option of the URL does not change what the rest of distq reads."""
    connection = Connection(f"{start_server().url}?decode_responses=true")
    connection.execute("SET", "a", "b")
    assert connection.execute("GET", "a") == b"b"
    connection.close()


def test_nothing_is_connected_before_the_first_use() -> None:
    """A constructor does no I/O, and reads no environment."""
    Connection("redis://127.0.0.1:1/0")
    Connection("http://nonsense")


# What is outlived


def test_a_restarted_server_is_not_noticed(start_server: StartServer) -> None:
    """Pooled connections that became stale, and scripts that are gone, are replaced in silence."""
    server = start_server()
    connection = Connection(server.url)
    store = QueueStore(connection, "foos")
    assert store.run("add", items=["a"], priority=0, max_length="") == [1, 1]
    server.stop()
    start_server(port=server.port)
    assert store.run("add", items=["a"], priority=0, max_length="") == [1, 1]
    connection.close()


def test_a_short_outage_is_waited_out(start_server: StartServer) -> None:
    """A server that comes back within half a second costs time, not an error."""
    server = start_server()
    connection = Connection(server.url)
    connection.execute("PING")
    server.stop()
    back = threading.Timer(0.1, lambda: start_server(port=server.port))
    back.start()
    assert connection.execute("PING") == b"PONG"
    back.join()
    connection.close()


def test_a_replica_may_be_asked_again(start_server: StartServer) -> None:
    """READONLY, from a command or from within a script, is no refusal: a failover ends it."""
    server = start_server()
    connection = Connection(server.url).with_timeout(5.0)
    store = QueueStore(connection, "foos")
    store.run("add", items=["a"], priority=0, max_length="")
    connection.execute("REPLICAOF", "127.0.0.1", 1)
    with pytest.raises(RedisUnavailable, match="is not ready"):
        connection.execute("SET", "a", "b")
    with pytest.raises(RedisUnavailable, match="is not ready") as caught:
        store.run("add", items=["b"], priority=0, max_length="")
    assert caught.value.retryable
    connection.close()


@pytest.mark.parametrize(
    "error",
    [
        redis.exceptions.BusyLoadingError("Redis is loading the dataset in memory"),
        redis.exceptions.ReadOnlyError("You can't write against a read only replica."),
        redis.ResponseError("BUSY Redis is busy running a script."),
        redis.ResponseError("Error running script (call to f_1): @user_script:3: -READONLY You can't write"),
        redis.ResponseError("NOREPLICAS Not enough good replicas to write."),
        redis.ResponseError("MISCONF Redis is configured to save RDB snapshots, but is unable to persist."),
        redis.TimeoutError("Timeout reading from socket"),
        redis.ConnectionError("Connection closed by server."),
        ConnectionResetError(104, "Connection reset by peer"),
    ],
    ids=lambda error: f"{type(error).__name__}-{str(error)[:8]}",
)
def test_an_error_that_may_pass_is_retryable(error: Exception) -> None:
    """A server that did nothing, or did not answer, may be asked again."""
    assert typed_error(error, Address("redis://db", Settings())).retryable


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (redis.exceptions.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."), "is full"),
        (redis.ResponseError("Error running script: -OOM command not allowed"), "is full"),
        (redis.ResponseError("WRONGTYPE Operation against a key"), "changed by hand"),
        (redis.exceptions.NoPermissionError("this user has no permissions"), "denied user"),
        (redis.exceptions.AuthenticationError("WRONGPASS invalid username-password pair"), "wrong password"),
        (redis.ResponseError("BUSYKEY Target key name already exists."), "already exists"),
        (redis.exceptions.DataError("a tuple item must be str, int, float or bytes"), "nothing sent"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_error_that_does_not_pass_is_a_refusal(error: Exception, says: str) -> None:
    """A server that refused a command refuses it again, and a command that cannot be sent never will be."""
    typed = typed_error(error, Address("redis://db", Settings()))
    assert isinstance(typed, RedisRefused)
    assert not typed.retryable
    assert says in str(typed)


def _ask_in_child(connection: Connection, answers: "multiprocessing.queues.Queue[object]") -> None:
    answers.put([connection.execute("CLIENT", "ID"), connection.execute("PING")])


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_fork_during_another_threads_first_use_can_use_the_connection(start_server: StartServer) -> None:
    """That thread does not exist in the child, so nothing there may wait for it."""
    with TcpProxy(("127.0.0.1", start_server().port)) as proxy:
        proxy.mode = "hang"
        connection = Connection(f"redis://127.0.0.1:{proxy.port}/0")
        first_use = threading.Thread(target=connection.execute, args=("PING",))
        first_use.start()
        while not proxy.accepted:
            time.sleep(0.01)
        context = multiprocessing.get_context("fork")
        child = context.Process(target=connection.execute, args=("PING",))
        child.start()
        proxy.mode = "pass"
        first_use.join()
        child.join(20)
        child.kill()  # where it still waits
        child.join()
        assert child.exitcode == 0
        connection.close()


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_fork_while_another_thread_reads_the_url_can_use_the_connection(
    redis_server: EmbeddedValkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """functools.cached_property of Python 3.11 holds a lock meanwhile, for all objects of the class."""
    reading, go_on = threading.Event(), threading.Event()
    parse, parent = RedisUrl.parse, os.getpid()

    def slow_parse(url: str, name: str) -> RedisUrl:
        if os.getpid() == parent:
            reading.set()
            go_on.wait(20)
        return parse(url, name)

    monkeypatch.setattr(RedisUrl, "parse", slow_parse)
    connection = Connection(redis_server.url)
    first_use = threading.Thread(target=connection.execute, args=("PING",))
    first_use.start()
    assert reading.wait(20)
    child = multiprocessing.get_context("fork").Process(target=connection.execute, args=("PING",))
    child.start()
    child.join(10)
    go_on.set()
    first_use.join()
    child.kill()  # where it still waits
    child.join()
    assert child.exitcode == 0
    connection.close()


def test_a_fork_uses_connections_of_its_own(start_server: StartServer) -> None:
    """Parent and child never read each other's replies."""
    connection = Connection(start_server().url)
    ours = connection.execute("CLIENT", "ID")
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_ask_in_child, args=(connection, answers))
    child.start()
    theirs, pong = answers.get(timeout=20)
    child.join()
    assert pong == b"PONG"
    assert theirs != ours
    assert connection.execute("CLIENT", "ID") == ours
    connection.close()


def test_threads_share_a_connection(connection: Connection) -> None:
    """Each gets the replies to its own commands."""
    wrong: list[object] = []

    def ask(name: str) -> None:
        wrong.extend(name for _ in range(100) if connection.execute("ECHO", name) != name.encode())

    threads = [threading.Thread(target=ask, args=(f"thread-{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# Permissions


def test_a_user_without_the_right_to_load_scripts_sends_them(start_server: StartServer) -> None:
    """EVAL is used where SCRIPT LOAD is denied, also after a flush."""
    server = start_server()
    _add_user(server, "-script")
    connection = Connection(_url(server, f"worker:{SECRET}@"))
    store = QueueStore(connection, "foos")
    admin = Connection(server.url)
    for item in ("a", "b"):
        assert store.run("add", items=[item], priority=0, max_length="") == [1, 1]
        admin.execute("SCRIPT", "FLUSH")
    admin.close()
    connection.close()


def test_a_server_without_the_right_to_info_is_trusted(
    start_server: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that hides its settings is used, and the log says that it could not be checked."""
    server = start_server()
    _add_user(server, "-info")
    connection = Connection(_url(server, f"worker:{SECRET}@"))
    assert connection.execute("PING") == b"PONG"
    assert "cannot check Redis" in caplog.text
    connection.close()


def test_check_prints_each_finding_right_or_wrong(start_server: StartServer) -> None:
    """A line a finding: version, policy, persistence, permissions with the rule that helps."""
    server = start_server()
    _add_user(server, "-eval", "-evalsha")
    admin = Connection(server.url)
    admin.execute("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
    admin.close()
    lines = Connection(_url(server, f"worker:{SECRET}@")).check()
    assert lines[0].startswith(("OK    Redis ", "OK    Valkey "))
    assert lines[1] == "FAIL  maxmemory-policy volatile-lru may evict work. Set noeviction."
    assert lines[2].startswith("WARN  appendonly is off")
    assert lines[3] == 'FAIL  user "worker" may not run scripts. ACL SETUSER worker +evalsha +script|load'
    assert lines[4] == 'OK    user "worker" may run CLIENT UNBLOCK'


def test_check_says_that_memory_is_full(start_server: StartServer) -> None:
    """A full Redis answers and may run scripts, yet it takes no items: that is no OK."""
    admin = Connection(start_server().url)
    assert not [line for line in admin.check() if "memory is" in line]
    admin.execute("CONFIG", "SET", "maxmemory", "500kb")
    assert [line for line in admin.check() if line.startswith("FAIL  memory is full (")]
    admin.close()


@pytest.mark.parametrize(
    ("memory", "found"),
    [
        ("used_memory:950\nmaxmemory:1000", ["WARN  memory is nearly full: 0.0 MiB of maxmemory 0.0 MiB."]),
        ("used_memory:1050\nmem_not_counted_for_evict:300\nmaxmemory:1000", []),
        ("used_memory:950\nmaxmemory:0", []),
        ("used_memory:950", []),
    ],
)
def test_check_warns_before_memory_is_full(memory: str, found: list[str]) -> None:
    """It counts as the server does, without the buffers of replicas; some servers tell no limit."""
    info = f"redis_version:7.0.15\n{memory}".encode()
    lines = server_checks.findings(lambda *_: info, Address("redis://db", Settings()))
    assert [line.split(" A full")[0] for line in lines if "memory is" in line] == found


def test_check_of_no_server_is_one_finding() -> None:
    """What the message of any other use would say."""
    (line,) = Connection("redis://127.0.0.1:1/0").check()
    assert line == "FAIL  no Redis at 127.0.0.1:1: connection refused. Check its URL."


def test_a_server_that_hangs_is_asked_twice(redis_server: EmbeddedValkey) -> None:
    """The connection may be stale, so a new one gets a try; more would hold who waits, and his shutdown."""
    with TcpProxy(("127.0.0.1", redis_server.port)) as proxy:
        connection = Connection(f"redis://127.0.0.1:{proxy.port}")
        connection._timeout, connection._tired_after = 0.2, 0.3
        connection.execute("PING")
        before = proxy.accepted
        proxy.mode = "hang"
        with pytest.raises(RedisUnavailable):
            connection.execute("PING")
        assert proxy.accepted <= before + 1
        connection.close()


def test_a_read_from_an_empty_socket_is_called_no_answer() -> None:
    """Not by the words of the operating system, which are no cause."""
    error = redis.TimeoutError("Timeout reading from socket")
    error.__context__ = BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
    message = str(typed_error(error, Address("redis://db", Settings())))
    assert message == "no Redis at db:6379: connected, but no answer. Check its URL."


def test_a_timeout_ends_the_wait_for_a_silent_server(start_server: StartServer) -> None:
    """A heartbeat's connection gives up in its own time, without repeating."""
    server = start_server()
    connection = Connection(server.url).with_timeout(0.2)
    connection.execute("PING")
    os.kill(server.pid, 19)  # SIGSTOP: it accepts, and says nothing
    began = time.monotonic()
    with pytest.raises(RedisUnavailable, match="connected, but no answer"):
        connection.execute("PING")
    assert time.monotonic() - began < 4
    connection.close()


def test_a_timeout_ends_a_large_command_that_a_silent_server_does_not_read(start_server: StartServer) -> None:
    """As a whole, though its first parts go into buffers; and small ones are bounded again after it."""
    server = start_server()
    connection = Connection(server.url).with_timeout(0.5)
    connection.execute("SET", "large", b"x" * 1_000_000)
    os.kill(server.pid, signal.SIGSTOP)
    began = time.monotonic()
    with pytest.raises(RedisUnavailable, match="no answer in time"):
        connection.execute("SET", "large", b"x" * 50_000_000)
    assert time.monotonic() - began < 4
    os.kill(server.pid, signal.SIGCONT)
    connection.execute("SET", "large", b"x" * 1_000_000)
    os.kill(server.pid, signal.SIGSTOP)
    with pytest.raises(RedisUnavailable, match="connected, but no answer"):
        connection.execute("GET", "small")
    connection.close()


@pytest.mark.parametrize(("words", "size"), [(126, 10), (127, 10), (5000, 10), (500, 1000), (300, 100_000)])
def test_commands_of_any_size_arrive_as_they_are(connection: Connection, words: int, size: int) -> None:
    """Many words travel in pieces, alone and among other commands."""
    values = [f"{number:010}".encode() * (size // 10) for number in range(words)]
    connection.execute("RPUSH", "values", *values)
    replies = connection.pipeline([("RPUSH", "values", *values), ("PING",), ("LRANGE", "values", 0, -1)])
    assert replies == [2 * words, b"PONG", 2 * values]


def test_signals_do_not_prolong_the_wait_for_a_silent_server(start_server: StartServer) -> None:
    """A timer that rings in the main thread, say: also where another thread made the connection."""
    server = start_server()
    connection = Connection(server.url).with_timeout(0.5)
    other = threading.Thread(target=connection.execute, args=("PING",))
    other.start()
    other.join()
    rings: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: rings.append(number))
    at_last = threading.Timer(10, os.kill, (server.pid, signal.SIGCONT))
    at_last.start()
    os.kill(server.pid, signal.SIGSTOP)
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
    try:
        with pytest.raises(RedisUnavailable, match="connected, but no answer"):
            connection.execute("PING")
        with pytest.raises(RedisUnavailable, match="no answer in time"):
            connection.execute("SET", "large", b"x" * 50_000_000)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        at_last.cancel()
        os.kill(server.pid, signal.SIGCONT)
    assert rings
    connection.close()


class Cooperative(socket.socket):
    """A socket as gevent puts it in place of Python's: it waits itself, on one that never blocks."""

    def settimeout(self, value: float | None) -> None:
        """Wait so long, but never in the kernel."""
        super().settimeout(value)
        os.set_blocking(self.fileno(), False)


def test_a_socket_that_never_blocks_keeps_its_own_timeout(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel ends no wait of it: without a timeout it would wait for ever."""
    monkeypatch.setattr(socket, "socket", Cooperative)
    connection = Connection(start_server().url).with_timeout(0.5)
    timeouts: list[float | None] = []

    def look() -> None:
        connection.execute("PING")
        pool = connection._ready_servers().of("").pool
        resting = pool.take()
        sock: Any = resting._sock
        timeouts.append(sock.gettimeout())
        pool.give_back(resting)

    other = threading.Thread(target=look)
    other.start()
    other.join()
    assert timeouts == [0.5]
    connection.close()
