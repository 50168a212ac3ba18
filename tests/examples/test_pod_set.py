"""PodSets have as many pods as they want, their own and those that they adopt, and never one too many."""

from typing import Any
from uuid import uuid4

import pytest

from distq import (
    Client,
    Inspector,
    Request,
    Result,
    controller_of,
    get_condition,
    key_of,
    owned_by,
    set_controller_reference,
)
from distq.client.raw import RawClient
from distq.errors import ApiError, Conflict, ReconcileFailed
from distq.testing import FakeClock, Sandbox
from distq.testing.apiserver import EmulatedApiServer
from examples import pod_set as example
from examples.pod_set import POD, POD_SET, controller, reconcile
from examples.pods import DELETION_COST
from tests import ROOT
from tests.examples import kubelet
from tests.examples.kubelet import new_pod

DEFINITION = ROOT / "examples" / "pod-set-crd.yaml"
LABELS = {"app": "web"}
ON_THE_EMULATOR = pytest.mark.parametrize("sandbox", ["emulator"], indirect=True)
"""Of tests in which the API server decides nothing."""

Object = dict[str, Any]


def new_pod_set(namespace: str, **spec: Any) -> Object:
    """Return a PodSet of two pods, unless given otherwise."""
    template = {"metadata": {"labels": LABELS}, "spec": new_pod(namespace, "", {})["spec"]}
    return {
        "apiVersion": "example.com/v1",
        "kind": "PodSet",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"replicas": 2, "selector": {"matchLabels": LABELS}, "template": template, **spec},
    }


