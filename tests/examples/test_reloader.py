"""Workloads roll out when what they use changes, once for each change, and never for anything else."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from distq import Client, Inspector
from distq.errors import ApiError
from distq.testing import Sandbox
from examples import reloader
from examples.reloader import NOTED, PREFIX, RELOADED
from tests.examples.rollouts import rollouts

DEPLOYMENT = "apps/v1/Deployment"
AUTO = {f"{PREFIX}/auto": "true"}

Object = dict[str, Any]


class Play:
    """A namespace with the ConfigMap ``settings``, the Secret ``password``, and workloads that use them."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.client = sandbox.client
        self.namespace = f"play-{uuid4().hex[:8]}"
        self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})
        self.put("ConfigMap", "settings", "red")
        self.put("Secret", "password", "cmVk")
        self.created: dict[str, Object] = {}

    def put(self, kind: str, name: str, color: str, annotations: dict[str, str] | None = None) -> None:
        """Create a ConfigMap or Secret, or change it."""
        metadata = {"name": name, "namespace": self.namespace, "annotations": annotations or {}}
        self.client.apply({"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": {"color": color}})

    def workload(self, annotations: dict[str, str], *, kind: str = "Deployment", **pod: Any) -> str:
        """Create a workload, and return its key; its pods use both sources unless given otherwise."""
        labels = {"app": f"web-{uuid4().hex[:8]}"}
        both = {"envFrom": [{"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "password"}}]}
        container = {"name": "web", "image": "nginx", **(pod.pop("container", None) or both)}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container], **pod}}
        metadata = {"name": labels["app"], "namespace": self.namespace, "annotations": annotations}
        spec: Object = {"selector": {"matchLabels": labels}, "template": template}
        if kind == "StatefulSet":
            spec["serviceName"] = labels["app"]
        workload = {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}
        key = f"{self.namespace}/{labels['app']}"
        self.created[key] = self.client.create(workload)
        return key

    def run(self, **options: Any) -> None:
        """Let the controllers do all there is to do."""
        controllers = (reloader.deployments, reloader.daemon_sets, reloader.stateful_sets)
        self.sandbox.run_until_idle(*controllers, **options)

    def rollouts(self, key: str) -> int:
        """Return how often the pods of a workload were made anew."""
        return rollouts(self.client, self.created[key])

    def rollouts_of(self, keys: dict[str, str]) -> dict[str, int]:
        """Return that of several workloads, by what they are called here."""
        return {name: self.rollouts(key) for name, key in keys.items()}

    def events(self, key: str) -> list[str]:
        """Return what the events about a workload say."""
        name = key.partition("/")[2]
        found = self.client.list("v1/Event", self.namespace)
        return [event["message"] for event in found if event["involvedObject"]["name"] == name]


@pytest.fixture
def play(sandbox: Sandbox) -> Play:
    """Give a new play."""
    return Play(sandbox)


def test_a_change_rolls_out_its_users_once(play: Play) -> None:
    """Not when it is first seen, not again when nothing changed, and once for each source that did."""
    kinds = ("Deployment", "DaemonSet", "StatefulSet")
    keys = {kind: play.workload(AUTO, kind=kind) for kind in kinds}
    play.run()
    assert play.rollouts_of(keys) == dict.fromkeys(kinds, 0)
    play.put("ConfigMap", "settings", "blue")
    play.run()
    assert play.rollouts_of(keys) == dict.fromkeys(kinds, 1)
    play.put("Secret", "password", "Ymx1ZQ==")
    play.run()
    play.run()
    assert play.rollouts_of(keys) == dict.fromkeys(kinds, 2)
    for key in keys.values():
        assert f"changed: ConfigMap {play.namespace}/settings" in play.events(key)
        assert f"changed: Secret {play.namespace}/password" in play.events(key)


def test_a_change_while_nothing_runs_is_found(play: Play) -> None:
    """Two of them are one rollout: what counts is how it is now."""
    key = play.workload(AUTO)
    play.run()
    play.put("ConfigMap", "settings", "blue")
    play.put("ConfigMap", "settings", "green")
    play.run()
    assert play.rollouts(key) == 1


def test_a_change_back_rolls_out_nothing_that_never_ran(play: Play) -> None:
    """Data that is again what the pods have needs no new ones."""
    key = play.workload(AUTO)
    play.run()
    play.put("ConfigMap", "settings", "blue")
    play.put("ConfigMap", "settings", "red")
    play.run()
    assert play.rollouts(key) == 0


