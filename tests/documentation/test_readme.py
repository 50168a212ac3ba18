"""The README's blocks are true: code and commands run, drawings are compared with what they stand for.

Every block has a runner, found by how its first line begins; a block without one fails.
"""

import json
import logging
import os
import re
import runpy
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, get_args

import click
import pytest
import yaml

from distq import Client, Controller, Manager, Queue
from distq.cli.program import main
from distq.config import Settings
from distq.errors import ApiError, Conflict, TerminalError, TooManyRequests
from distq.inspector import Inspector, State
from distq.redisio import keys
from distq.testing import Sandbox
from distq.workqueue.interface import Settlement
from distq.workqueue.outcome import outcome_of
from tests import ROOT
from tests.support.api_servers import RealApiServer, real_api_server_assets, write_kubeconfig

README = (ROOT / "README.md").read_text()
PROGRAMS = Path(sys.executable).parent
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = {text.partition("\n")[0]: text for _, text in BLOCK.findall(README)}
TIMEOUT = 60.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the README's files, as a reader would, into an empty directory."""
    folder = tmp_path_factory.mktemp("newcomer")
    for title, text in BLOCKS.items():
        if name := re.fullmatch(r"# (\S+\.(py|yaml))", title):
            (folder / name[1]).write_text(text)
    return folder


@pytest.fixture(scope="module")
def sandbox(folder: Path) -> Iterator[Sandbox]:
    """Start what ``distq sandbox --manifest foos.yaml`` starts, in this process."""
    with Sandbox(manifests=[folder / "foos.yaml"]) as sandbox:
        yield sandbox