class Play:
    """A PodSet in a namespace of its own."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.client = sandbox.client
        self.namespace = f"play-{uuid4().hex[:8]}"
        self.key = f"{self.namespace}/web"
        self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})

    def begin(self, **spec: Any) -> "Play":
        """Create the PodSet, and let the controller work."""
        self.client.create(new_pod_set(self.namespace, **spec))
        self.run()
        return self

    def run(self, **options: Any) -> None:
        """Let the controller do all there is to do."""
        self.sandbox.run_until_idle(controller, **options)

    def change(self, **spec: Any) -> None:
        """Change the PodSet, and let the controller follow."""
        self.client.patch(POD_SET, self.key, {"spec": spec})
        self.run()

    def pods(self) -> dict[str, Object]:
        """Return the pods of the namespace by their names."""
        return {pod["metadata"]["name"]: pod for pod in self.client.list(POD, self.namespace)}

    def own(self) -> dict[str, Object]:
        """Return those that the PodSet controls."""
        pod_set = self.client.get_or_raise(POD_SET, self.key)
        return {name: pod for name, pod in self.pods().items() if owned_by(pod, pod_set)}

    def status(self) -> Object:
        """Return what the controller says."""
        return dict(self.client.get_or_raise(POD_SET, self.key)["status"])

    def counts(self) -> tuple[int, int, int]:
        """Return how many pods there are, how many are ready, and how many available, by the status."""
        status = self.status()
        return status["replicas"], status["readyReplicas"], status["availableReplicas"]

    def failure(self) -> Object | None:
        """Return the condition that says what went wrong."""
        return get_condition(self.client.get_or_raise(POD_SET, self.key), "ReplicaFailure")

    def events(self) -> set[str]:
        """Return the reasons of the events about it."""
        return {event["reason"] for event in self.client.list("v1/Event", self.namespace)}

    def item_state(self) -> str | None:
        """Return the state of its item, None for one that is at rest."""
        item = Inspector(self.sandbox.redis).item("pod-sets", self.key)
        return item.state if item else None


@pytest.fixture
def play(sandbox: Sandbox) -> Play:
    """Give a play that has not begun."""
    sandbox.apply(DEFINITION)
    return Play(sandbox)


def test_pods_come_by_the_template(play: Play) -> None:
    """There are as many as wanted, labelled and owned, and the status and an event say so."""
    play.begin(replicas=3)
    pods = play.own()
    assert len(pods) == 3
    assert all(name.startswith("web-") for name in pods)
    assert {pod["metadata"]["labels"]["app"] for pod in pods.values()} == {"web"}
    assert play.counts() == (3, 0, 0)
    assert play.status()["fullyLabeledReplicas"] == 3
    assert play.status()["observedGeneration"] == 1
    assert "SuccessfulCreate" in play.events()


def test_the_number_of_pods_follows(play: Play) -> None:
    """More are created, some are deleted, and of none left nothing stays."""
    play.begin()
    first = play.own().keys()
    play.change(replicas=5)
    assert len(play.own()) == 5
    assert first <= play.own().keys()
    play.change(replicas=1)
    assert len(play.own()) == 1
    play.change(replicas=0)
    assert play.own() == {}
    assert play.counts() == (0, 0, 0)


@ON_THE_EMULATOR
def test_a_pod_that_is_deleted_or_ends_is_replaced(play: Play) -> None:
    """A pod that ended is left in place, and counts no longer."""
    play.begin()
    one, other = play.own().values()
    kubelet.delete(play.client, one)
    kubelet.end(play.client, other)
    play.run()
    assert len(play.own()) == 3
    assert key_of(other).partition("/")[2] in play.own()
    assert play.counts() == (2, 0, 0)


@ON_THE_EMULATOR
def test_the_least_useful_pod_is_given_up_first(play: Play) -> None:
    """Unready pods go before ready ones, and cheap ones before costly ones."""
    play.begin(replicas=4)
    pending, unready, cheap, costly = play.own().values()
    for pod in (unready, cheap, costly):
        kubelet.run(play.client, pod, ready=pod is not unready)
    cost = {"metadata": {"annotations": {DELETION_COST: "10"}}}
    play.client.patch(POD, key_of(costly), cost)
    play.run()
    for left in ([unready, cheap, costly], [cheap, costly], [costly]):
        play.change(replicas=len(left))
        assert play.own().keys() == {pod["metadata"]["name"] for pod in left}
    assert pending["metadata"]["name"] not in play.pods()


def test_a_pod_that_matches_and_has_no_owner_is_adopted(play: Play) -> None:
    """It counts as one of those that are wanted, whether it was there before or comes later."""
    play.client.create(new_pod(play.namespace, "before", LABELS))
    play.client.create(new_pod(play.namespace, "other", {"app": "db"}))
    play.begin()
    assert "before" in play.own()
    assert len(play.own()) == 2
    play.client.create(new_pod(play.namespace, "later", LABELS))
    play.run()
    assert len(play.own()) == 2
    assert controller_of(play.pods()["other"]) is None


def test_a_pod_of_another_controller_is_left_alone(play: Play) -> None:
    """Though it matches."""
    play.begin(replicas=0)
    about = {"name": "owner", "namespace": play.namespace}
    owner = play.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": about})
    pod = new_pod(play.namespace, "theirs", LABELS)
    set_controller_reference(owner, pod)
    play.client.create(pod)
    play.change(replicas=1)
    assert len(play.own()) == 1
    assert "theirs" in play.pods()
    assert "theirs" not in play.own()


def test_a_pod_that_no_longer_matches_is_released_and_replaced(play: Play) -> None:
    """It lives on without an owner; with its old labels it is adopted again."""
    play.begin(replicas=1)
    (name,) = play.own()
    label = {"metadata": {"labels": {"app": "debugged"}}}
    play.client.patch(POD, f"{play.namespace}/{name}", label)
    play.run()
    (successor,) = play.own()
    assert successor != name
    assert controller_of(play.pods()[name]) is None
    play.client.patch(POD, f"{play.namespace}/{name}", {"metadata": {"labels": LABELS}})
    play.run()
    assert len(play.own()) == len(play.pods()) == 1


@ON_THE_EMULATOR
def test_a_pod_set_that_was_deleted_meanwhile_adopts_nothing(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache may not show it yet; but an adopted pod would be deleted with its owner."""
    play.begin(replicas=0)
    get_or_raise = Client.get_or_raise

    def delete_before(client: Client, resource: str, key: str) -> Object:
        client.delete(POD_SET, play.key)
        return get_or_raise(client, resource, key)

    monkeypatch.setattr(Client, "get_or_raise", delete_before)
    play.client.create(new_pod(play.namespace, "orphan", LABELS))
    play.run(on_failure="retry")
    assert play.client.get(POD_SET, play.key) is None
    assert controller_of(play.pods()["orphan"]) is None


