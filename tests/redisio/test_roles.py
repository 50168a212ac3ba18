"""Each role's Redis user may do all that the role does, nothing else, and on no keys of others."""

import contextlib
import hashlib
import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from prometheus_client import CollectorRegistry

from distq.config import Settings
from distq.controller.controller import Controller
from distq.controller.manager import Manager
from distq.controller.process_health import waits_for
from distq.controller.watches import For
from distq.dashboard import AccessPolicy, create_app
from distq.errors import Empty, InvalidQueueName, RedisRefused, RetryAfter, TerminalError
from distq.inspector import Inspector
from distq.leaderelection import RedisLock
from distq.prometheus import PrometheusMetrics
from distq.redisio import scripts
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.ended_logins import EndedLogins
from distq.redisio.object_cache import CachedObject, CacheIncomplete, ObjectCache
from distq.redisio.roles import ROLES, user_of
from distq.redisio.stream_store import StreamStore, stream_records
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.testing.sandbox import Sandbox
from distq.workqueue.engine import TurnSettings
from distq.workqueue.gauges import QueueGauges
from distq.workqueue.interface import Result
from distq.workqueue.queue import Queue
from distq.workqueue.worker import Worker
from tests.dashboard.visitor import Visitor
from tests.leaderelection.test_redis_lock import RECORD
from tests.support.eventually import eventually
from tests.support.populated import Populated

PREFIX = "blue"
LoggedIn = Callable[..., Connection]


@pytest.fixture
def logged_in(redis_server: EmbeddedValkey, connection: Connection) -> Iterator[LoggedIn]:
    """Give what makes the user of some roles for the queue foos, and logs in as that."""
    made: list[Connection] = []

    def log_in(*roles: str, prefix: str = PREFIX, database: int = 0) -> Connection:
        user = user_of(roles, prefix=prefix, queues=["foos"], database=database)
        assert connection.execute(*user.split()) == b"OK"
        settings = Settings(prefix=prefix, redis_username=user.split()[2], redis_password="PASSWORD")
        made.append(Connection(f"{redis_server.url[:-1]}{database}", settings=settings))
        return made[-1]

    connection.execute("ACL", "LOG", "RESET")
    yield log_in
    for each in made:
        each.close()
    for user in connection.execute("ACL", "USERS"):
        if user != b"default":
            connection.execute("ACL", "DELUSER", user)


def produce(redis: Connection) -> None:
    """Add in all ways, and ask what a program asks that only adds."""
    queue = Queue("foos", redis, max_length=100)
    queue.add("a", "b", priority=5)
    queue.add("c", after=60)
    queue.add("c", after=1)
    assert (queue.depth(), queue.num_requeues("a"), queue.is_dirty("a")) == (2, 0, False)
    queue.close()


def work(redis: Connection) -> None:
    """Claim, sleep, settle in all ways, be watched over, end."""
    produce(redis)
    cache = ObjectCache(redis, "foos", "pods")
    cache.wrote([CachedObject("a", "1", b"{}")], {"b": "1"})
    with pytest.raises(CacheIncomplete):
        cache.get("a")
    queue = Queue("foos", redis, claim_duration=30)
    outcomes = [None, Result(requeue_after=5), RuntimeError("no"), TerminalError("no"), RetryAfter(5)]
    queue.add(*(f"item-{number}" for number in range(len(outcomes))))
    for outcome in outcomes:
        queue.settle(queue.get(0), outcome)
    queue.add_rate_limited("slow")
    queue.forget("slow")
    request = queue.get(0)
    queue._session.recount()
    heartbeat = queue._session._heartbeat
    assert heartbeat is not None
    assert heartbeat.beat(queue._session)
    assert waits_for(queue, watched=True)
    queue.settle(request, None)
    with contextlib.suppress(Empty):
        while True:
            queue.settle(queue.get(0.2), None)
    queue.close()


def inform(redis: Connection) -> None:
    """Commit, begin anew, end streams, and report the gauges."""
    stream = StreamStore(redis, "foos", "pods")
    assert stream.load() is None
    cached = {"cached": ["owner"]}
    objects = [CachedObject("a", "1", b"{}", {"owner": ["web"]})]
    stream.commit(Commit(epoch="1", after="", new="4", batch="a", objects=objects, about=cached))
    assert len(ObjectCache(redis, "foos", "pods").by_index("owner", "web")) == 1
    assert list(stream.cached_names()) == [["a"]]
    stream.commit(Commit(epoch="1", after="a", new="", batch="z"))
    stream.commit(
        Commit(epoch="1", after="", new="5", batch="b", keys=["a", "b"], known={"a": "1"}, priority=-100)
    )
    stream.commit(Commit(epoch="1", after="b", new="6", batch="c", keys=["a"], gone=["a"], keep_pending=True))
    stream.commit(Commit(epoch="1", after="c", new="7", batch="d", keys=["later"], delay=1_000_000))
    assert (list(stream.known()), stream.known_count(), stream.known_of(["a"])) == ([], 0, [None])
    assert stream.list_all()
    assert list(stream_records(redis, "foos")) == ["pods"]
    assert stream.now()
    assert QueueGauges(Queue("foos", redis))()[-1][2] == 1.0