class Reader:
    """Who follows the README: in a directory with its files, with the sandbox at hand."""

    def __init__(self, folder: Path, sandbox: Sandbox) -> None:
        self.folder = folder
        self.sandbox = sandbox
        own = {name: value for name, value in os.environ.items() if not name.startswith(("DISTQ_", "KUBE"))}
        self.bare = {**own, "HOME": str(folder), "PATH": f"{PROGRAMS}:{own.get('PATH', '')}"}
        self.environment = self.bare | sandbox.environment

    def run(self, *command: str, text: str = "", **environment: str) -> str:
        """Run a command to its good end; return what it printed."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=environment or self.environment,
            input=text,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert done.returncode == 0, f"{shlex.join(command)}\n{text}\n{done.stdout}{done.stderr}"
        return done.stdout

    def start(self, *command: str) -> "subprocess.Popen[str]":
        """Start a command that goes on until it is told to stop."""
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment | {"PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )


@pytest.fixture(scope="module")
def reader(folder: Path, sandbox: Sandbox) -> Reader:
    """Give someone who follows the README."""
    return Reader(folder, sandbox)


def eventually(look: Callable[[], object]) -> None:
    """Look again and again until it is so."""
    deadline = time.monotonic() + TIMEOUT
    while not look():
        assert time.monotonic() < deadline, f"not so after {TIMEOUT:g} s: {look}"
        time.sleep(0.05)


def commands(text: str) -> list[list[str]]:
    """Return the words of each command of a shell block."""
    return [words for line in text.splitlines() if (words := shlex.split(line, comments=True))]


# Code


def the_controller_works(text: str, reader: Reader) -> None:
    """Run it until its Foo has a Deployment, and again until that follows a change."""
    client = reader.sandbox.client
    controller: Controller = runpy.run_path(str(reader.folder / "foos.py"))["controller"]
    reader.sandbox.run_until_idle(controller)
    deployment = client.get("apps/v1/Deployment", "default/web")
    assert deployment is not None
    assert deployment["metadata"]["ownerReferences"][0]["name"] == "web"
    client.patch("example.com/v1/Foo", "default/web", {"spec": {"replicas": 3}})
    reader.sandbox.run_until_idle(controller)
    changed = client.get("apps/v1/Deployment", "default/web")
    assert changed is not None
    assert changed["spec"]["replicas"] == 3


def the_manifest_loads(text: str, reader: Reader) -> None:
    """Find the object in the sandbox, with its fields."""
    foo = reader.sandbox.client.get("example.com/v1/Foo", "default/web")
    assert foo is not None
    assert foo["spec"]["image"] == "nginx"


def the_users_test_passes(text: str, reader: Reader) -> None:
    """Run the test as its author would."""
    reader.run("pytest", "-q", "-p", "no:cacheprovider", "test_foos.py", **reader.bare)


def the_test_without_servers_passes(text: str, reader: Reader) -> None:
    """Run it as its author would, where no Redis is."""
    reader.run("pytest", "-q", "-p", "no:cacheprovider", "test_thumbs.py", **reader.bare)


def the_plain_worker_works(text: str, reader: Reader) -> None:
    """Let ``distq worker thumbs`` render what the producer adds, and end it by SIGTERM."""
    worker = reader.start("distq", "worker", "thumbs")
    reader.run(sys.executable, "producer.py")
    assert worker.stdout is not None
    assert worker.stdout.readline() == "rendering cat.jpg\n"
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=TIMEOUT)
    assert worker.returncode == 0


def the_loop_works(text: str, reader: Reader) -> None:
    """Run it in several threads until a failure is counted, then shut them down."""
    synced: list[str] = []

    def sync(key: str) -> None:
        synced.append(key)
        if key == "bad":
            raise ValueError("no")

    program = runpy.run_path(str(reader.folder / "loop.py"), {"sync": sync})
    queue = Queue("loop", reader.sandbox.redis)
    program["run_worker"].__globals__["queue"] = queue
    threads = [threading.Thread(target=program["run_worker"]) for _ in range(3)]
    for thread in threads:
        thread.start()
    queue.add("a", "b", "bad")
    eventually(lambda: {"a", "b"} <= set(synced) and queue.num_requeues("bad") > 1)
    queue.shut_down()
    for thread in threads:
        thread.join(TIMEOUT)
    assert queue.shut_down_with_drain(0)


def the_limiter_decides(text: str, reader: Reader) -> None:
    """Fail with each kind of error; look when the items come back, and what the 21st failure does."""
    program = runpy.run_path(str(reader.folder / "orders.py"))
    queue = program["controller"].queue
    queue.bind(reader.sandbox.redis)
    queue.add("timeout", "conflict", "busy", "asked", "other")
    errors = {
        "timeout": (TimeoutError(), 0.1),
        "conflict": (Conflict("changed"), 1.0),
        "busy": (TooManyRequests("slow down"), 5.0),
        "asked": (TooManyRequests("slow down", retry_after=60), 60.0),
        "other": (ValueError("bad"), 0.005),
    }
    inspector = Inspector(reader.sandbox.redis)
    for request in queue.turn([], len(errors)).requests:
        error, delay = errors[request.key]
        (disposition,) = queue.turn([Settlement(request, outcome_of(error))], 0).dispositions
        item = inspector.item("orders", request.key)
        assert item is not None
        assert disposition.due == pytest.approx((item.last_error_at or 0) + delay, abs=0.001)
    for _ in range(19):
        queue.add_rate_limited("asked")
    queue.add("asked")
    while (request := queue.get(TIMEOUT)).key != "asked":
        queue.settle(request)
    assert request.attempt == 21
    queue.settle(request, errors["asked"][0])
    queue.close()
    item = inspector.item("orders", "asked")
    assert item is not None
    assert (item.state, item.last_error) == ("dead", "TooManyRequests: slow down")


# Commands


def the_tour_works(text: str, reader: Reader) -> None:
    """Give the whole block to one shell, and wait where a person would."""
    needs("kubectl")
    look = "kubectl get deployment web --output jsonpath='{.spec.replicas}'"
    wait = f"until {look} | grep -q %s; do sleep 0.1; done\n"
    script = text.replace(look, wait % 5 + look).replace("kubectl patch", wait % 2 + "kubectl patch")
    output = reader.run("bash", text=script, **reader.bare)
    assert "example.com/web patched" in output
    assert re.search(r"^5", output, re.MULTILINE)
    assert re.search(r"^foos +0 ", output, re.MULTILINE)


def the_demo_keeps_its_word(text: str, reader: Reader) -> None:
    """Compare it with the line that is promised, and run its last part; the others came before any test."""
    line = "python3 -m venv .venv && .venv/bin/pip install -q -e '.[demo]' && .venv/bin/distq demo\n"
    assert text == line
    assert " 0 lost, 0 overlaps, 0 left over" in reader.run("distq", "demo", **reader.bare)


def the_tests_are_found(text: str, reader: Reader) -> None:
    """Compare it with the line that is promised; its last part is what runs now."""
    line = "python3 -m venv .venv && .venv/bin/pip install -q -e '.[dev]' && .venv/bin/pytest\n"
    assert text == line
    assert "pytest" in reader.run("pytest", "--version", **reader.bare)


def on_call_commands_work(text: str, reader: Reader) -> None:
    """Run each command on a queue that an informer feeds, with one parked item."""
    reader.sandbox.run_until_idle(runpy.run_path(str(reader.folder / "foos.py"))["controller"])
    queue = Queue("foos", reader.sandbox.redis)
    queue.add("prod/web")
    while (request := queue.get(0)).key != "prod/web":
        queue.settle(request)
    queue.settle(request, TerminalError("image missing"))
    queue.close()
    for words in commands(text):
        if words[1] == "dashboard":
            parses(words)  # serves until it is stopped: tests/cli/test_run.py runs it
            continue
        output = reader.run(*words, *["--yes"] if {"dead", "resync"} & {*words} else [])
        if words[1] == "items":
            assert "TerminalError: image missing" in output
        if words[1] == "requeue":
            assert output == "requeued 1\n"


def the_containers_are_there(text: str, reader: Reader) -> None:
    """Compare it with the compose file; not run, since it needs a container engine and pulls images."""
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    ports = [port for service in services.values() for port in service.get("ports", [])]
    for words in commands(text):
        if words[0] == "kubectl":
            assert words[1:3] == ["--server", "http://127.0.0.1:8001"]
            assert "127.0.0.1:8001:8001" in ports
            assert words[3] == "get" or (ROOT / words[-1]).is_file()
        else:
            assert words[:2] == ["docker", "compose"]
            assert words[2] in {"up", "kill", "down"}
            named = [word.partition("=")[0] for word in words[3:] if not word.startswith("--")]
            assert set(named) <= set(services)
    assert "http://127.0.0.1:9181/" in README
    assert "127.0.0.1:9181" in services["dashboard"]["command"]


def the_house_commands_exist(text: str, reader: Reader) -> None:
    """Find each tool here and in ``.ci/run``, which runs them; they take too long for a test."""
    ci = (ROOT / ".ci" / "run").read_text()
    for words in commands(text.replace("&&", "\n")):
        tool = Path(words[0]).name
        assert words[0].startswith(".venv/bin/")
        reader.run(tool, *(words[1:2] if tool == "ruff" else []), "--help", **reader.bare)
        assert tool in ci
        assert " ".join(words[1:]) in ci


def parses(words: list[str]) -> click.Context:
    """Return the context of a distq command line that its own parser takes."""
    assert words[0] == "distq"
    return main.commands[words[1]].make_context(words[1], words[2:])


def needs(program: str) -> None:
    """Skip without a program of the machine's; in CI fail."""
    if shutil.which(program) is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"no {program} on PATH. Install it.")


