"""Two programs on one queue: the second one ends at its start, with both named, and no key goes astray."""

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from distq.client import Client
from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.testing import EmulatedApiServer
from distq.workqueue.queue import Queue
from tests.cli.conftest import TIMEOUT, CommandLine, distq, imported_program, redis, valkey  # noqa: F401  fixtures
from tests.support.api_servers import write_kubeconfig
from tests.support.eventually import eventually
from tests.support.parts import program
from tests.support.samples import config_map

PROGRAM = """
from distq import Controller, For, Queue

def reconcile(request):
    with open("reconciled", "a") as journal:
        journal.write("{name} " + request.key + "\\n")

queue = Queue("foos", claim_duration=3.0)
controller = Controller(queue, reconcile, watches=[For("{resource}")]{more})
"""
ENDING = " Give the queue another name, each installation its DISTQ_PREFIX, or the Controller shared=True.\n"


class Programs:
    """Programs of the queue foos, beside an API server."""

    def __init__(self, command_line: CommandLine, client: Client, kubeconfig: Path) -> None:
        self.distq = command_line
        self.client = client
        self.kubeconfig = kubeconfig
        self.running: list[subprocess.Popen[str]] = []

    def start(
        self, name: str, resource: str, *, side: str = "run", more: str = "", kubeconfig: Path | None = None
    ) -> "subprocess.Popen[str]":
        """Start a program that writes down what it reconciles."""
        self.distq.module(name, PROGRAM.format(name=name, resource=resource, more=more))
        process = self.distq.start(side, name, "--kubeconfig", str(kubeconfig or self.kubeconfig))
        self.running.append(process)
        return process

    def reconciled(self) -> list[str]:
        """Return which program reconciled which keys."""
        journal = self.distq.folder / "reconciled"
        return journal.read_text().splitlines() if journal.exists() else []

    def refused(self, process: "subprocess.Popen[str]") -> str:
        """Wait for the end of a program that was refused; return what it said last."""
        _, said = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 2, said
        assert "Traceback" not in said
        return said.splitlines(keepends=True)[-1]


@pytest.fixture
def programs(distq: CommandLine, tmp_path: Path) -> Iterator[Programs]:  # noqa: F811  the fixture
    """Give programs and an API server; all started processes end."""
    with EmulatedApiServer() as server:
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
        programs = Programs(distq, Client(kubeconfig), kubeconfig)
        yield programs
        for process in programs.running:
            process.kill()
            process.communicate()


def create(client: Client, kind: str, name: str) -> None:
    """Create a ConfigMap or a Secret."""
    client.create({**config_map("default", name), "kind": kind, "data": {}})


@pytest.mark.first_contact(8)
def test_the_second_program_ends_and_no_key_goes_astray(programs: Programs, redis: Connection) -> None:  # noqa: F811
    """A controller of ConfigMaps got a Secret's key, in silence."""
    programs.start("maps", "v1/ConfigMap")
    create(programs.client, "ConfigMap", "a-map")
    eventually(lambda: "maps default/a-map" in programs.reconciled())
    create(programs.client, "Secret", "a-secret")
    line = programs.refused(programs.start("passwords", "v1/Secret"))
    assert line.startswith("distq: queue foos is taken: ")
    assert " is on it for v1/ConfigMap, this process for v1/Secret." in line
    assert line.endswith(ENDING)
    create(programs.client, "ConfigMap", "another-map")
    eventually(lambda: "maps default/another-map" in programs.reconciled())
    assert not any("secret" in each for each in programs.reconciled())
    (worker,) = Inspector(redis).workers("foos")
    assert (worker.pid, worker.resource) == (programs.running[0].pid, "v1/ConfigMap")