def fill(redis: Connection) -> None:
    """Bring an item into each state; no worker runs meanwhile."""
    populated = Populated(redis)
    number = populated.session.partition("-")[0]
    worker = Worker(TurnSettings())
    redis.execute("HSET", populated.store.key("workers"), number, worker.describe())


def look(redis: Connection) -> None:
    """Read all that the command line and the dashboard show."""
    inspector = Inspector(redis)
    (info,) = inspector.queues()
    assert (info.name, info.dead) == ("foos", 1)
    for state in (None, "ready", "delayed", "processing", "dead", "dirty"):
        assert inspector.items("foos", state=state, match="*e*") or state
        inspector.items("foos", state=state)
    assert inspector.items("foos", failing=True)
    assert inspector.item("foos", "poison")
    assert inspector.count("foos", state="dead", match="p*")
    assert inspector.workers()
    assert inspector.streams("foos")
    assert (list(inspector.trace("foos", "x")), bool(inspector.traced_until("foos"))) == ([], True)
    browser = create_app(inspector).test_client()
    for page in (
        "/",
        "/0/data/queues.json",
        "/0/data/workers.json",
        "/0/data/jobs/foos/failed/25/asc/1.json",
        "/queues/foos?sort=last",
        "/queues/foos/items/poison",
        "/queues/foos?state=failing",
        "/failing",
        "/find?key=poison",
        "/audit",
    ):
        assert browser.get(page).status_code == 200


def repair(redis: Connection) -> None:
    """Look, and change what the command line changes."""
    look(redis)
    inspector = Inspector(redis)
    visitor = Visitor(create_app(inspector, AccessPolicy(actions=True)))
    assert visitor.post("/queues/foos/actions/resume").status_code == 303
    assert [entry.text for entry in inspector.audit()] == ["resume foos"]
    assert inspector.pause("foos")
    assert inspector.resume("foos")
    assert inspector.requeue("foos", state="dead") == 1
    assert inspector.park("foos", "poison", reason="by hand") == 1
    assert inspector.resync("foos") == 1
    assert inspector.repair_some("delete", "foos", state="dead").changed == 1
    assert inspector.delete("foos", state="dead") == 0
    assert inspector.add("foos", "by hand") == 1
    queue = Queue("foos", redis)
    queue.add("a", "b")
    queue.add("c", after=60)
    queue.close()


def elect(redis: Connection) -> None:
    """Keep a record."""
    lock = RedisLock("leader", redis, identity="ada")
    lock.create(RECORD, timeout=5)
    lock.update(RECORD, timeout=5)
    assert lock.get(timeout=5) == RECORD


def log_out(redis: Connection) -> None:
    """End a login, and ask whether it was ended."""
    ended = EndedLogins(redis)
    ended.add("a", seconds=60)
    assert "a" in ended
    assert "b" not in ended


DOES = {
    "producer": produce,
    "worker": work,
    "informer": inform,
    "viewer": look,
    "operator": repair,
    "candidate": elect,
    "login": log_out,
}


@pytest.mark.parametrize("role", ROLES)
def test_a_user_may_do_the_work_of_its_role_and_nothing_else(
    role: str, logged_in: LoggedIn, connection: Connection, redis_server: EmbeddedValkey
) -> None:
    """All of it, scripts in depth, leaves Redis' log of refusals empty; each right that it has is used."""
    admin = Connection(redis_server.url, settings=Settings(prefix=PREFIX))
    limited = logged_in(role)
    connection.execute("SCRIPT", "FLUSH")
    used: set[str] = set()
    for script in (None, *ROLES[role].scripts):
        connection.execute("FLUSHALL")
        if script is None and role in {"viewer", "operator"}:
            fill(admin)
        if script in {None, "election/write"}:
            trace(admin)
            connection.execute("CONFIG", "RESETSTAT")
            limited.execute("PING")
            DOES[role](limited)
        else:
            populated = Populated(admin)
            inputs = populated.inputs(script)
            populated.become(limited)
            trace(admin)
            connection.execute("CONFIG", "RESETSTAT")
            populated.run(script, **inputs)
        used |= commands_run(connection)
    assert denied(connection) == (TRIED if role == "viewer" else set())
    granted = ROLES[role].granted()
    words = any("|" in command for command in used)  # which Redis 6.2 does not distinguish
    assert {command if words else command.partition("|")[0] for command in granted} == used
    admin.close()