# The manifest


def the_deployment_suffices(text: str, reader: Reader) -> None:
    """Check its commands, variables and times, and run with its permissions on a real API server."""
    manifests = list(yaml.safe_load_all(text))
    pods = [obj["spec"]["template"]["spec"] for obj in manifests if obj["kind"] == "Deployment"]
    variables = {setting.metadata["variable"] for setting in fields(Settings)}
    for pod in pods:
        (container,) = pod["containers"]
        assert parses(["distq", *container["args"]]).params["target"] == "foos"
        assert {variable["name"] for variable in container["env"]} <= variables
        assert pod.get("terminationGracePeriodSeconds", 30) > Settings().grace_period
    with RealApiServer(real_api_server_assets()) as server:
        admin = server.client()
        for obj in (*manifests, *yaml.safe_load_all(BLOCKS["# foos.yaml"])):
            eventually(partial(is_applied, admin, obj))
        client = client_of(server, "foos", reader.folder / "kubeconfig-of-foos")
        runs_with(client, admin, reader)
        for verb in ("get", "watch", "update", "patch"):  # of which one leader alone needs not all
            assert may(client, verb, group="coordination.k8s.io", resource="leases", name="distq-foos")
        assert may(client, "get", group="", resource="namespaces", name="kube-system")


def is_applied(client: Client, obj: dict[str, Any]) -> bool:
    """Apply an object; return False as long as the server does not know its kind."""
    try:
        client.apply(obj)
    except ApiError as error:
        if error.status != 404:
            raise
        return False
    return True


