"""The Sandbox runs controllers until nothing is left to do, and says what was left where it cannot."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from distq.controller.controller import Controller
from distq.controller.watches import For
from distq.errors import ConfigError, NotFound
from distq.inspector import Inspector
from distq.testing.sandbox import Sandbox
from distq.workqueue.interface import Request, Result
from distq.workqueue.queue import Queue

MANIFEST = """
apiVersion: v1
kind: ConfigMap
metadata: {name: web, namespace: default, labels: {app: mine}}
data: {color: red}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: other, namespace: default}
"""
CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: foos.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Foo, plural: foos, singular: foo}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""
WATCH = For("v1/ConfigMap", label_selector="app=mine")


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """Start one sandbox for all tests here, with two objects."""
    manifest = tmp_path_factory.mktemp("manifests") / "maps.yaml"
    manifest.write_text(MANIFEST)
    with Sandbox(manifests=[manifest]) as sandbox:
        yield sandbox


def test_what_is_there_and_what_follows_is_reconciled(sandbox: Sandbox) -> None:
    """Events that a reconcile itself causes are waited for, too."""
    seen: list[str] = []

    def copy(request: Request) -> None:
        source = sandbox.client.get("v1/ConfigMap", request.key)
        seen.append(request.name)
        if source is None or request.name.count("-") == 2:
            return
        metadata = {"namespace": "default", "name": f"{request.name}-copy", "labels": {"app": "mine"}}
        sandbox.client.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})

    sandbox.run_until_idle(Controller("copies", copy, watches=[WATCH]))
    assert {"web", "web-copy", "web-copy-copy"} <= set(seen)
    assert "other" not in seen


def test_a_second_run_sees_what_happened_between(sandbox: Sandbox) -> None:
    """Also a deletion, which no list would show."""
    seen: list[str] = []
    controller = Controller("between", lambda request: seen.append(request.key), watches=[WATCH])
    sandbox.client.create(_map("short-lived"))
    sandbox.run_until_idle(controller)
    seen.clear()
    sandbox.client.delete("v1/ConfigMap", "default/short-lived")
    sandbox.run_until_idle(controller)
    assert seen == ["default/short-lived"]


def test_retries_are_waited_for_and_requeue_after_is_not(sandbox: Sandbox) -> None:
    """A failing reconcile is unfinished work; one that asked to come back later is finished."""
    attempts: list[int] = []

    def reconcile(request: Request) -> Result:
        attempts.append(request.attempt)
        if request.attempt < 3:
            raise RuntimeError("not yet")
        return Result(requeue_after=3600)

    sandbox.client.apply(_map("retried", app="retries"))
    watch = For("v1/ConfigMap", label_selector="app=retries")
    sandbox.run_until_idle(Controller("retries", reconcile, watches=[watch]))
    assert attempts == [1, 2, 3]
    assert Inspector(sandbox.redis).queues("retries")[0].delayed == 1


def test_what_never_ends_is_told(sandbox: Sandbox) -> None:
    """The timeout names the key and its last error."""

    def fail(request: Request) -> None:
        raise RuntimeError(f"no luck with {request.name}")

    sandbox.client.apply(_map("hopeless", app="hopeless"))
    controller = Controller("hopeless", fail, watches=[For("v1/ConfigMap", label_selector="app=hopeless")])
    began = time.monotonic()
    with pytest.raises(TimeoutError, match=r"default/hopeless of hopeless failed .* no luck with hopeless"):
        sandbox.run_until_idle(controller, timeout=3.0)
    assert time.monotonic() - began < 30


def test_a_worker_without_watches_runs_too(sandbox: Sandbox) -> None:
    """Keys may come from anywhere."""
    seen: list[str] = []
    queue = Queue("plain", sandbox.redis)
    controller = Controller(queue, lambda request: seen.append(request.key))
    queue.add("a", "b")
    sandbox.run_until_idle(controller)
    assert sorted(seen) == ["a", "b"]


def test_apply_takes_paths_texts_and_objects(sandbox: Sandbox, tmp_path: Path) -> None:
    """What is there is changed, what names no namespace goes to default, new kinds are known at once."""
    path = tmp_path / "crd.yaml"
    path.write_text(CRD)
    foo = {
        "apiVersion": "example.com/v1",
        "kind": "Foo",
        "metadata": {"name": "web"},
        "spec": {"replicas": 1},
    }
    named = sandbox.apply(path, str(path), "\n" + MANIFEST.replace("red", "blue"), foo)
    assert [obj["metadata"]["name"] for obj in named] == ["foos.example.com"] * 2 + ["web", "other", "web"]
    assert sandbox.client.get("v1/ConfigMap", "default/web") == named[2]
    assert named[2]["data"] == {"color": "blue"}
    (changed,) = sandbox.apply({**foo, "spec": {"replicas": 2}})
    assert changed["spec"] == {"replicas": 2}
    assert "namespace" not in foo["metadata"]


def test_apply_leaves_to_controllers_what_they_have_applied(sandbox: Sandbox) -> None:
    """Server-side apply removes what the same manager leaves out, and a test is none of the controllers."""
    sandbox.apply(_map("shared"))
    sandbox.client.apply({**_map("shared"), "data": {"by": "a controller"}})
    (shared,) = sandbox.apply(_map("shared"))
    assert shared["data"] == {"by": "a controller"}


def test_what_cannot_be_applied_has_its_place(sandbox: Sandbox) -> None:
    """And nothing of it is applied where a manifest is none at all."""
    with pytest.raises(ConfigError, match=r"manifest:3:1: an object without apiVersion and metadata"):
        sandbox.apply(_map("unborn"), "\n---\nkind: Foo\n")
    assert sandbox.client.get("v1/ConfigMap", "default/unborn") is None
    with pytest.raises(ConfigError, match="manifest: an object without kind"):
        sandbox.apply({"apiVersion": "v1", "metadata": {"name": "web"}})
    with pytest.raises(NotFound, match=r"example\.com/v1/Bar") as caught:
        sandbox.apply("\napiVersion: example.com/v1\nkind: Bar\nmetadata: {name: web}\n")
    assert caught.value.__notes__ == ["applied from manifest:2:1"]


def test_a_missing_manifest_is_told_before_anything_starts(tmp_path: Path) -> None:
    """The path is checked first."""
    with pytest.raises(ConfigError, match="no manifest"), Sandbox(manifests=[tmp_path / "no.yaml"]):
        pass


def test_the_environment_is_as_before_afterwards() -> None:
    """Inside, Clients and Queues find the sandbox; outside, nothing remains of it."""
    before = dict(os.environ)
    with Sandbox() as inside:
        assert os.environ["KUBECONFIG"] == inside.environment["KUBECONFIG"]
    assert dict(os.environ) == before


def _map(name: str, app: str = "mine") -> dict[str, object]:
    metadata = {"namespace": "default", "name": name, "labels": {"app": app}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