TRIED = {b"evalsha", b"eval"}
"""What a dashboard tries once: it sends fewer commands where it may run a script of its reads."""


def denied(connection: Connection) -> set[bytes]:
    """Return what Redis refused to its users."""
    entries = [dict(zip(entry[::2], entry[1::2], strict=True)) for entry in connection.execute("ACL", "LOG")]
    return {entry[b"object"] for entry in entries}


def trace(redis: Connection) -> None:
    """Let each script leave an entry, which takes one right more."""
    redis.execute("HSET", "blue:{foos}:meta", "trace", f"{2**52 - 1} 1000 16384 1000000 0 0 0 ")


def commands_run(connection: Connection) -> set[str]:
    """Return what was run since the last reset, by scripts, too, except by this test."""
    lines = connection.execute("INFO", "commandstats").decode().splitlines()
    ran = [line for line in lines if line.startswith("cmdstat_") and ":calls=0," not in line]
    names = {line[len("cmdstat_") :].partition(":")[0] for line in ran}
    return names - {"config|resetstat", "config", "auth", "acl|log", "acl", "flushall"} | {"info"}


OF_OTHERS = {"blue:{bars}:ready", "distq:{foos}:ready", "blueish:{foos}:ready", "blue:queues2", "other"}
DANGEROUS = [
    *("FLUSHALL", "FLUSHDB", "RANDOMKEY", "DBSIZE", "MONITOR", "SAVE", "BGREWRITEAOF", "LASTSAVE", "COMMAND"),
    *("KEYS *", "SCAN 0", "SELECT 1", "SWAPDB 0 1", "DEBUG OBJECT {}", "SCRIPT FLUSH", "SCRIPT KILL"),
    *("CONFIG GET *", "CONFIG SET maxmemory 1", "ACL LIST", "ACL SETUSER a", "ACL WHOAMI", "ACL LOG RESET"),
    *("CLIENT LIST", "CLIENT KILL TYPE normal", "CLIENT PAUSE 10", "CLIENT NO-EVICT on", "REPLICAOF NO ONE"),
    *(
        "MOVE {} 1",
        "MIGRATE h 1 {} 0 1",
        "DUMP {}",
        "RENAME {} {}x",
        "COPY {} {}x",
        "EXPIRE {} 1",
    ),
    *(
        "SET {} 1",
        "GET {}",
        "OBJECT FREQ {}",
        "SORT {}",
        "ZREMRANGEBYRANK {} 0 -1",
        "PUBLISH a b",
        "SUBSCRIBE a",
    ),
    *("EVAL return(1) 0", "FUNCTION FLUSH", "FUNCTION LIST", "MODULE LIST", "SLOWLOG GET", "LATENCY RESET"),
    *(
        "CLUSTER INFO",
        "FAILOVER",
        "PSYNC ? -1",
        "WAIT 0 0",
        "MULTI",
        "LPOP {}",
        "MEMORY DOCTOR",
    ),
]


@pytest.mark.parametrize("role", ROLES)
def test_an_attacker_with_a_roles_password_gets_no_further(
    role: str, logged_in: LoggedIn, connection: Connection
) -> None:
    """No other queue, prefix or database, no command that governs the server; and nothing is changed."""
    owned = {
        "queues": "blue:{foos}:ready",
        "elections": "blue:election:leader",
        "logins": "blue:ended_login:a",
    }
    own = owned.pop(ROLES[role].keys)
    others = OF_OTHERS.union(owned.values(), {"blue:{bars}:audit"})
    for key in others:
        connection.execute("ZADD", key, 1, "a")
    before = {key: connection.execute("DUMP", key) for key in others}
    limited = logged_in(role)
    granted = ROLES[role].granted()
    for command in DANGEROUS:
        refused(limited, *command.format(own, own).split())
    if not {"commit", "share", "turn"} & {*ROLES[role].scripts}:  # which drop a cache, and old shares
        refused(limited, "UNLINK", own)
    for key in others:
        refused(limited, "ZADD", key, 5, "b")
        refused(limited, "ZREM", key, "a")
        refused(limited, "DEL", key)
        refused(limited, "ZRANGE", key, 0, -1)
        refused(limited, "HSETNX", key, "a", 1)
        refused(limited, "EVAL", "return redis.call('DEL', KEYS[1])", 1, key)
        refused(limited, "BLPOP", key, 1)
        if "evalsha" in granted:
            for keys, source in (([key], "KEYS[1]"), ([], f"'{key}'"), ([own], f"'{key}'")):
                by_hash(limited, f"return redis.call('ZADD', {source}, 5, 'b')", *keys)
                by_hash(limited, f"return redis.call('DEL', {source})", *keys)
    assert {key: connection.execute("DUMP", key) for key in others} == before