@pytest.mark.first_contact(8)
def test_a_foreign_informer_ends_before_it_feeds_anything(programs: Programs, redis: Connection) -> None:  # noqa: F811
    """It opens no session, and looks nevertheless: at workers, and at the informer that feeds the queue."""
    worker = programs.start("maps", "v1/ConfigMap", side="worker")
    eventually(lambda: Inspector(redis).workers("foos"))
    create(programs.client, "Secret", "a-secret")
    line = programs.refused(programs.start("passwords", "v1/Secret", side="informer"))
    assert f"(pid {worker.pid} on " in line
    programs.start("more_maps", "v1/ConfigMap", side="informer")
    eventually(lambda: Inspector(redis).streams("foos"))
    worker.send_signal(signal.SIGTERM)
    worker.wait(TIMEOUT)
    line = programs.refused(programs.start("passwords", "v1/Secret", side="informer"))
    assert "queue foos is taken: the informer " in line
    assert [stream.resource for stream in Inspector(redis).streams("foos")] == ["v1/ConfigMap"]
    assert not any("secret" in item.key for item in Inspector(redis).items("foos"))


def test_a_program_that_shares_the_queue_gets_the_keys_of_others(programs: Programs) -> None:
    """It was asked for: no program is refused, in any order."""
    programs.start("maps", "v1/ConfigMap")
    create(programs.client, "ConfigMap", "a")
    eventually(lambda: "maps default/a" in programs.reconciled())
    both = programs.start("both", "v1/Secret", more=", shared=True")
    create(programs.client, "Secret", "b")
    eventually(lambda: any(each.endswith(" default/b") for each in programs.reconciled()))
    later = programs.start("later_maps", "v1/ConfigMap", side="worker")
    programs.running[0].send_signal(signal.SIGTERM)
    programs.running[0].wait(TIMEOUT)
    both.send_signal(signal.SIGSTOP)
    create(programs.client, "ConfigMap", "c")
    Queue("foos", programs.distq.environment["DISTQ_REDIS_URL"]).add("default/d")
    eventually(lambda: "later_maps default/d" in programs.reconciled())
    assert later.poll() is None


def test_a_killed_program_stops_no_other(programs: Programs) -> None:
    """What it left lapses, and its successor for something else begins without being asked twice."""
    killed = programs.start("maps", "v1/ConfigMap", side="worker")
    Queue("foos", programs.distq.environment["DISTQ_REDIS_URL"]).add("default/a")
    eventually(lambda: "maps default/a" in programs.reconciled())
    killed.kill()
    killed.wait()
    heir = programs.start("passwords", "v1/Secret", side="worker")
    Queue("foos", programs.distq.environment["DISTQ_REDIS_URL"]).add("default/b")
    eventually(lambda: "passwords default/b" in programs.reconciled())
    assert heir.poll() is None


def test_the_same_resource_of_two_clusters(programs: Programs, redis: Connection, tmp_path: Path) -> None:  # noqa: F811
    """The certificates of a kubeconfig identify the cluster; a worker asks no API server for that."""
    openssl, kubeconfigs = program("openssl", package="openssl"), []
    for name in ("staging", "production"):
        made = [*("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}")]
        files = ["-keyout", str(tmp_path / f"{name}.key"), "-out", str(tmp_path / f"{name}.crt")]
        subprocess.run([openssl, *made, *files], check=True, capture_output=True)
        kubeconfigs.append(tmp_path / name)
        cluster = {"server": "https://127.0.0.1:1", "certificate-authority": f"{name}.crt"}
        write_kubeconfig(kubeconfigs[-1], cluster=cluster, user={})
    staging, production = (each.authorities()[0] for each in map(Client, kubeconfigs))
    programs.start("maps", "v1/ConfigMap", side="worker", kubeconfig=kubeconfigs[0])
    eventually(lambda: Inspector(redis).workers("foos"))
    line = programs.refused(programs.start("maps", "v1/ConfigMap", side="worker", kubeconfig=kubeconfigs[1]))
    named = f"for v1/ConfigMap of cluster {staging}, this process for v1/ConfigMap of cluster {production}."
    assert named in line
    programs.start("maps", "v1/ConfigMap", side="worker", kubeconfig=kubeconfigs[0])
    eventually(lambda: len(Inspector(redis).workers("foos")) == 2)
    listed = [json.loads(each) for each in programs.distq("workers", "foos", "--json").stdout.splitlines()]
    assert [each["resource"] for each in listed] == ["v1/ConfigMap"] * 2