def client_of(server: RealApiServer, name: str, kubeconfig: Path) -> Client:
    """Return a Client of a service account, with a token that the API server gave for it."""
    path = f"/api/v1/namespaces/{name}/serviceaccounts/{name}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = yaml.safe_load(server.client().request("POST", path, body=body))
    cluster = {"server": server.url, "certificate-authority": str(server.certificate_authority)}
    write_kubeconfig(kubeconfig, cluster=cluster, user={"token": answer["status"]["token"]})
    return Client(kubeconfig)


def may(client: Client, verb: str, **what: str) -> bool:
    """Ask the API server whether its caller may do something in the namespace foos."""
    attributes = {"verb": verb, "namespace": "foos", **what}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    return bool(yaml.safe_load(client.request("POST", path, body=body))["status"]["allowed"])


def runs_with(client: Client, admin: Client, reader: Reader) -> None:
    """Run the controller as that service account until the Foo has its Deployment, then stop it."""
    program = runpy.run_path(str(reader.folder / "foos.py"))
    program["reconcile"].__globals__["client"] = client
    settings = Settings(lease_name="distq-foos", lease_namespace="foos")
    manager = Manager([program["controller"]], redis=reader.sandbox.redis, client=client, settings=settings)
    thread = threading.Thread(target=manager.run)
    with refusals() as refused:
        thread.start()
        try:
            eventually(lambda: admin.get("apps/v1/Deployment", "default/web"))
            eventually(lambda: list(admin.list("v1/Event", "foos")))
        finally:
            manager.stop()
            thread.join(TIMEOUT)
    assert refused == []


@contextmanager
def refusals() -> Iterator[list[str]]:
    """Collect what distq logs of the API server's refusals."""
    refused: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if " 403 " in record.getMessage():
                refused.append(record.getMessage())

    listener = Listener()
    logging.getLogger("distq").addHandler(listener)
    try:
        yield refused
    finally:
        logging.getLogger("distq").removeHandler(listener)


# Diagrams


def the_flow_names_what_exists(text: str, reader: Reader) -> None:
    """Find the classes and keys of the diagram in the code."""
    source = "\n".join(path.read_text() for path in (ROOT / "distq").rglob("*.py"))
    for name in ("Reflector", "Stream", "Inspector", "Dispatcher", "Request", "Result"):
        assert name in text
        assert re.search(rf"^class {name}\b", source, re.MULTILINE)
    (shown,) = re.findall(r"Redis: (.+)", text)
    assert set(shown.split(" · ")) <= set(re.findall(r"^    (\w+) ", keys.__doc__ or "", re.MULTILINE))


def every_state_is_drawn(text: str, reader: Reader) -> None:
    """Find the states that the Inspector tells, and dirty."""
    for state in (*get_args(State), "dirty"):
        assert state in text