@pytest.mark.parametrize("role", ["producer", "viewer", "candidate"])
def test_a_user_that_does_not_work_deletes_nothing_whole(
    role: str, logged_in: LoggedIn, connection: Connection
) -> None:
    """A producer makes no queue, nor its name, disappear by one command; a reader changes nothing at all."""
    connection.execute("HSET", "blue:queues", "foos", 1)
    limited = logged_in(role)
    for command in ("DEL blue:queues", "HDEL blue:queues foos", "HSET blue:election:x version 1", "DEL {}"):
        if not (role == "candidate" and "election" in command):
            refused(limited, *command.format("blue:{foos}:ready").split())
    if role == "viewer":
        for command in ("ZADD {} 1 a", "ZREM {} a", "HSETNX blue:queues a 1", "RPUSH {} 1", "EVALSHA abc 0"):
            refused(limited, *command.format("blue:{foos}:ready").split())


def test_informer_and_worker_run_as_users_of_their_own() -> None:
    """Each process of a controller, from its start to its end, and readers meanwhile."""
    with Sandbox() as sandbox:
        admin, reconciled = sandbox.redis, threading.Event()
        controller = partial(
            Controller, "foos", lambda _: reconciled.set(), watches=[For("v1/ConfigMap")], fleet_concurrency=3
        )
        registry = CollectorRegistry()
        metrics = PrometheusMetrics(registry)
        managers, threads = {}, []
        for role in ("informer", "worker"):
            admin.execute(*user_of([role], prefix="distq", queues=["foos"]).split())
            url = sandbox.valkey.url.replace("://", f"://distq-{role}:PASSWORD@")
            managers[role] = Manager(
                [controller()], redis=Connection(url), client=sandbox.client, metrics=metrics
            )
            sides = {"informer": role == "informer", "workers": role == "worker"}
            threads.append(threading.Thread(target=managers[role].run, kwargs=sides))
            threads[-1].start()
        try:
            sandbox.client.apply(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}
            )
            assert reconciled.wait(30)
            eventually(lambda: registry.get_sample_value("distq_ready", {"name": "foos"}) == 0)
        finally:
            for manager in managers.values():
                manager.stop()
            for thread in threads:
                thread.join(30)
        assert admin.execute("ACL", "LOG") == []


def test_a_process_of_two_roles_is_one_user(logged_in: LoggedIn, connection: Connection) -> None:
    """Informer and worker in one, as ``distq run``."""
    limited = logged_in("informer", "worker")
    inform(limited)
    work(limited)
    assert connection.execute("ACL", "LOG") == []


def test_a_user_of_another_database_may_choose_that_one(logged_in: LoggedIn, connection: Connection) -> None:
    """And no other."""
    limited = logged_in("producer", database=1)
    produce(limited)
    assert connection.execute("ACL", "LOG") == []
    refused(limited, "SELECT", 2)


def test_the_check_finds_a_worker_able(logged_in: LoggedIn, connection: Connection) -> None:
    """It asks for nothing that the role has not."""
    assert not [line for line in logged_in("worker").check() if line.startswith("FAIL")]
    assert connection.execute("ACL", "LOG") == []


def test_without_queues_a_user_has_those_of_the_prefix() -> None:
    """And a name that is none is refused."""
    assert " ~blue:{*}:* ~blue:queues " in user_of(["worker"], prefix="blue")
    with pytest.raises(InvalidQueueName):
        user_of(["worker"], prefix="blue", queues=["foos}:* ~*"])


def test_a_script_names_its_commands() -> None:
    """The commands that it calls, and those in its tables; not its reply."""
    assert scripts.load("resume").commands == {"zcard", "llen", "hdel", "rpush"} | {"hget", "xadd", "hset"}
    assert "ok" not in scripts.load("commit").commands
    assert "zadd" in scripts.load("park").commands


def refused(redis: Connection, *command: str | int) -> None:
    """Expect that a command is not run: denied, or not known to this server."""
    with pytest.raises(RedisRefused, match=r"denied|unknown command|DEBUG command not allowed"):
        redis.execute(*command)


def by_hash(redis: Connection, source: str, *keys: str) -> None:
    """Expect that a script of one's own is stopped at the key."""
    redis.execute("SCRIPT", "LOAD", source)
    with pytest.raises(RedisRefused, match="denied user"):
        redis.execute("EVALSHA", hashlib.sha1(source.encode()).hexdigest(), len(keys), *keys)  # noqa: S324
