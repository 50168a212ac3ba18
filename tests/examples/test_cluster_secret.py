"""ClusterSecrets: each promise of the example, and what the original does that it also does."""

from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from distq import Client, Inspector, Request, get_condition, set_controller_reference
from distq.errors import ApiError, ReconcileFailed
from distq.testing import Sandbox
from examples.cluster_secret import CLUSTER_SECRET, FINALIZER_OF_KOPF, NAMESPACE, SECRET, controller
from tests import ROOT

DEFINITION = ROOT / "examples" / "cluster-secret-crd.yaml"
OPAQUE = {"password": b64encode(b"correct horse").decode()}

Object = dict[str, Any]


class Play:
    """A ClusterSecret, and namespaces whose names begin as its own does."""

    def __init__(self, sandbox: Sandbox, **fields: Any) -> None:
        self.sandbox = sandbox
        self.client = sandbox.client
        self.name = f"play-{uuid4().hex[:8]}"
        self.fields = {"matchNamespace": [f"{self.name}-"], "data": OPAQUE, **fields}

    def begin(self, *namespaces: str, **metadata: Any) -> "Play":
        """Create the namespaces and the ClusterSecret, and let the controller work."""
        for namespace in namespaces:
            self.add(namespace)
        about = {"name": self.name, **metadata}
        api_version, _, kind = CLUSTER_SECRET.rpartition("/")
        self.client.create({"apiVersion": api_version, "kind": kind, "metadata": about, **self.fields})
        self.run()
        return self

    def add(self, namespace: str) -> str:
        """Create a namespace of the play, and return its name."""
        name = f"{self.name}-{namespace}"
        self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        return name

    def run(self, **options: Any) -> None:
        """Let the controller do all there is to do."""
        self.sandbox.run_until_idle(controller, **options)

    def change(self, **fields: Any) -> None:
        """Change the ClusterSecret, and let the controller follow."""
        self.client.patch(CLUSTER_SECRET, self.name, fields)
        self.run()

    def put(self, namespace: str, name: str, data: dict[str, str], **metadata: Any) -> Object:
        """Create a Secret of another owner."""
        about = {"namespace": f"{self.name}-{namespace}", "name": name, **metadata}
        return self.client.create({"apiVersion": "v1", "kind": "Secret", "metadata": about, "data": data})

    def copy(self, namespace: str) -> Object:
        """Return the copy in a namespace."""
        copy = self.client.get(SECRET, f"{self.name}-{namespace}/{self.name}")
        assert copy is not None
        return copy

    def where(self) -> set[str]:
        """Return the namespaces that have a Secret of the name."""
        found = self.client.list(SECRET, field_selector=f"metadata.name={self.name}")
        return {secret["metadata"]["namespace"].removeprefix(f"{self.name}-") for secret in found}

    def status(self) -> tuple[set[str], str, str]:
        """Return what the status says: where copies are, and the condition's reason and message."""
        cluster_secret = self.client.get(CLUSTER_SECRET, self.name)
        assert cluster_secret is not None
        condition = get_condition(cluster_secret, "Synced")
        assert condition is not None
        assert condition["status"] == str(condition["reason"] == "Synced")
        there = {each.removeprefix(f"{self.name}-") for each in cluster_secret["status"]["namespaces"]}
        return there, condition["reason"], condition["message"]

    def events(self) -> set[str]:
        """Return the reasons of the events about it."""
        found = self.client.list("v1/Event", "default")
        return {event["reason"] for event in found if event["involvedObject"]["name"] == self.name}

    def state(self) -> str | None:
        """Return the state of its item, None for one that is at rest."""
        item = Inspector(self.sandbox.redis).item("cluster-secrets", self.name)
        return item.state if item else None


@pytest.fixture
def play(sandbox: Sandbox) -> Iterator[Callable[..., Play]]:
    """Give what begins a play by the fields of a ClusterSecret, which is deleted after the test."""
    sandbox.apply(DEFINITION)
    plays: list[Play] = []

    def begin(**fields: Any) -> Play:
        plays.append(Play(sandbox, **fields))
        return plays[-1]

    yield begin
    for each in plays:
        each.client.delete(CLUSTER_SECRET, each.name)
        each.run(on_failure="retry")


