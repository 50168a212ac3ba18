"""Running controllers: signals and exit statuses, log lines, and the check before it."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from distq.cli import program
from distq.client import Client
from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.testing import EmulatedApiServer
from distq.workqueue.queue import Queue
from tests.cli.conftest import CommandLine
from tests.support.api_servers import RealApiServer, write_kubeconfig
from tests.support.eventually import eventually

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


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 0), (signal.SIGHUP, 0), (signal.SIGINT, 130)]
)
def test_a_worker_stops_on_signals(
    distq: CommandLine, redis: Connection, number: signal.Signals, status: int
) -> None:
    """SIGTERM and SIGHUP are orders that were carried out; Ctrl-C interrupts; none leaves anything behind."""
    distq.module("foos", WORKER)
    process = distq.start("worker", "foos", "--concurrency", "3")
    inspector = Inspector(redis)
    eventually(lambda: inspector.workers("foos"))
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert process.returncode == status
    assert "Traceback" not in said
    assert "3 at a time" in said
    assert inspector.workers("foos") == []


@pytest.mark.first_contact(9)
def test_failures_are_logged_as_json(distq: CommandLine, redis: Connection) -> None:
    """With ``--log-format json`` each line on stderr is an object, and nothing else is said."""
    distq.module("foos", WORKER)
    Queue("foos", redis).add("default/bad")
    process = distq.start("worker", "foos", "--log-format", "json")
    inspector = Inspector(redis)
    eventually(lambda: (item := inspector.item("foos", "default/bad")) and item.failures)
    (worker,) = inspector.workers("foos")
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=30)
    lines = [json.loads(line) for line in said.splitlines()]
    assert all({"time", "level", "logger", "message"} <= set(line) for line in lines)
    failure = next(line for line in lines if line["level"] == "warning")
    assert "default/bad attempt 1 failed: ValueError" in failure["message"]
    assert "\x1b" not in said
    assert (failure["queue"], failure["key"], failure["worker"]) == ("foos", "default/bad", worker.name)
    assert "foos.py" in failure["traceback"]


@pytest.mark.first_contact(9)
@pytest.mark.parametrize(
    ("flags", "heard"),
    [((), "info"), (("-v",), "info distq"), (("-vv",), "info distq library"), (("--log-level", "error"), "")],
)
def test_verbose_is_for_distq_and_twice_for_all_libraries(
    distq: CommandLine, redis: Connection, flags: Sequence[str], heard: str
) -> None:
    """A user who looks for the steps of distq does not have to read the lines of every library."""
    distq.module(
        "foos",
        """
import logging
from distq import Controller