def test_a_change_that_is_not_data_rolls_out_nothing(play: Play) -> None:
    """Labels, say."""
    key = play.workload(AUTO)
    play.run()
    label = {"metadata": {"labels": {"team": "red"}}}
    play.client.patch("v1/ConfigMap", f"{play.namespace}/settings", label)
    play.run()
    assert play.rollouts(key) == 0


WISHES: dict[str, tuple[dict[str, str], int, int]] = {
    "nothing": ({}, 0, 0),
    "not auto": ({f"{PREFIX}/auto": "false"}, 0, 0),
    "all ConfigMaps": ({f"configmap.{PREFIX}/auto": "true"}, 1, 1),
    "all Secrets": ({f"secret.{PREFIX}/auto": "true"}, 0, 1),
    "a ConfigMap": ({f"configmap.{PREFIX}/reload": "settings"}, 1, 1),
    "two Secrets": ({f"secret.{PREFIX}/reload": "other, password"}, 0, 1),
    "what matches": ({f"{PREFIX}/search": "true"}, 0, 0),
}
"""Annotations of a workload, and its rollouts after a change of the ConfigMap, and of the Secret."""


def test_the_annotations_of_a_workload_name_its_sources(play: Play) -> None:
    """By annotations, as the original has them."""
    keys = {wish: play.workload(annotations) for wish, (annotations, _, _) in WISHES.items()}
    play.run()
    play.put("ConfigMap", "settings", "blue")
    play.run()
    assert play.rollouts_of(keys) == {wish: first for wish, (_, first, _) in WISHES.items()}
    play.put("Secret", "password", "Ymx1ZQ==")
    play.run()
    assert play.rollouts_of(keys) == {wish: both for wish, (_, _, both) in WISHES.items()}


def test_a_pod_template_may_say_it_too(play: Play) -> None:
    """Where the workload's own annotations say nothing."""
    key = play.workload({})
    template = {"metadata": {"annotations": AUTO}}
    play.client.patch(DEPLOYMENT, key, {"spec": {"template": template}})
    play.run()
    play.put("ConfigMap", "settings", "blue")
    play.run()
    assert play.rollouts(key) == 2


def test_a_source_is_searched_by_its_own_annotation(play: Play) -> None:
    """``search`` looks for sources that say ``match``."""
    play.put("ConfigMap", "settings", "red", {f"{PREFIX}/match": "true"})
    key = play.workload({f"{PREFIX}/search": "true"})
    play.run()
    play.put("Secret", "password", "Ymx1ZQ==")
    play.run()
    assert play.rollouts(key) == 0
    play.put("ConfigMap", "settings", "blue", {f"{PREFIX}/match": "true"})
    play.run()
    assert play.rollouts(key) == 1


def test_an_ignored_source_rolls_out_nothing(play: Play) -> None:
    """Nor later, when it is no longer ignored: only what changes then."""
    key = play.workload({f"configmap.{PREFIX}/reload": "settings"})
    play.put("ConfigMap", "settings", "red", {f"{PREFIX}/ignore": "true"})
    play.run()
    play.put("ConfigMap", "settings", "blue", {f"{PREFIX}/ignore": "true"})
    play.run()
    play.put("ConfigMap", "settings", "blue")
    play.run()
    assert play.rollouts(key) == 0
    play.put("ConfigMap", "settings", "green")
    play.run()
    assert play.rollouts(key) == 1


USES: dict[str, Callable[[], Object]] = {
    "env": lambda: {
        "container": {
            "env": [
                {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "color"}}},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "password", "key": "color"}}},
                {"name": "C", "value": "plain"},
            ]
        }
    },
    "initContainers": lambda: {
        "container": {"args": ["run"]},
        "initContainers": [
            {
                "name": "init",
                "image": "busybox",
                "envFrom": [{"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "password"}}],
            }
        ],
    },
    "volumes": lambda: {
        "container": {"args": ["run"]},
        "volumes": [
            {"name": "a", "configMap": {"name": "settings"}},
            {"name": "b", "secret": {"secretName": "password"}},
            {"name": "c", "emptyDir": {}},
        ],
    },
    "projected": lambda: {
        "container": {"args": ["run"]},
        "volumes": [
            {
                "name": "all",
                "projected": {
                    "sources": [
                        {"configMap": {"name": "settings"}},
                        {"secret": {"name": "password"}},
                        {
                            "downwardAPI": {
                                "items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.name"}}]
                            }
                        },
                    ]
                },
            }
        ],
    },
}


def test_every_use_counts(play: Play) -> None:
    """Variables, environments, volumes and projected ones, of init containers too."""
    keys = {use: play.workload(AUTO, **pod()) for use, pod in USES.items()}
    play.run()
    play.put("ConfigMap", "settings", "blue")
    play.run()
    assert play.rollouts_of(keys) == dict.fromkeys(USES, 1)
    play.put("Secret", "password", "Ymx1ZQ==")
    play.run()
    assert play.rollouts_of(keys) == dict.fromkeys(USES, 2)