def test_a_secret_is_where_names_match(play: Callable[..., Play]) -> None:
    """Each namespace that matches and is not to be avoided has a copy, and the status says so."""
    some = play()
    some.fields |= {"avoidNamespaces": [f"{some.name}-b"]}
    some.begin("a", "b", "c")
    assert some.where() == {"a", "c"}
    assert some.status() == ({"a", "c"}, "Synced", "copied to 2 namespaces")
    assert "Copied" in some.events()


def test_a_copy_is_like_its_original(play: Callable[..., Play]) -> None:
    """It has type, data, labels and annotations, but not those of tools, which may have the data in them."""
    labels = {"team": "red", "app.kubernetes.io/name": "web"}
    annotations = {"cost": "low", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
    typed = play(type="example.com/token").begin("a", labels=labels, annotations=annotations)
    copy = typed.copy("a")
    assert (copy["type"], copy["data"]) == ("example.com/token", OPAQUE)
    assert copy["metadata"]["labels"] == {"team": "red", "clustersecret.io": "true"}
    assert copy["metadata"]["annotations"] == {"cost": "low", "clustersecret.io/created-by": "ClusterSecrets"}


def test_a_new_namespace_gets_its_copy(play: Callable[..., Play]) -> None:
    """It comes with the namespace, and another ClusterSecret's pattern leaves it alone."""
    other, some = play().begin("a"), play().begin("a")
    some.add("b")
    some.run()
    assert some.where() == {"a", "b"}
    assert other.where() == {"a"}


def test_a_namespace_that_goes_gets_no_copy(play: Callable[..., Play]) -> None:
    """A namespace that is being deleted takes none, and is no failure."""
    some = play().begin("a", "b")
    some.client.delete(NAMESPACE, f"{some.name}-b")
    some.run()
    some.change(data={"password": "bmV3"})
    assert some.status()[0] == {"a"}


def test_a_change_reaches_all_copies(play: Callable[..., Play]) -> None:
    """Data follows, and annotations that others wrote on a copy stay."""
    some = play().begin("a", "b")
    for namespace in ("a", "b"):
        note = {"metadata": {"annotations": {"somebody": "else"}}}
        some.client.patch(SECRET, f"{some.name}-{namespace}/{some.name}", note)
    some.change(data={"password": None, "token": "bmV3"}, metadata={"labels": {"team": "blue"}})
    for namespace in ("a", "b"):
        copy = some.copy(namespace)
        assert copy["data"] == {"token": "bmV3"}
        assert copy["metadata"]["labels"]["team"] == "blue"
        assert copy["metadata"]["annotations"]["somebody"] == "else"


def test_a_changed_pattern_moves_copies(play: Callable[..., Play]) -> None:
    """A namespace that no longer matches loses its copy."""
    some = play().begin("a", "b", "c")
    some.change(matchNamespace=[f"{some.name}-[bc]"], avoidNamespaces=[f"{some.name}-c"])
    assert some.where() == {"b"}
    assert some.status()[0] == {"b"}


def test_a_copy_that_another_client_changes_comes_back(play: Callable[..., Play]) -> None:
    """So does one that is deleted, or whose label is gone."""
    some = play().begin("a", "b", "c")
    key = f"{some.name}-{{}}/{some.name}"
    some.client.patch(SECRET, key.format("a"), {"data": {"password": "bmV3"}})
    some.client.delete(SECRET, key.format("b"))
    some.client.patch(SECRET, key.format("c"), {"metadata": {"labels": {"clustersecret.io": None}}})
    some.run()
    for namespace in ("a", "b", "c"):
        copy = some.copy(namespace)
        assert copy["data"] == OPAQUE
        assert copy["metadata"]["labels"] == {"clustersecret.io": "true"}


def test_a_secret_of_another_owner_is_left_alone(play: Callable[..., Play]) -> None:
    """The condition names its namespace, the others have theirs, and its end makes room for a copy."""
    some = play()
    some.add("a")
    theirs = some.put("a", some.name, {"password": "dGhlaXJz"})
    some.begin("b")
    assert some.copy("a") == theirs
    there, reason, message = some.status()
    assert (there, reason) == ({"b"}, "Refused")
    assert f"Secret {some.name}-a/{some.name} is not a copy" in message
    some.client.delete(SECRET, f"{some.name}-a/{some.name}")
    some.run()
    assert some.copy("a")["data"] == OPAQUE
    assert some.status()[:2] == ({"a", "b"}, "Synced")


def test_a_new_type_replaces_copies(play: Callable[..., Play]) -> None:
    """Kubernetes lets no client change a Secret's type: it is made anew."""
    some = play().begin("a")
    some.change(type="example.com/token")
    assert some.copy("a")["type"] == "example.com/token"


def test_the_source_of_the_data_is_followed(play: Callable[..., Play]) -> None:
    """``valueFrom`` takes the keys that it names from a Secret, and each change of it."""
    some = play()
    some.add("source")
    some.put("source", "original", {"a": "YQ==", "b": "Yg=="})
    reference = {"namespace": f"{some.name}-source", "name": "original", "keys": ["a", "c"]}
    some.fields["data"] = {"valueFrom": {"secretKeyRef": reference}}
    some.begin("a")
    assert some.copy("a")["data"] == {"a": "YQ=="}
    some.client.patch(SECRET, f"{some.name}-source/original", {"data": {"a": "bmV3", "c": "Yw=="}})
    some.run()
    assert some.copy("a")["data"] == {"a": "bmV3", "c": "Yw=="}


def test_a_source_of_the_same_name_is_not_in_the_way(play: Callable[..., Play]) -> None:
    """Its namespace has it already."""
    some = play()
    some.add("source")
    some.put("source", some.name, OPAQUE)
    reference = {"namespace": f"{some.name}-source", "name": some.name}
    some.fields["data"] = {"valueFrom": {"secretKeyRef": reference}}
    some.begin("a")
    assert some.status() == ({"a"}, "Synced", "copied to 1 namespaces")


def test_a_missing_source_is_waited_for(play: Callable[..., Play]) -> None:
    """Without it the item is dead, with a condition and an event; its creation goes on with it."""
    some = play()
    reference = {"namespace": f"{some.name}-source", "name": "original"}
    some.fields["data"] = {"valueFrom": {"secretKeyRef": reference}}
    with pytest.raises(ReconcileFailed):
        some.begin("a")
    some.run(on_failure="retry")
    assert (some.state(), some.status()[1]) == ("dead", "SourceNotFound")
    assert "SourceNotFound" in some.events()
    some.add("source")
    some.put("source", "original", OPAQUE)
    some.run(on_failure="retry")
    assert some.state() is None
    assert some.copy("a")["data"] == OPAQUE


MISTAKES: list[tuple[str, dict[str, Any]]] = [
    ("BadPattern", {"matchNamespace": ["team-["]}),
    ("BadSource", {"data": {"valueFrom": {"secretKeyRef": {"name": "original"}}, "password": None}}),
    ("BadSource", {"data": {"valueFrom": "original"}}),
]
"""Fields, and the reason of the condition that they lead to."""


def test_a_mistake_waits_for_its_correction(play: Callable[..., Play]) -> None:
    """It is dead and says why, copies stay as they are, and others are looked after."""
    other, *wrong = [play().begin("a") for _ in range(1 + len(MISTAKES))]
    for some, (_, fields) in zip(wrong, MISTAKES, strict=True):
        some.client.patch(CLUSTER_SECRET, some.name, fields)
    other.add("b")
    other.run(on_failure="retry")
    assert other.where() == {"a", "b"}
    for some, (reason, _) in zip(wrong, MISTAKES, strict=True):
        assert (some.state(), some.status()[:2]) == ("dead", ({"a"}, reason))
        assert reason in some.events()
        assert some.copy("a")["data"] == OPAQUE
    correct = {"data": {"valueFrom": None, **OPAQUE}}
    for some in wrong:
        some.client.patch(CLUSTER_SECRET, some.name, {"matchNamespace": [some.name], **correct})
    other.run()
    assert [(some.state(), some.status()[:2]) for some in wrong] == [(None, ({"a"}, "Synced"))] * len(wrong)


def test_a_namespace_that_refuses_does_not_stop_the_others(
    play: Callable[..., Play], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The condition says which and why, and it is tried again."""
    create = Client.create
    refusals = iter(range(2))

    def refuse_twice(client: Client, obj: Object) -> Object:
        if obj["metadata"].get("namespace", "").endswith("-a") and next(refusals, None) is not None:
            raise ApiError("exceeded quota", status=403)
        return create(client, obj)

    some = play()
    monkeypatch.setattr(Client, "create", refuse_twice)
    with pytest.raises(ReconcileFailed, match="exceeded quota"):
        some.begin("a", "b")
    there, reason, message = some.status()
    assert (there, reason, message) == ({"b"}, "Refused", f"{some.name}-a: exceeded quota")
    some.run(on_failure="retry")
    assert some.status()[:2] == ({"a", "b"}, "Synced")


def test_with_a_cluster_secret_its_copies_go(play: Callable[..., Play]) -> None:
    """It is gone once they are, and a Secret of another owner still exists."""
    some = play()
    some.add("a")
    some.put("a", some.name, OPAQUE)
    some.begin("b", "c")
    some.client.delete(CLUSTER_SECRET, some.name)
    assert some.client.get(CLUSTER_SECRET, some.name) is not None
    some.run()
    assert some.client.get(CLUSTER_SECRET, some.name) is None
    assert some.where() == {"a"}


def test_the_copies_of_the_original_are_taken_over(play: Callable[..., Play]) -> None:
    """Its copies become ours by their annotation, and its finalizer does not stay behind."""
    some = play()
    some.add("a")
    made = {"clustersecret.io/created-by": "ClusterSecrets", "clustersecret.io/version": "0.0.14"}
    some.put("a", some.name, {"password": "b2xk"}, annotations=made, labels={"clustersecret.io": "true"})
    some.begin(finalizers=[FINALIZER_OF_KOPF])
    assert some.copy("a")["data"] == OPAQUE
    some.client.delete(CLUSTER_SECRET, some.name)
    some.run()
    assert some.client.get(CLUSTER_SECRET, some.name) is None
    assert some.where() == set()


def test_a_copy_of_another_controller_is_not_taken_over(play: Callable[..., Play]) -> None:
    """With any annotations: the owner reference decides."""
    some = play()
    namespace = some.add("a")
    metadata = {"namespace": namespace, "name": "owner"}
    owner = some.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    theirs: Object = {"metadata": {"namespace": namespace}}
    set_controller_reference(owner, theirs)
    annotations = {"clustersecret.io/created-by": "ClusterSecrets"}
    references = theirs["metadata"]["ownerReferences"]
    before = some.put("a", some.name, {}, annotations=annotations, ownerReferences=references)
    with pytest.raises(ReconcileFailed):
        some.begin()
    assert some.copy("a") == before


def test_no_value_gets_into_redis(play: Callable[..., Play]) -> None:
    """Nothing that Redis holds has the data in it, of a ClusterSecret, a copy or a source."""
    some = play()
    some.add("source")
    some.put("source", "original", OPAQUE)
    applied = {"kubectl.kubernetes.io/last-applied-configuration": OPAQUE["password"]}
    some.begin("a", annotations=applied)
    some.client.patch(SECRET, f"{some.name}-a/{some.name}", {"metadata": {"annotations": applied}})
    some.run()
    redis = some.sandbox.redis
    held = b"".join(bytes(redis.execute("DUMP", key)) for key in redis.execute("KEYS", "*"))
    assert some.name.encode() in held
    assert OPAQUE["password"].encode() not in held
    assert b"correct horse" not in held


def test_a_reconcile_without_differences_asks_for_one_object(
    play: Callable[..., Play], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies and namespaces are read from Redis, and nothing is written."""
    some = play().begin("a", "b", "c")
    asked: list[tuple[str, str]] = []
    request = Client.request

    def noted(client: Client, method: str, path: str, **options: Any) -> bytes:
        asked.append((method, path))
        return request(client, method, path, **options)

    monkeypatch.setattr(Client, "request", noted)
    controller.reconcile(Request(some.name))
    assert [(method, path.rpartition("/")[2]) for method, path in asked] == [("GET", some.name)]
