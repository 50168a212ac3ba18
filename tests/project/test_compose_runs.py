"""The compose file runs as a whole, in a container engine.

It needs podman, podman-compose and the images that ``.ci/image`` builds. Where no engine can start
containers, ``DISTQ_TEST_NO_CONTAINERS`` says why.
"""

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from distq.client import Client
from distq.inspector import Inspector
from tests import ROOT
from tests.support.eventually import eventually
from tests.support.parts import missing
from tests.support.ports import free_port

PROJECT = f"distq-tests-{os.getpid()}"
"""Of this run alone: the engine's DNS server keeps the names and addresses of a run that was killed."""

SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
PORTS = ("6379", "8001", "9181")
"""Those of this machine that the compose file names; a test takes others, which are free."""

pytestmark = pytest.mark.timeout(400)


def run_quietly(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a program, and keep what it prints."""
    return subprocess.run(words, capture_output=True, text=True, check=False)


def podman(*words: str, check: bool = True) -> str:
    """Return what podman printed."""
    done = run_quietly("podman", *words)
    assert not check or done.returncode == 0, done.stderr
    return done.stdout


class Fleet:
    """The services of the compose file; ``ports`` are those of this machine, by those that it names."""

    def __init__(self, folder: Path) -> None:
        self.ports = {port: str(free_port()) for port in PORTS}
        text = (ROOT / "docker-compose.yml").read_text().replace("./deploy/", f"{ROOT}/deploy/")
        text = text.replace("${REDIS_PORT:-6379}", "6379")
        for named, port in self.ports.items():
            text = text.replace(f"127.0.0.1:{named}:", f"127.0.0.1:{port}:")
        self._file = folder / "docker-compose.yml"
        self._file.write_text(text)

    def compose(self, *words: str) -> None:
        """Let podman-compose do something with them."""
        program = [sys.executable, "-m", "podman_compose", "-p", PROJECT, "-f", str(self._file)]
        done = run_quietly(*program, *words)
        assert done.returncode == 0, done.stderr


def containers(service: str) -> list[str]:
    """Return the containers of a service that run."""
    return podman("ps", "-q", "--filter", f"label=com.docker.compose.service={service}", "--filter",
                  f"label=com.docker.compose.project={PROJECT}").split()  # fmt: skip


def is_healthy(container: str) -> bool:
    """Return what the container's own check says."""
    return run_quietly("podman", "healthcheck", "run", container).returncode == 0


def settings(container: str) -> dict[str, Any]:
    """Return what the engine has made of a service's limits."""
    (found,) = json.loads(podman("inspect", container))
    host: dict[str, Any] = found["HostConfig"]
    return host


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Start all services, and remove what they left."""
    if reason := os.environ.get("DISTQ_TEST_NO_CONTAINERS"):
        pytest.skip(f"no container can be started here: {reason}")
    if shutil.which("podman") is None or os.geteuid() != 0:
        missing("no podman, or not root: the compose file is not run")
    if not podman("images", "-q", "localhost/distq"):
        missing("no image distq in podman's storage: .ci/image")
    if run_quietly(sys.executable, "-m", "podman_compose", "--version").returncode:
        missing("no podman-compose: pip install -e '.[ci]'")
    started = run_quietly("podman", "run", "--rm", "--entrypoint", "/bin/true", "localhost/distq")
    if started.returncode:
        why = started.stderr.strip().rpartition("\n")[2]
        missing(f"podman starts no container (set CONTAINERS_CONF=.ci/containers.conf?): {why:.200}")
    fleet = Fleet(tmp_path)
    try:
        fleet.compose("up", "--detach", "--no-build")
        yield fleet
    finally:
        fleet.compose("down", "--volumes", "--timeout", "5")


@pytest.fixture
def client(fleet: Fleet, tmp_path: Path) -> Client:
    """Return a Client of the published API server."""
    text = (ROOT / "deploy" / "compose-kubeconfig.yaml").read_text()
    file = tmp_path / "kubeconfig"
    file.write_text(text.replace("apiserver:8001", f"127.0.0.1:{fleet.ports['8001']}"))
    return Client(file)


def create(client: Client, name: str) -> None:
    """Create a Foo, and wait until its Deployment is there."""
    foo = yaml.safe_load((ROOT / "workers" / "sample-foo.yaml").read_text())
    foo["metadata"]["name"] = name
    foo["spec"]["deploymentName"] = name
    client.apply(foo)
    eventually(
        lambda: client.get("apps/v1/Deployment", f"default/{name}"), f"{name} is reconciled", timeout=90
    )


def test_the_fleet_of_the_compose_file_works_and_outlives_kills(fleet: Fleet, client: Client) -> None:
    """All get healthy, within limits; with leader and two workers killed, Foos are reconciled still."""
    for service, described in SERVICES.items():
        found = containers(service)
        assert len(found) == described.get("scale", 1), service
        for container in found:
            eventually(partial(is_healthy, container), f"{service} is healthy", timeout=150)
            limits = settings(container)
            assert limits["Memory"] == 512 * 2**20
            assert limits["PidsLimit"] == 256
            assert service == "redis" or limits["ReadonlyRootfs"]
    create(client, "first")
    inspector = Inspector(f"redis://127.0.0.1:{fleet.ports['6379']}/0")
    (stream, _) = inspector.streams("foos")
    leader = str(stream.leader)
    informers = {
        podman("inspect", "--format", "{{.Config.Hostname}}", each).strip(): each
        for each in containers("informer")
    }
    podman(
        "kill", next(each for host, each in informers.items() if host in leader), *containers("worker")[:2]
    )
    create(client, "second")
    with urllib.request.urlopen(f"http://127.0.0.1:{fleet.ports['9181']}/", timeout=10) as page:
        assert "Log in" in page.read().decode()
