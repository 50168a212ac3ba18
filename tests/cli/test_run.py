"""Running controllers: signals and exit statuses, log lines, and the check before it."""

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import urllib3

from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.testing import EmulatedApiServer
from distq.workqueue.queue import Queue
from tests.cli.conftest import CommandLine

WORKER = """
from distq import Controller

def reconcile(request):
    if "bad" in request.key:
        raise ValueError("no\\x1b[31m")

controller = Controller("foos", reconcile)
"""
WATCHER = """
from distq import Controller, For

controller = Controller("foos", lambda request: None, watches=[For("v1/ConfigMap")])
"""


def _wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_worker_stops_on_signals(
    distq: CommandLine, redis: Connection, number: signal.Signals, status: int
) -> None:
    """SIGTERM is an order that was carried out; Ctrl-C is an interruption; both leave nothing behind."""
    distq.module("foos", WORKER)
    process = distq.start("worker", "foos", "--concurrency", "3")
    inspector = Inspector(redis)
    _wait_for(lambda: inspector.workers("foos"))
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert process.returncode == status
    assert "Traceback" not in said
    assert "3 at a time" in said
    assert inspector.workers("foos") == []


def test_failures_are_logged_as_json(distq: CommandLine, redis: Connection) -> None:
    """With ``--log-format json`` each line on stderr is an object, and nothing else is said."""
    distq.module("foos", WORKER)
    Queue("foos", redis).add("default/bad")
    process = distq.start("worker", "foos", "--log-format", "json")
    inspector = Inspector(redis)
    _wait_for(lambda: (item := inspector.item("foos", "default/bad")) and item.failures)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=30)
    lines = [json.loads(line) for line in said.splitlines()]
    assert all({"time", "level", "logger", "message"} <= set(line) for line in lines)
    failure = next(line for line in lines if line["level"] == "warning")
    assert "default/bad attempt 1 failed: ValueError" in failure["message"]
    assert "\x1b" not in said


def test_run_feeds_and_works_in_one_process(distq: CommandLine, redis: Connection, tmp_path: Path) -> None:
    """Informer and workers together; the Lease is named after the target."""
    distq.module("my_foos", WATCHER)
    with EmulatedApiServer() as server:
        kubeconfig = str(server.kubeconfig(tmp_path / "kubeconfig"))
        process = distq.start("run", "my_foos", "--kubeconfig", kubeconfig)
        inspector = Inspector(redis)
        _wait_for(lambda: any(stream.synced for stream in inspector.streams("foos")))
        (stream,) = [json.loads(line) for line in distq("leader", "foos", "--json").stdout.splitlines()]
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
        paths = [request.path for request in server.requests]
    assert process.returncode == 0, said
    assert (stream["resource"], stream["synced"], stream["lists"]) == ("v1/ConfigMap", True, 1)
    assert any(path.endswith("/leases/distq-my-foos") for path in paths)
    assert "1 watch: v1/ConfigMap" in said


def test_check_tells_what_is_wrong(distq: CommandLine, redis: Connection, tmp_path: Path) -> None:
    """All findings are told; exit 1 when one is a FAIL."""
    distq.module("foos", WATCHER.replace("v1/ConfigMap", "example.com/v1/Foo"))
    distq.module("maps", WATCHER)
    done = distq("check")
    assert done.returncode == 0, done.stdout
    assert "OK    maxmemory-policy noeviction" in done.stdout
    assert "WARN  no cluster: KUBECONFIG unset" in done.stdout
    with EmulatedApiServer() as server:
        kubeconfig = str(server.kubeconfig(tmp_path / "kubeconfig"))
        done = distq("check", "maps", KUBECONFIG=kubeconfig)
        assert done.returncode == 0, done.stdout
        assert "OK    may list and watch v1/ConfigMap" in done.stdout
        done = distq("check", "foos", "--json", KUBECONFIG=kubeconfig)
        findings = [json.loads(line) for line in done.stdout.splitlines()]
        assert (done.returncode, findings[-1]["level"]) == (1, "FAIL")
        assert done.stderr == "distq: 1 problem\n"
    assert distq("check", DISTQ_REDIS_URL="redis://127.0.0.1:1").returncode == 1


def test_the_dashboard_serves_until_it_is_stopped(distq: CommandLine) -> None:
    """It says where, and refuses what would let others in."""
    process = distq.start("dashboard", "--bind", "127.0.0.1:0")
    assert process.stderr is not None
    url = next(word for word in process.stderr.readline().split() if word.startswith("http"))
    assert urllib3.request("GET", url, timeout=10).status == 200
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
    done = distq("dashboard", "--bind", "0.0.0.0:9181")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert distq("dashboard", "--bind", "localhost:http").returncode == 2