def the_layers_are_the_contract(text: str, reader: Reader) -> None:
    """Compare it with import-linter's contract, less the layers that do not exist yet."""
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = configuration["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    existing = [[name for name in layer.split(" | ") if not name.startswith("(")] for layer in layers]
    assert text.splitlines() == [" | ".join(layer) for layer in existing]


def the_cache_fills(text: str, reader: Reader) -> None:
    """Run it with a Pod there, and ask the cache as the README does; without a cluster it fails."""
    done = subprocess.run(
        [sys.executable, "pods.py"],
        cwd=reader.folder,
        env=reader.bare,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 1
    assert "no cluster: KUBECONFIG unset" in done.stderr
    spec = {"containers": [{"name": "web", "image": "nginx"}], "nodeName": "node-1"}
    metadata = {"name": "web", "namespace": "default", "labels": {"app": "web"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    reader.sandbox.client.create(pod)
    informer = reader.start(sys.executable, "pods.py")
    assert informer.stdout is not None
    try:
        printed = [informer.stdout.readline() for _ in range(2)]
        assert sorted(printed) == ["new: web\n", "on node-1: ['web']\n"]
        reader.sandbox.client.delete("v1/Pod", "default/web")
        assert informer.stdout.readline() == "gone: web\n"
        informer.send_signal(signal.SIGINT)
        assert informer.communicate(timeout=TIMEOUT)[0] == ""
    finally:
        informer.kill()
        informer.wait()
    assert informer.returncode == 0


def the_janitor_leads(text: str, reader: Reader) -> None:
    """Run it until it leads, look for its lease, and stop it."""
    janitor = reader.start(sys.executable, "janitor.py")
    assert janitor.stdout is not None
    try:
        assert janitor.stdout.readline().startswith("leading in term ")
        lease = reader.sandbox.client.get("coordination.k8s.io/v1/Lease", "default/janitor")
        assert lease is not None
        assert lease["spec"]["holderIdentity"]
        janitor.terminate()
        assert janitor.communicate(timeout=TIMEOUT)[0].endswith("over\n")
    finally:
        janitor.kill()
        janitor.wait()
    assert janitor.returncode == 0
    released = reader.sandbox.client.get("coordination.k8s.io/v1/Lease", "default/janitor")
    assert released is not None
    assert not released["spec"]["holderIdentity"]


def both_locks_are_taken(text: str, reader: Reader) -> None:
    """Let an elector lead with it, and look for both records."""
    program = (
        text
        + """
import threading
from distq.leaderelection import LeaderElectionConfig, LeaderElector
stop = threading.Event()
LeaderElector(LeaderElectionConfig(
    lock=lock, on_started_leading=lambda over: stop.set(), on_stopped_leading=lambda: None,
    release_on_cancel=False,
)).run(stop)
"""
    )
    client = reader.sandbox.client
    client.delete("coordination.k8s.io/v1/Lease", "default/janitor")
    reader.run(sys.executable, "-c", program)
    lease = client.get("coordination.k8s.io/v1/Lease", "default/janitor")
    annotated = client.get("v1/ConfigMap", "default/janitor")
    assert lease is not None
    assert annotated is not None
    record = json.loads(annotated["metadata"]["annotations"]["control-plane.alpha.kubernetes.io/leader"])
    assert record["holderIdentity"] == lease["spec"]["holderIdentity"] == os.uname().nodename


RUNNERS: dict[str, Callable[[str, Reader], None]] = {
    "# foos.py": the_controller_works,
    "# foos.yaml": the_manifest_loads,
    "distq sandbox": the_tour_works,
    "# test_foos.py": the_users_test_passes,
    "# thumbs.py": the_plain_worker_works,
    "# test_thumbs.py": the_test_without_servers_passes,
    "# producer.py": the_plain_worker_works,
    "# loop.py": the_loop_works,
    "# orders.py": the_limiter_decides,
    "# pods.py": the_cache_fills,
    "# janitor.py": the_janitor_leads,
    "# both.py": both_locks_are_taken,
    "python3 -m venv .venv && .venv/bin/pip install -q -e '.[demo]'": the_demo_keeps_its_word,
    "docker compose": the_containers_are_there,
    "kube-apiserver": the_flow_names_what_exists,
    "              claim": every_state_is_drawn,
    "# foos-deploy.yaml": the_deployment_suffices,
    "distq queues": on_call_commands_work,
    "python3 -m venv .venv && .venv/bin/pip install -q -e '.[dev]'": the_tests_are_found,
    ".venv/bin/ruff": the_house_commands_exist,
    "distq.cli": the_layers_are_the_contract,
}
"""What runs each block, by how its first line begins."""


@pytest.mark.parametrize("title", BLOCKS)
def test_every_block_does_what_it_shows(title: str, reader: Reader) -> None:
    """Each block of code, commands or drawing is run, or compared with what it stands for."""
    (runner,) = [run for beginning, run in RUNNERS.items() if title.startswith(beginning)] or [no_runner]
    runner(BLOCKS[title], reader)


def no_runner(text: str, reader: Reader) -> None:
    """Fail: whoever adds a block says here how it is kept true."""
    pytest.fail(f"no test runs this block:\n{text}")


def test_every_runner_has_its_block() -> None:
    """Nothing is left here of a block that went, and no two blocks begin alike."""
    assert len(BLOCKS) == len(BLOCK.findall(README)) == len(RUNNERS)
    assert all(any(title.startswith(beginning) for title in BLOCKS) for beginning in RUNNERS)
