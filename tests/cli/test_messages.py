"""Each mistake gets one line that names the remedy, word for word, exit status 2 and no traceback."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from distq.redisio.connection import Connection
from distq.testing import EmulatedApiServer
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.queue import Queue
from tests.cli.conftest import CommandLine

CONTROLLER = """
from distq import Controller, For

def reconcile(request):
    pass

controller = Controller("foos", reconcile, watches=[For("example.com/v1/Foo")])
"""


def _fails(distq: CommandLine, message: str, *arguments: str, **settings: str) -> None:
    done = distq(*arguments, **settings)
    assert done.stderr.splitlines()[-1] == f"distq: {message}"
    assert "Traceback" not in done.stderr
    assert (done.returncode, done.stdout) == (2, "")


def test_no_redis(distq: CommandLine) -> None:
    """The default address refuses connections, and the variable is unset."""
    del distq.environment["DISTQ_REDIS_URL"]
    import socket

    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", 6379)) == 0:
            pytest.skip("something listens on port 6379")
    _fails(
        distq,
        "no Redis at 127.0.0.1:6379 (DISTQ_REDIS_URL unset): connection refused. "
        'Set it or try "distq sandbox".',
        "queues",
    )


def test_wrong_password(distq: CommandLine, redis: Connection, valkey: EmbeddedValkey) -> None:
    """The user is named, the password is not."""
    redis.execute("ACL", "SETUSER", "worker", "on", ">right", "~*", "+@all")
    _fails(
        distq,
        f'Redis at 127.0.0.1:{valkey.port} refused user "worker": wrong password. Check DISTQ_REDIS_URL.',
        "queues",
        DISTQ_REDIS_URL=f"redis://worker:secret-word@127.0.0.1:{valkey.port}/0",
    )


def test_a_server_that_evicts(distq: CommandLine, redis: Connection, valkey: EmbeddedValkey) -> None:
    """A cache is no queue."""
    redis.execute("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        _fails(
            distq,
            f"Redis at 127.0.0.1:{valkey.port} may evict work: maxmemory-policy allkeys-lru. Set noeviction.",
            "add",
            "foos",
            "default/web",
        )
    finally:
        redis.execute("CONFIG", "SET", "maxmemory-policy", "noeviction")
    assert redis.execute("DBSIZE") == 0


def test_unknown_scheme(distq: CommandLine) -> None:
    """The schemes that there are are named."""
    _fails(
        distq,
        'bad DISTQ_REDIS_URL: unknown scheme "http". '
        "Use redis, rediss, unix, redis+sentinel, rediss+sentinel, redis+cluster or rediss+cluster.",
        "queues",
        DISTQ_REDIS_URL="http://db:6379",
    )


def test_no_scheme(distq: CommandLine) -> None:
    """An address alone is no URL, and the text before its port may be half a password."""
    _fails(
        distq,
        "bad DISTQ_REDIS_URL: no scheme. Begin it with redis:// or rediss://.",
        "queues",
        DISTQ_REDIS_URL="db:6379",
    )


@pytest.mark.parametrize(
    ("arguments", "variables", "says"),
    [
        (
            "worker foos --grace-period soon",
            {},
            "Invalid value for '--grace-period': 'soon' is no duration. Give",
        ),
        (
            "worker foos",
            {"DISTQ_GRACE_PERIOD": "soon"},
            'bad DISTQ_GRACE_PERIOD: "soon" is not a number of seconds, such',
        ),
    ],
)
def test_no_duration(distq: CommandLine, arguments: str, variables: dict[str, str], says: str) -> None:
    """The same forms are right in an option and in its variable."""
    done = distq(*arguments.split(), **variables)
    assert (done.returncode, done.stderr[: len(says) + 7]) == (2, f"distq: {says}")
    shown = distq(
        "worker", "foos", "--show-config", "--grace-period", "1m", DISTQ_LEASE_DURATION="30s"
    ).stdout
    assert re.search(r"grace_period +60\.0", shown), shown
    assert re.search(r"lease_duration +30\.0", shown), shown


def test_no_module(distq: CommandLine) -> None:
    """Where it was looked for is said."""
    _fails(
        distq,
        f'no module "foos": not in {distq.folder} nor on sys.path. Run distq in the folder of foos.py.',
        "worker",
        "foos",
    )


def test_no_controller(distq: CommandLine) -> None:
    """A module without a Controller runs nothing."""
    distq.module("foos", "x = 1\n")
    _fails(
        distq,
        "nothing to run: foos has no Controller. Bind one: controller = Controller(...).",
        "worker",
        "foos",
    )


def test_no_cluster(distq: CommandLine) -> None:
    """An informer needs an API server."""
    distq.module("foos", CONTROLLER)
    _fails(
        distq,
        'no cluster: KUBECONFIG unset, no ~/.kube/config, not in a pod. Set it or try "distq sandbox".',
        "informer",
        "foos",
    )


def test_unknown_resource(distq: CommandLine, tmp_path: Path) -> None:
    """A CRD that is not there is not waited for."""
    distq.module("foos", CONTROLLER)
    with EmulatedApiServer() as server:
        kubeconfig = str(server.kubeconfig(tmp_path / "kubeconfig"))
        _fails(
            distq,
            "foos.py:7: cannot watch example.com/v1/Foo: unknown to the API server. Apply its CRD first.",
            "informer",
            "foos",
            "--kubeconfig",
            kubeconfig,
        )


@pytest.mark.parametrize(
    "key", ["", "a\nb", "\x1b[31m", "k" * 1025], ids=["empty", "newline", "escape", "long"]
)
def test_bad_keys_are_refused_and_nothing_is_written(distq: CommandLine, redis: Connection, key: str) -> None:
    """Not even the good key beside the bad one goes in."""
    done = distq("add", "foos", "good", key)
    assert done.returncode == 2
    assert done.stderr.startswith("distq: bad key ")
    assert done.stderr.count("\n") == 1
    assert "\x1b" not in done.stderr
    assert redis.execute("DBSIZE") == 0


@pytest.mark.parametrize("queue", ["a b", "-a", "", "q" * 64])
def test_bad_queue_names_are_refused(distq: CommandLine, redis: Connection, queue: str) -> None:
    """Names that could not be keys, files or labels never get in."""
    done = distq("add", "--", queue, "key")
    assert done.returncode == 2
    assert done.stderr.startswith("distq: bad queue name")
    assert redis.execute("DBSIZE") == 0


def test_a_newer_layout_is_refused(distq: CommandLine, redis: Connection) -> None:
    """What a newer distq wrote is not touched by an older one."""
    redis.execute("HSET", "distq:{foos}:meta", "layout", 99)
    done = distq("add", "foos", "key")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "layout 99" in done.stderr
    assert "Upgrade distq" in done.stderr
    assert redis.execute("KEYS", "*") == [b"distq:{foos}:meta"]


def test_usage_errors_are_one_line(distq: CommandLine) -> None:
    """A wrong option names the help."""
    done = distq("queues", "--colour")
    assert done.returncode == 2
    assert done.stderr.startswith("distq: No such option")
    assert done.stderr.rstrip().endswith('Try "distq queues --help".')
    assert done.stderr.count("\n") == 1
    assert distq("no-such-command").returncode == 2


def test_without_a_command_the_help_is_shown(distq: CommandLine) -> None:
    """The first thing that anyone types lists the commands, a line each."""
    done = distq()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: distq [OPTIONS] COMMAND")
    assert "\n  sandbox " in done.stderr


@pytest.mark.parametrize(
    ("variable", "value"),
    [("DISTQ_CONCURRENCY", "many"), ("DISTQ_LEASE_DURATION", "1"), ("DISTQ_LOG_LEVEL", "loud")],
)
def test_bad_settings_are_refused(distq: CommandLine, variable: str, value: str) -> None:
    """Settings that cannot work fail before anything starts."""
    done = distq("worker", "foos", **{variable: value})
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("distq: bad ")


@pytest.mark.parametrize("command", [("items", "foos"), ("requeue", "foos", "--state", "dead", "--yes")])
def test_a_match_that_is_no_text_is_refused(
    distq: CommandLine, redis: Connection, command: Sequence[str]
) -> None:
    """A byte of another encoding, as a terminal may send it, is one line, and nothing is asked of Redis."""
    Queue("foos", redis).add("a")
    result = distq(*command, "--match", os.fsdecode(b"\xff*"))
    assert result.returncode == 2
    assert result.stderr.startswith("distq: nothing sent to Redis at ")
    assert result.stderr.endswith(
        r": '\udcff*' is no text that UTF-8 can hold. Give plain text and numbers." + "\n"
    )


@pytest.mark.parametrize("of", [(), ("--match", "*a*"), ("--all",)])
def test_no_number_is_too_large_to_list_from_or_to(
    distq: CommandLine, redis: Connection, of: Sequence[str]
) -> None:
    """A limit or an offset beyond what a machine counts to is as far as anything goes."""
    queue, many = Queue("foos", redis), "9" * 30
    queue.add("a")
    assert distq("items", "foos", "--limit", many, *of).stdout.splitlines()[1:] != []
    beyond = distq("items", "foos", "--limit", many, "--offset", many, *of)
    assert (beyond.returncode, beyond.stdout, beyond.stderr) == (0, "", "0 items\n")
    queue.close()


def test_a_limit_that_is_no_whole_number_is_a_usage_error(distq: CommandLine) -> None:
    """Also one that looks like a number."""
    result = distq("items", "foos", "--limit", "9e29")
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
