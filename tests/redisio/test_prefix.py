"""Installations of different prefixes share one Redis and see nothing of each other."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from distq.config import Settings, lease_name
from distq.controller.controller import Controller
from distq.controller.manager import Manager
from distq.controller.watches import For
from distq.dashboard import create_app
from distq.errors import ConfigError, Empty, TerminalError
from distq.inspector import Inspector
from distq.leaderelection import RedisLock
from distq.redisio import scripts
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.stream_store import StreamStore, stream_records
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.testing.sandbox import Sandbox
from distq.workqueue.gauges import QueueGauges
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.leaderelection.test_redis_lock import RECORD
from tests.support.eventually import eventually
from tests.support.populated import Populated

Opened = Callable[..., Connection]


@pytest.fixture
def opened(redis_server: EmbeddedValkey, connection: Connection) -> Iterator[Opened]:
    """Give what opens a Connection with a prefix to the emptied server."""
    made: list[Connection] = []

    def open_with(prefix: str, user: str | None = None) -> Connection:
        settings = Settings(prefix=prefix, redis_username=user, redis_password=user and "any")
        made.append(Connection(redis_server.url, settings=settings))
        return made[-1]

    yield open_with
    for each in made:
        each.close()


@pytest.mark.first_contact(8)
def test_two_installations_do_not_see_each_other(opened: Opened) -> None:
    """Neither items in any state nor streams, elections, gauges or pages; names may even be the same."""
    blue, green = opened("blue"), opened("green")
    with closing(Queue("foos", blue)) as queue, closing(Queue("foos", green)) as other:
        queue.add("held", "dead")
        queue.settle(queue.get(0), RuntimeError("no"))
        queue.settle(queue.get(0), TerminalError("no"))
        queue.add("ready")
        StreamStore(blue, "foos", "pods").commit(
            Commit(epoch="1", after="", new="5", batch="b", known={"a": "1"})
        )
        RedisLock("leader", blue).create(RECORD, timeout=5)

        with pytest.raises(Empty):
            other.get(0)
        assert (other.depth(), other.num_requeues("held")) == (0, 0)
        assert StreamStore(green, "foos", "pods").load() is None
        assert RedisLock("leader", green).get(timeout=5) is None
        assert not stream_records(green, "foos")
        assert not Inspector(green).items("foos")
        assert {sample[2] for sample in QueueGauges(other)() if sample[0].name == "distq_depth"} <= {0.0}
        other.add("mine")
        assert [item.key for item in Inspector(green).items("foos")] == ["mine"]
        assert {item.key for item in Inspector(blue).items("foos")} == {"held", "dead", "ready"}
        (shown,) = create_app(Inspector(green)).test_client().get("/0/data/queues.json").get_json()["queues"]
        assert (shown["name"], shown["count"]) == ("foos", 1)


def test_each_lists_its_own_queues(opened: Opened) -> None:
    """Also where one prefix begins as the other."""
    for prefix in ("distq", "distq.b"):
        queue = Queue(f"of-{prefix}", opened(prefix))
        queue.add("a")
        queue.close()
    for prefix in ("distq", "distq.b"):
        assert [info.name for info in Inspector(opened(prefix)).queues()] == [f"of-{prefix}"]


def test_every_script_stays_within_its_prefix(opened: Opened, connection: Connection) -> None:
    """Also a session's own, the streams' and an election's; Redis itself refuses what is outside."""
    connection.execute("ACL", "SETUSER", "blue", "reset", "on", "nopass", "~blue:*", "+@all")
    limited = opened("blue", user="blue")
    for script in scripts.names():
        limited.execute("FLUSHALL")
        populated = Populated(limited)
        populated.run(script, **populated.inputs(script))
        RedisLock("leader", limited).create(RECORD, timeout=5)
        assert [key for key in connection.execute("KEYS", "*") if not key.startswith(b"blue:")] == []
    connection.execute("ACL", "DELUSER", "blue")


def test_a_whole_run_stays_within_its_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Informer, workers, probes' and people's reads; the Lease is named by the prefix, too."""
    monkeypatch.setenv("DISTQ_PREFIX", "blue")
    with Sandbox() as sandbox:
        sandbox.redis.execute("ACL", "SETUSER", "blue", "reset", "on", "nopass", "~blue:*", "+@all")
        url = sandbox.valkey.url.replace("://", "://blue:any@")
        sandbox.client.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}
        )
        seen: list[str] = []

        def reconcile(request: Request) -> None:
            seen.append(request.key)

        manager = Manager(
            [Controller("foos", reconcile, watches=[For("v1/ConfigMap")])],
            redis=Connection(url),
            client=sandbox.client,
        )
        runner = threading.Thread(target=manager.run)
        runner.start()
        try:
            eventually(lambda: "default/a" in seen)
            assert [info.name for info in Inspector(url).queues()] == ["foos"]
            assert sandbox.client.get("coordination.k8s.io/v1/Lease", "default/blue-foos")
        finally:
            manager.stop()
            runner.join(30)
        assert sandbox.redis.execute("ACL", "LOG") == []
        assert {key.split(b":")[0] for key in sandbox.redis.execute("KEYS", "*")} == {b"blue"}


def test_each_prefix_has_a_lease_of_its_own() -> None:
    """Also those that differ in what the name of an object cannot show; that of most is PREFIX-PROGRAM."""
    assert lease_name("my_foos", "distq") == "distq-my-foos"
    assert lease_name("foos", "team-a") == "team-a-foos"
    names = {
        lease_name("foos", prefix)
        for prefix in ("team-a", "team.a", "team_a", "team--a", "Team-a", "team-a.")
    }
    assert len(names) == 6
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9-]*[a-z0-9]", name) for name in names)


@pytest.mark.parametrize("prefix", ["", "a:b", "{a}", "a*", "-a", "a b", "é", "a" * 64, 3, None])
def test_a_prefix_that_could_mean_other_keys_is_refused(prefix: object) -> None:
    """Before anything is sent, with what to write instead."""
    with pytest.raises(ConfigError, match=r"bad prefix: .* Use 1 to 63 letters, digits, dots"):
        Settings(prefix=prefix)  # type: ignore[arg-type]  # the point of the test


def test_without_a_prefix_keys_are_those_of_before(opened: Opened, connection: Connection) -> None:
    """So that processes of 0.1.0 and these work on one queue."""
    queue = Queue("foos", connection)
    queue.add("a")
    queue.close()
    assert set(connection.execute("KEYS", "*")) == {
        b"distq:queues",
        b"distq:{foos}:ready",
        b"distq:{foos}:meta",
        b"distq:{foos}:wake",
    }
