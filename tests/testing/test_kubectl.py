"""kubectl on the emulated and the real server: people look into a sandbox with it."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.api_servers import ApiServer
from tests.support.parts import program
from tests.testing.conftest import Api, config_map, deployment, widget

Kubectl = Callable[..., str]


@pytest.fixture
def kubectl(api_server: ApiServer, namespace: str, tmp_path: Path) -> Kubectl:
    """Run kubectl in the test's namespace and return what it prints; an object is passed as its input."""
    path = program("kubectl", package="kubernetes-client")

    def run(*arguments: str, body: dict[str, Any] | None = None) -> str:
        command = [path, f"--kubeconfig={api_server.kubeconfig}", f"--namespace={namespace}"]
        command += [f"--cache-dir={tmp_path}", *arguments]
        text = json.dumps(body) if body is not None else None
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


def test_config_maps(kubectl: Kubectl) -> None:
    """Create, get, patch, label and delete work."""
    created = kubectl("create", "--validate=false", "-f", "-", body=config_map("web", color="red"))
    assert created == "configmap/web created"
    assert kubectl("get", "cm", "web", "-o", "jsonpath={.data.color}") == "red"
    assert kubectl("patch", "cm", "web", "-p", '{"data":{"color":"blue"}}') == "configmap/web patched"
    assert kubectl("label", "cm", "web", "tier=front") == "configmap/web labeled"
    table = kubectl("get", "cm", "-l", "tier=front", "--no-headers")
    assert table.split()[0] == "web"
    assert kubectl("delete", "cm", "web").startswith('configmap "web" deleted')
    assert kubectl("get", "cm", "-o", "name") == ""


def test_custom_resources(kubectl: Kubectl, widgets: str) -> None:
    """Apply creates and configures, patch merges, delete waits until the object is gone."""
    assert widgets
    apply = ("apply", "--validate=false", "-f", "-")
    assert kubectl(*apply, body=widget("web", spec={"size": 1})).endswith("/web created")
    assert kubectl(*apply, body=widget("web", spec={"color": "red"})).endswith("/web configured")
    assert kubectl(*apply, body=widget("web", spec={"color": "red"})).endswith("/web unchanged")
    kubectl("patch", "widget", "web", "--type=merge", "-p", '{"spec":{"height":2}}')
    spec = json.loads(kubectl("get", "widgets", "web", "-o", "json"))["spec"]
    assert spec == {"color": "red", "height": 2}
    assert "deleted" in kubectl("delete", "widget", "web")
    assert kubectl("get", "widgets", "-o", "name") == ""


def test_server_side_apply(kubectl: Kubectl) -> None:
    """It is what distq's own apply is."""
    body = config_map("web", color="red")
    applied = kubectl("apply", "--server-side", "--validate=false", "-f", "-", body=body)
    assert applied == "configmap/web serverside-applied"


def test_a_watch(kubectl: Kubectl, api: Api, config_maps: str) -> None:
    """Get --watch prints the present objects and the next events, until its time is up."""
    api.create(config_maps, config_map("web"))
    watch = ("get", "cm", "web", "--watch", "--request-timeout=2s", "-o", "name")
    assert kubectl(*watch) == "configmap/web"


def test_wait_for_a_definition(kubectl: Kubectl, widget_definition: str) -> None:
    """Wait sees that the definition is established."""
    name = widget_definition.rpartition("/")[2]
    assert "condition met" in kubectl("wait", "--for=condition=established", "--timeout=20s", f"crd/{name}")


def test_explain(kubectl: Kubectl, widgets: str) -> None:
    """The fields of built-in and custom kinds, with their types."""
    assert widgets
    assert "replicas <integer>" in " ".join(kubectl("explain", "deployment.spec.replicas").split())
    assert "containers <[]Container> -required-" in " ".join(kubectl("explain", "pod.spec").split())
    assert "metadata <ObjectMeta>" in " ".join(kubectl("explain", "widgets").split())


def test_apply_of_a_built_in_kind(kubectl: Kubectl, api: Api, deployments: str) -> None:
    """It merges containers by their names, and leaves out what it applied before."""
    apply = ("apply", "-f", "-")
    assert kubectl(*apply, body=deployment("web", web="web:1", log="log:1")) == "deployment.apps/web created"
    again = kubectl(*apply, body=deployment("web", web="web:1", log="log:1"))
    assert again == "deployment.apps/web unchanged"
    strategic = {"spec": {"template": {"spec": {"containers": [{"name": "other", "image": "other:1"}]}}}}
    kubectl("patch", "deployment", "web", "-p", json.dumps(strategic))
    assert kubectl(*apply, body=deployment("web", web="web:2")) == "deployment.apps/web configured"
    containers = api.get(f"{deployments}/web")["spec"]["template"]["spec"]["containers"]
    assert sorted(each["image"] for each in containers) == ["other:1", "web:2"]


def test_scale(kubectl: Kubectl, api: Api, deployments: str) -> None:
    """By kind and name, and only from the count that is expected."""
    api.create(deployments, deployment("web", web="web:1"))
    assert kubectl("scale", "deployment", "web", "--replicas=3") == "deployment.apps/web scaled"
    assert api.get(f"{deployments}/web")["spec"]["replicas"] == 3
    scaled = kubectl("scale", "deployment/web", "--current-replicas=3", "--replicas=0")
    assert scaled == "deployment.apps/web scaled"
    assert api.get(f"{deployments}/web")["spec"]["replicas"] == 0


def test_auth_can_i(kubectl: Kubectl) -> None:
    """An administrator may do everything."""
    assert kubectl("auth", "can-i", "create", "pods") == "yes"


def test_get_shows_the_columns_of_a_kind(kubectl: Kubectl, api: Api, deployments: str) -> None:
    """As wide as it is asked to, and while it watches."""
    api.create(deployments, deployment("web", web="web:1"))
    header, row = (line.split() for line in kubectl("get", "deployments", "-o", "wide").splitlines())
    assert header == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE", "CONTAINERS", "IMAGES", "SELECTOR"]
    assert row[:4] + row[5:] == ["web", "0/1", "0", "0", "web", "web:1", "app=web"]
    watched = kubectl("get", "deployment", "web", "--watch", "--request-timeout=2s").splitlines()
    assert [line.split()[:2] for line in watched] == [["NAME", "READY"], ["web", "0/1"]]


@pytest.mark.parametrize("api_server", ["emulator"], indirect=True, scope="session")
def test_protobuf_is_refused_with_a_remedy(api_server: ApiServer, tmp_path: Path) -> None:
    """In one line; the real server reads it."""
    path = program("kubectl", package="kubernetes-client")
    command = [path, f"--kubeconfig={api_server.kubeconfig}", f"--cache-dir={tmp_path}", "create"]
    for words in "configmap a --from-literal=a=b", "namespace a", "deployment a --image=a":
        done = subprocess.run(
            [*command, *words.split()], capture_output=True, text=True, check=False, timeout=60
        )
        (line,) = done.stderr.splitlines()
        assert done.returncode == 1
        assert line.endswith("kubectl create ... --dry-run=client -o yaml | kubectl apply -f -")