logging.getLogger("distq").debug("heard: distq")
logging.getLogger("urllib3").debug("heard: library")
logging.getLogger("urllib3").info("heard: library")
logging.getLogger("foos").info("heard: info")
controller = Controller("foos", lambda request: None)
""",
    )
    process = distq.start("worker", "foos", *flags)
    eventually(lambda: Inspector(redis).workers("foos"))
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=30)
    words = {line.partition("heard: ")[2] for line in said.splitlines() if "heard: " in line}
    assert words == set(heard.split())


def test_run_feeds_and_works_in_one_process(distq: CommandLine, redis: Connection, tmp_path: Path) -> None:
    """Informer and workers together; the Lease is named after the target."""
    distq.module("my_foos", WATCHER)
    with EmulatedApiServer() as server:
        kubeconfig = str(server.kubeconfig(tmp_path / "kubeconfig"))
        process = distq.start("run", "my_foos", "--kubeconfig", kubeconfig)
        inspector = Inspector(redis)
        eventually(lambda: any(stream.synced for stream in inspector.streams("foos")))
        (stream,) = [json.loads(line) for line in distq("leader", "foos", "--json").stdout.splitlines()]
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
        paths = [request.path for request in server.requests]
    assert process.returncode == 0, said
    assert (stream["resource"], stream["synced"], stream["lists"]) == ("v1/ConfigMap", True, 1)
    assert any(path.endswith("/leases/distq-my-foos") for path in paths)
    assert "1 watch: v1/ConfigMap" in said


def test_check_prints_each_finding(distq: CommandLine, redis: Connection, tmp_path: Path) -> None:
    """All findings are printed; exit 1 when one is a FAIL."""
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
        assert "OK    may get and create and update the Lease default/distq-maps" in done.stdout
        done = distq("check", "foos", "--json", KUBECONFIG=kubeconfig)
        findings = [json.loads(line) for line in done.stdout.splitlines()]
        assert done.returncode == 1
        assert [each["finding"] for each in findings if each["level"] == "FAIL"] == [
            "cannot watch example.com/v1/Foo: unknown to the API server. Apply its CRD first."
        ]
        assert done.stderr == "distq: 1 problem\n"
    assert distq("check", DISTQ_REDIS_URL="redis://127.0.0.1:1").returncode == 1


@pytest.mark.parametrize("api_server", ["real"], indirect=True)  # the emulated one refuses nothing
def test_check_asks_for_the_rights_that_informers_need(
    distq: CommandLine, redis: Connection, api_server: RealApiServer, namespace: str, tmp_path: Path
) -> None:
    """A Role in the watched namespace will do; without write access to the Lease no process can lead."""
    del redis  # the one that is checked
    cluster = {"server": api_server.url, "certificate-authority": str(api_server.certificate_authority)}
    kubeconfig = tmp_path / "kubeconfig"
    write_kubeconfig(kubeconfig, cluster=cluster, user={"token": api_server.outsider_token})
    distq.module("maps", WATCHER.replace('Map")', f'Map", namespaces=["{namespace}"])'))

    def check(*lease_verbs: str) -> list[str]:
        _grant(api_server.client(), namespace, lease_verbs)
        done = distq("check", "maps", "--lease-namespace", namespace, KUBECONFIG=str(kubeconfig))
        assert done.returncode == ("FAIL" in done.stdout)
        return done.stdout.splitlines()[-2:]

    lease = f"the Lease {namespace}/distq-maps"
    watched, refused = check("get")
    assert watched == f"OK    may list and watch v1/ConfigMap in {namespace}"
    assert refused == f"FAIL  may not create or update {lease}: no informer can lead. Grant it by a Role."
    assert check("get", "create", "update")[1] == f"OK    may get and create and update {lease}"
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    api_server.client().create(body | {"metadata": {"name": "distq-maps", "namespace": namespace}})
    assert check("get", "update")[1] == f"OK    may get and update {lease}"


def _grant(client: Client, namespace: str, lease_verbs: Sequence[str]) -> None:
    """Let the outsider follow ConfigMaps in a namespace, and do with Leases what the verbs say."""
    rules = [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": list(lease_verbs)},
    ]
    group, metadata = "rbac.authorization.k8s.io", {"name": "maps", "namespace": namespace}
    named = {"apiVersion": f"{group}/v1", "metadata": metadata}
    role = {"apiGroup": group, "kind": "Role", "name": "maps"}
    subject = {"apiGroup": group, "kind": "User", "name": "outsider"}
    client.apply({**named, "kind": "Role", "rules": rules})
    client.apply({**named, "kind": "RoleBinding", "roleRef": role, "subjects": [subject]})


def test_a_program_that_calls_a_command_lives_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the command line as a program of its own is ended, even if a thread still hangs in it."""
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(program, "EXIT_TIME", 0.0)
    before = set(threading.enumerate())
    assert CliRunner().invoke(program.main, ["--version"]).exit_code == 0
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
    assert not ended


def test_spans_are_recorded_only_where_a_tracer_provider_was_set() -> None:
    """That the API is there, since redis-py imports it, asks for nothing."""
    program = (
        "from distq.cli.run import _spans; first = _spans()\n"
        "from opentelemetry import trace; second = _spans()\n"
        "from opentelemetry.sdk.trace import TracerProvider\n"
        "trace.set_tracer_provider(TracerProvider())\n"
        "print(first, second, type(_spans()).__name__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["None", "None", "OpenTelemetrySpans"]
