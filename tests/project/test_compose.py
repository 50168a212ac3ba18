"""The containers fit the code: commands parse, names resolve, and nothing is open to other machines."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from distq.cli.program import main as distq
from distq.cli.target import load_program
from distq.config import Settings
from distq.dashboard.access_policy import AccessPolicy
from distq.dashboard.users import Person, Users
from distq.redisio.connection import Connection
from distq.testing.apiserver.__main__ import main as emulator
from distq.testing.embedded_valkey import EmbeddedValkey
from tests import ROOT
from tests.support.api_servers import ApiServer
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.samples import wait_until_served
from workers.sample_controller import FOO

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
KUBECONFIG = ROOT / "deploy" / "compose-kubeconfig.yaml"


def parse(program: click.Command, words: list[str]) -> dict[str, Any]:
    """Return what the program's own parser makes of a command line; it raises for a wrong one."""
    return program.make_context(program.name, list(words)).params


def test_all_parts_are_there() -> None:
    """One Redis, one API server, two informers of which one leads, workers, and the dashboard."""
    scale = {name: service.get("scale", 1) for name, service in SERVICES.items()}
    assert scale == {"redis": 1, "apiserver": 1, "informer": 2, "worker": 3, "dashboard": 1}


def test_ports_are_published_to_this_machine_only() -> None:
    """No service can be reached from another machine."""
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []
    assert [name for name, service in SERVICES.items() if "network_mode" in service] == []


def test_the_dashboard_has_a_network_and_a_login_of_its_own() -> None:
    """It reaches Redis and no other service, and lets in the users of the mounted file: here demo."""
    networks = {name: service.get("networks", ["default"]) for name, service in SERVICES.items()}
    assert networks["dashboard"] == ["dashboard"]
    assert [name for name, on in networks.items() if "dashboard" in on] == ["redis", "dashboard"]
    command, *arguments = SERVICES["dashboard"]["command"]
    choices = parse(distq.commands[command], arguments)
    (mount,) = SERVICES["dashboard"]["volumes"]
    assert mount == f"${{DISTQ_DASHBOARD_USERS:-./deploy/compose-users}}:{choices['users']}:ro"
    users = Users(ROOT / "deploy" / "compose-users")
    assert users.check("demo", "demo") == Person("demo", "operator")
    AccessPolicy(users=users).require_bindable(choices["bind"].rpartition(":")[0])


@pytest.mark.parametrize("name", ["informer", "worker", "dashboard"])
def test_commands_are_distqs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command line is one that distq understands, with settings that it accepts."""
    service = SERVICES[name]
    monkeypatch.setenv("KUBECONFIG", "")  # the option sets it
    command, *arguments = [word.replace("/kubeconfig", str(KUBECONFIG)) for word in service["command"]]
    parameters = parse(distq.commands[command], arguments)
    Settings.from_env(service["environment"])
    if "target" in parameters:
        assert [controller.name for controller in load_program(parameters["target"]).controllers] == ["foos"]
        assert os.environ["KUBECONFIG"] == str(KUBECONFIG)


def test_the_default_cluster_is_the_emulated_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without DISTQ_KUBECONFIG controllers find the API server by its service's name, with its CRD loaded."""
    monkeypatch.chdir(ROOT)
    apiserver = SERVICES["apiserver"]
    assert apiserver["entrypoint"] == ["python", "-m", "distq.testing.apiserver"]
    parameters = parse(emulator, apiserver["command"])
    assert parameters["host"] == "0.0.0.0"  # noqa: S104  compared, not bound
    assert parameters["manifests"] == (Path("workers/sample-controller-crd.yaml"),)
    (cluster,) = yaml.safe_load(KUBECONFIG.read_text())["clusters"]
    assert cluster["cluster"]["server"] == f"http://apiserver:{parameters['port']}"
    assert f"127.0.0.1:{parameters['port']}:{parameters['port']}" in apiserver["ports"]
    (mount,) = SERVICES["worker"]["volumes"]
    assert mount == f"${{DISTQ_KUBECONFIG:-./{KUBECONFIG.relative_to(ROOT)}}}:/kubeconfig:ro"


def test_every_service_has_a_health_check() -> None:
    """Containers whose process hangs are seen; what answers is inside, so no port is published for it."""
    assert [name for name, service in SERVICES.items() if not service["healthcheck"]["test"]] == []


@pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True)
@pytest.mark.parametrize("api_server", ["emulator"], indirect=True)
@pytest.mark.parametrize("name", ["informer", "worker"])
def test_health_checks_show_whether_a_process_works(
    name: str, connection: Connection, redis_server: EmbeddedValkey, api_server: ApiServer
) -> None:
    """The check of a controller's service passes once it is ready, and fails where no process answers."""
    client = api_server.client()
    client.apply(yaml.safe_load((ROOT / "workers" / "sample-controller-crd.yaml").read_text()))
    wait_until_served(client, FOO)
    service = SERVICES[name]
    port = str(free_port())
    how, program, *arguments = service["healthcheck"]["test"]
    assert (how, program) == ("CMD", "python")
    look = [sys.executable, *(word.replace("8080", port) for word in arguments)]

    def is_healthy() -> bool:
        return subprocess.run(look, stderr=subprocess.DEVNULL, check=False).returncode == 0

    assert not is_healthy()
    own = {name: value for name, value in os.environ.items() if not name.startswith(("DISTQ_", "KUBE"))}
    settings = service["environment"] | {"DISTQ_REDIS_URL": redis_server.url}
    settings["DISTQ_HTTP_ADDRESS"] = settings["DISTQ_HTTP_ADDRESS"].replace("8080", port)
    command = [word.replace("/kubeconfig", str(api_server.kubeconfig)) for word in service["command"]]
    process = subprocess.Popen([sys.executable, "-m", "distq", *command], cwd=ROOT, env=own | settings)
    try:
        eventually(is_healthy, "it is healthy", timeout=90)
    finally:
        process.kill()
        process.wait()


def test_redis_keeps_and_never_evicts() -> None:
    """Redis writes an append-only file to a volume and refuses instead of evicting."""
    command = " ".join(SERVICES["redis"]["command"])
    assert "--appendonly yes" in command
    assert "--maxmemory-policy noeviction" in command
    assert SERVICES["redis"]["volumes"] == ["redis:/data"]
    assert "redis" in COMPOSE["volumes"]


def test_services_come_back_and_end_in_peace() -> None:
    """A service that stops too early is started again, and SIGKILL leaves more than the grace period."""
    for service in SERVICES.values():
        assert service["restart"] == "unless-stopped"
        assert float(service["stop_grace_period"].removesuffix("s")) > Settings().grace_period


def test_the_image_is_built_from_existing_files() -> None:
    """The Dockerfile copies what exists and what .dockerignore lets through, and runs as an ordinary user."""
    dockerfile = (ROOT / "Dockerfile").read_text()
    copied = {
        source
        for sources in re.findall(r"^COPY (?!--from)(.+) \S+$", dockerfile, re.MULTILINE)
        for source in sources.split()
    }
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert copied == {line.removeprefix("!") for line in ignored if line.startswith("!")}
    assert [source for source in copied if not (ROOT / source).exists()] == []
    assert re.search(r"^USER 1000:1000$", dockerfile, re.MULTILINE)
    assert [name for name, service in SERVICES.items() if service.get("build")] == ["apiserver"]