def test_a_source_that_comes_later_is_noted(play: Play) -> None:
    """Pods that wait for it start with it; its end means nothing, and a source that comes back rolls out."""
    key = play.workload({f"configmap.{PREFIX}/reload": "late"})
    play.run()
    play.put("ConfigMap", "late", "red")
    play.run()
    assert play.rollouts(key) == 0
    play.client.delete("v1/ConfigMap", f"{play.namespace}/late")
    play.run()
    assert play.rollouts(key) == 0
    play.put("ConfigMap", "late", "blue")
    play.run()
    assert play.rollouts(key) == 1


def test_another_namespace_is_left_alone(play: Play, sandbox: Sandbox) -> None:
    """Names are of one namespace."""
    other = Play(sandbox)
    key = other.workload(AUTO)
    play.run()
    play.put("ConfigMap", "settings", "blue")
    play.run()
    assert other.rollouts(key) == 0


def test_a_workload_that_no_longer_asks_has_no_note(play: Play) -> None:
    """The annotation goes with the wish, without a rollout."""
    key = play.workload(AUTO)
    play.run()
    play.client.patch(DEPLOYMENT, key, {"metadata": {"annotations": {f"{PREFIX}/auto": None}}})
    play.run()
    workload = play.client.get(DEPLOYMENT, key)
    assert workload is not None
    assert NOTED not in workload["metadata"].get("annotations", {})
    assert play.rollouts(key) == 0


def test_a_spoilt_note_makes_the_item_dead_until_it_is_removed(play: Play) -> None:
    """An event says what to do; then it begins anew."""
    key = play.workload(AUTO)
    play.run()
    play.client.patch(DEPLOYMENT, key, {"metadata": {"annotations": {NOTED: "none"}}})
    play.run(on_failure="retry")
    item = Inspector(play.sandbox.redis).item("reload-deployments", key)
    assert item is not None
    assert item.state == "dead"
    assert any("remove it" in message for message in play.events(key))
    play.client.patch(DEPLOYMENT, key, {"metadata": {"annotations": {NOTED: None}}})
    play.run()
    play.put("ConfigMap", "settings", "blue")
    play.run()
    assert play.rollouts(key) == 1


def test_a_reply_that_was_lost_makes_no_second_rollout(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next attempt finds the note that came with the rollout, or tries the same write again."""
    key = play.workload(AUTO)
    play.run()
    patch = Client.patch
    losses = iter(range(1))

    def lose_one(client: Client, *arguments: Any, **options: Any) -> Object:
        stored = patch(client, *arguments, **options)
        if next(losses, None) is not None:
            raise ApiError("no answer")
        return stored

    play.put("ConfigMap", "settings", "blue")
    monkeypatch.setattr(Client, "patch", lose_one)
    play.run(on_failure="retry", max_failures=1)
    assert play.rollouts(key) == 1


def test_no_value_can_be_guessed_by_its_digest(play: Play) -> None:
    """Two Secrets of one password have digests of their own, and neither Redis nor annotations have it."""
    play.put("Secret", "twin", "cmVk")
    key = play.workload({f"secret.{PREFIX}/reload": "password,twin"})
    play.run()
    workload = play.client.get(DEPLOYMENT, key)
    assert workload is not None
    assert len(set(reloader.noted(workload).values())) == 2
    play.put("Secret", "password", "Z3JlZW5pc2g=")
    play.run()
    workload = play.client.get(DEPLOYMENT, key)
    assert workload is not None
    assert RELOADED in workload["spec"]["template"]["metadata"]["annotations"]
    redis = play.sandbox.redis
    held = b"".join(bytes(redis.execute("DUMP", key)) for key in redis.execute("KEYS", "*"))
    for where in (str(workload).encode(), held):
        assert b"Z3JlZW5pc2g=" not in where


def test_a_rollout_is_one_request(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that a reconcile reads is cached; its write is one patch."""
    play.workload(AUTO)
    play.run()
    asked: list[str] = []
    request = Client.request

    def noted(client: Client, method: str, path: str, **options: Any) -> bytes:
        if play.namespace in path and "/events" not in path:
            asked.append(method)
        return request(client, method, path, **options)

    monkeypatch.setattr(Client, "request", noted)
    play.client.patch("v1/ConfigMap", f"{play.namespace}/settings", {"data": {"color": "blue"}})
    play.run()
    assert asked == ["PATCH", "PATCH"]  # the test's and the controller's