@ON_THE_EMULATOR
def test_a_refused_pod_is_reported_and_not_all_are_asked_for(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quota, say: batches of 1, 2, 4 pods meet it; a condition and an event name it until it is gone."""
    create = Client.create
    asked: list[str] = []

    def refuse(client: Client, obj: Object) -> Object:
        if obj["kind"] != "Pod":
            return create(client, obj)
        asked.append(obj["metadata"]["name"])
        if len(asked) <= 3:
            return create(client, obj)
        raise ApiError("exceeded quota: pods", status=403, reason="Forbidden")

    with monkeypatch.context() as patched:
        patched.setattr(Client, "create", refuse)
        play.client.create(new_pod_set(play.namespace, replicas=50))
        with pytest.raises(ReconcileFailed, match="exceeded quota"):
            play.run()
    assert len(asked) == 1 + 2 + 4
    failure = play.failure()
    assert failure is not None
    assert (failure["reason"], failure["message"]) == ("FailedCreate", "exceeded quota: pods")
    assert "FailedCreate" in play.events()
    play.run(on_failure="retry")
    assert play.failure() is None
    assert len(play.own()) == 50


def test_an_older_cache_makes_no_second_pod(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after the crash of a worker and the leader: the same pods are asked for, and refused as there."""
    with monkeypatch.context() as patched:
        patched.setattr(example, "create", lambda *_: None)
        play.begin(replicas=4)
    reconcile(Request(play.key))  # no informer runs, and so the cache stays as it is
    with pytest.raises(Conflict):
        reconcile(Request(play.key))
    assert len(play.own()) == 4
    play.run(on_failure="retry")
    assert len(play.own()) == 4
    assert "SuccessfulDelete" not in play.events()


@ON_THE_EMULATOR
def test_a_worker_that_has_lost_the_claim_creates_no_further_pods_and_leaves_the_status(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another worker has it: that one says what it finds."""
    with monkeypatch.context() as patched:
        patched.setattr(example, "create", lambda *_: None)
        play.begin(replicas=4)
    before, request, create = play.status(), Request(play.key), example.create

    def lose(pod_set: Object, name: str) -> Object | None:
        request.cancelled.set()
        return create(pod_set, name)

    monkeypatch.setattr(example, "create", lose)
    reconcile(request)
    assert len(play.own()) == 1
    assert play.status() == before


@ON_THE_EMULATOR
def test_a_pod_that_ends_as_it_is_adopted_does_not_count(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer of the API server is newer than the cache."""
    play.begin(replicas=0)
    adopt = example.adopt

    def end_before(pod_set: Object, pod: Object) -> Object | None:
        play.client.patch_status(pod, {"phase": "Succeeded"})
        return adopt(pod_set, pod)

    monkeypatch.setattr(example, "adopt", end_before)
    play.client.create(new_pod(play.namespace, "orphan", LABELS))
    play.run()
    assert "orphan" in play.pods()
    assert play.counts() == (0, 0, 0)


@ON_THE_EMULATOR
def test_a_pod_counts_as_available_when_it_was_ready_for_long(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No event says when that is, so the item comes back then."""
    clock = FakeClock(1_700_000_000)
    monkeypatch.setattr(example, "clock", clock.now)
    play.begin(replicas=1, minReadySeconds=30)
    (pod,) = play.own().values()
    kubelet.run(play.client, pod, since=clock.now())
    clock.step(10)
    play.run()
    assert play.counts() == (1, 1, 0)
    assert reconcile(Request(play.key)) == Result(requeue_after=20)
    clock.step(20)
    assert reconcile(Request(play.key)) is None
    assert play.counts() == (1, 1, 1)


@ON_THE_EMULATOR
@pytest.mark.parametrize(
    "selector",
    [
        {},
        {"matchLabels": {"app": "db"}},
        {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["web"]}]},
    ],
)
def test_a_selector_that_cannot_work_makes_no_pods(play: Play, selector: Object) -> None:
    """Its item is dead with an event until it is corrected, and pods of others are handled as ever."""
    play.client.create(new_pod_set(play.namespace, selector=selector))
    play.client.create(new_pod(play.namespace, "orphan", {"app": "other"}))
    play.run(on_failure="retry")
    assert play.item_state() == "dead"
    assert "InvalidSelector" in play.events()
    assert play.pods().keys() == {"orphan"}
    play.change(selector={**dict.fromkeys(selector), "matchLabels": LABELS})
    assert play.item_state() is None
    assert len(play.own()) == 2


def test_a_namespace_that_ends_takes_no_pods_and_is_no_failure(play: Play) -> None:
    """The API server says so by a cause; there is nothing left to retry."""
    play.begin(replicas=1)
    if isinstance(play.sandbox.api_server, EmulatedApiServer):
        pytest.skip("it empties the namespace at once, as a whole cluster does in time")
    play.client.delete("v1/Namespace", play.namespace)
    play.change(replicas=3)
    assert play.failure() is None
    assert len(play.own()) == 1


@ON_THE_EMULATOR
def test_a_reconcile_without_differences_costs_no_request(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that a reconcile reads is cached."""
    play.begin()
    asked: list[str] = []
    monkeypatch.setattr(RawClient, "request", lambda *arguments, **_: asked.append(str(arguments)))
    reconcile(Request(play.key))
    assert asked == []


@ON_THE_EMULATOR
def test_a_deleted_pod_set_leaves_nothing_in_the_queue(play: Play) -> None:
    """Its pods go with it, by the garbage collector."""
    play.begin()
    play.client.delete(POD_SET, play.key)
    play.run(on_failure="retry")
    assert play.item_state() is None


@pytest.mark.parametrize(("field", "value"), [("replicas", -1), ("minReadySeconds", -1), ("selector", None)])
def test_the_definition_refuses_fields_that_make_no_sense(play: Play, field: str, value: object) -> None:
    """The API server says which field is wrong, before the controller sees it."""
    with pytest.raises(ApiError, match=field) as refused:
        play.client.create(new_pod_set(play.namespace, **{field: value}))
    assert f"spec.{field}" in {cause.field for cause in refused.value.causes}
