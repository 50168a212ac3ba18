"""Slices show which pods are behind a Service, with few writes, and nothing that is not there."""

from typing import Any
from uuid import uuid4

import pytest

from distq import Request, key_of
from distq.client.raw import RawClient
from distq.testing import Sandbox
from examples import endpoint_slices as example
from examples.endpoint_slices import (
    MANAGED,
    MANAGED_BY,
    MANAGER,
    POD,
    SERVICE,
    SERVICE_NAME,
    SLICE,
    controller,
)
from tests.examples import kubelet
from tests.examples.kubelet import new_pod

LABELS = {"app": "web", "tier": "front"}
ON_THE_EMULATOR = pytest.mark.parametrize("sandbox", ["emulator"], indirect=True)
"""Of tests in which the API server decides nothing."""

Object = dict[str, Any]


class Play:
    """The Service ``web`` in a namespace of its own."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.client = sandbox.client
        self.namespace = f"play-{uuid4().hex[:8]}"
        self.key = f"{self.namespace}/web"
        self._ips = 0
        self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})

    def begin(self, pods: int = 0, **spec: Any) -> "Play":
        """Create the Service and pods behind it, and let the controller work."""
        for number in range(pods):
            self.pod(f"pod-{number}")
        name, _, value = MANAGED.partition("=")
        metadata = {"name": "web", "namespace": self.namespace, "labels": {name: value}}
        spec = {"selector": LABELS, "ports": [{"port": 80, "targetPort": 8080}], **spec}
        self.client.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
        self.run()
        return self

    def pod(self, name: str, *, ready: bool = True, ip: str = "", **spec: Any) -> Object:
        """Create a pod that runs."""
        pod = self.client.create(new_pod(self.namespace, name, spec.pop("labels", LABELS), **spec))
        self._ips += 1
        kubelet.run(self.client, pod, ready=ready, ip=ip or f"10.1.{self._ips // 256}.{self._ips % 256}")
        return pod

    def run(self, **options: Any) -> None:
        """Let the controller do all there is to do."""
        self.sandbox.run_until_idle(controller, **options)

    def slices(self) -> list[Object]:
        """Return its slices."""
        selector = f"{SERVICE_NAME}=web,{MANAGED_BY}={MANAGER}"
        return list(self.client.list(SLICE, self.namespace, label_selector=selector))

    def endpoints(self) -> dict[str, Object]:
        """Return the endpoints in all slices, by the names of their pods, each of which is there once."""
        found = [each for slice_ in self.slices() for each in slice_.get("endpoints") or []]
        by_name = {each["targetRef"]["name"]: each for each in found}
        assert len(by_name) == len(found)
        return by_name

    def conditions(self, name: str) -> tuple[bool, bool, bool]:
        """Return whether a pod is ready, serves, and is about to end."""
        conditions = self.endpoints()[name]["conditions"]
        return conditions["ready"], conditions["serving"], conditions["terminating"]

    def versions(self) -> dict[str, str]:
        """Return the version of each slice."""
        return {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in self.slices()}


@pytest.fixture
def play(sandbox: Sandbox) -> Play:
    """Give a play that has not begun."""
    return Play(sandbox)


def test_the_pods_behind_a_service_are_its_endpoints(play: Play) -> None:
    """Those that have all labels of its selector, with their addresses and what their status says."""
    play.pod("unready", ready=False)
    play.pod("other", labels={"app": "web"})
    play.begin(pods=2)
    assert play.endpoints().keys() == {"pod-0", "pod-1", "unready"}
    assert play.conditions("pod-0") == (True, True, False)
    assert play.conditions("unready") == (False, False, False)
    pod = play.client.get_or_raise(POD, f"{play.namespace}/pod-0")
    endpoint = play.endpoints()["pod-0"]
    assert endpoint["addresses"] == [pod["status"]["podIP"]]
    assert endpoint["targetRef"]["uid"] == pod["metadata"]["uid"]
    (slice_,) = play.slices()
    assert (slice_["addressType"], slice_["ports"]) == (
        "IPv4",
        [{"name": "", "port": 8080, "protocol": "TCP"}],
    )
    assert [owner["kind"] for owner in slice_["metadata"]["ownerReferences"]] == ["Service"]


def test_pods_come_and_go(play: Play) -> None:
    """By their labels, their readiness, their end and their deletion."""
    play.begin(pods=3)
    key = f"{play.namespace}/pod-0"
    play.client.patch(POD, key, {"metadata": {"labels": {"tier": "back"}}})
    play.pod("later")
    kubelet.end(play.client, play.client.get_or_raise(POD, f"{play.namespace}/pod-1"), "Succeeded")
    kubelet.delete(play.client, play.client.get_or_raise(POD, f"{play.namespace}/pod-2"))
    play.run()
    assert play.endpoints().keys() == {"later"}
    kubelet.run(play.client, play.client.get_or_raise(POD, f"{play.namespace}/later"), ready=False)
    play.client.patch(POD, key, {"metadata": {"labels": {"tier": "front"}}})
    play.run()
    assert play.endpoints().keys() == {"later", "pod-0"}
    assert play.conditions("later") == (False, False, False)


def test_a_pod_that_is_deleted_serves_until_it_ends(play: Play) -> None:
    """It is no longer ready, so that new connections go elsewhere."""
    play.pod("going", nodeName="node")
    play.begin()
    assert play.conditions("going") == (True, True, False)
    play.client.delete(POD, f"{play.namespace}/going", grace_period=30)
    play.run()
    assert play.conditions("going") == (False, True, True)
    assert play.endpoints()["going"]["nodeName"] == "node"
    play.client.delete(POD, f"{play.namespace}/going", grace_period=0)
    play.run()
    assert play.endpoints() == {}


def test_a_service_without_pods_has_an_empty_slice(play: Play) -> None:
    """So that readers can distinguish it from a Service that no controller has seen; pods take its place."""
    play.begin()
    (slice_,) = play.slices()
    assert not slice_.get("endpoints")
    play.pod("first")
    play.run()
    assert play.endpoints().keys() == {"first"}
    assert len(play.slices()) == 1


def test_many_pods_are_in_several_slices(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod that changes is one write, and one that goes leaves room that the next one takes."""
    monkeypatch.setattr(example, "MOST", 3)
    play.begin(pods=7)
    assert sorted(len(each["endpoints"]) for each in play.slices()) == [1, 3, 3]
    before = play.versions()
    kubelet.delete(play.client, play.client.get_or_raise(POD, f"{play.namespace}/pod-3"))
    play.run()
    after = play.versions()
    assert len(before.items() - after.items()) == 1
    play.pod("successor")
    play.run()
    assert len(after.items() - play.versions().items()) == 1
    assert len(play.endpoints()) == 7
    assert len(play.slices()) == 3


@ON_THE_EMULATOR
def test_pods_whose_named_port_differs_are_in_slices_of_their_own(play: Play) -> None:
    """A pod that has no port of the name is an endpoint without it."""
    for name, number in (("one", 8080), ("other", 9090), ("none", None)):
        port = [{"name": "http", "containerPort": number}] if number else []
        play.pod(name, containers=[{"name": "web", "image": "nginx", "ports": port}])
    play.begin(ports=[{"port": 80, "targetPort": "http"}])
    ports = {
        each["endpoints"][0]["targetRef"]["name"]: [port["port"] for port in each.get("ports") or []]
        for each in play.slices()
    }
    assert ports == {"one": [8080], "other": [9090], "none": []}


@ON_THE_EMULATOR
def test_a_headless_service_may_publish_pods_that_are_not_ready(play: Play) -> None:
    """Their names are published, too."""
    play.pod("peer", ready=False, hostname="peer-0", subdomain="web")
    play.begin(clusterIP="None", publishNotReadyAddresses=True)
    assert play.conditions("peer") == (True, False, False)
    assert play.endpoints()["peer"]["hostname"] == "peer-0"
    (slice_,) = play.slices()
    assert slice_["metadata"]["labels"]["service.kubernetes.io/headless"] == ""


@ON_THE_EMULATOR
def test_a_service_without_a_wish_or_a_selector_has_no_slices_of_ours(play: Play) -> None:
    """Those that there were go, and slices of others stay."""
    play.begin(pods=1)
    labels = {SERVICE_NAME: "web", MANAGED_BY: "somebody"}
    theirs = {"name": "theirs", "namespace": play.namespace, "labels": labels}
    api_version, _, kind = SLICE.rpartition("/")
    play.client.create(
        {"apiVersion": api_version, "kind": kind, "metadata": theirs, "addressType": "IPv4", "endpoints": []}
    )
    play.client.patch(SERVICE, play.key, {"spec": {"selector": None}})
    play.run()
    assert play.slices() == []
    play.client.patch(SERVICE, play.key, {"spec": {"selector": LABELS}})
    play.run()
    assert len(play.slices()) == 1
    play.client.patch(SERVICE, play.key, {"metadata": {"labels": {MANAGED.partition("=")[0]: None}}})
    play.run()
    assert play.slices() == []
    assert [key_of(each) for each in play.client.list(SLICE, play.namespace)] == [f"{play.namespace}/theirs"]


def test_a_slice_that_another_client_changes_or_deletes_comes_back(play: Play) -> None:
    """As it was."""
    play.begin(pods=1)
    (slice_,) = play.slices()
    play.client.patch(SLICE, key_of(slice_), {"endpoints": [], "metadata": {"labels": {MANAGED_BY: "me"}}})
    play.run()
    assert play.endpoints().keys() == {"pod-0"}
    play.client.delete(SLICE, key_of(slice_))
    play.run()
    assert play.endpoints().keys() == {"pod-0"}


@ON_THE_EMULATOR
def test_a_reconcile_without_differences_costs_no_request(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that a reconcile reads is cached, and a change of many pods is one write."""
    play.begin(pods=5)
    asked: list[str] = []
    request = RawClient.request

    def noted(client: RawClient, method: str, path: str, **options: Any) -> bytes:
        if "endpointslices" in path:
            asked.append(method)
        return request(client, method, path, **options)

    monkeypatch.setattr(RawClient, "request", noted)
    example.reconcile(Request(play.key))
    assert asked == []
    for number in range(5):
        play.pod(f"more-{number}")
    play.run()
    assert set(asked) - {"GET"} == {"PUT"}


@ON_THE_EMULATOR
def test_each_address_family_has_slices_of_its_own(play: Play) -> None:
    """A pod without an address of a family is in none of its slices."""
    both = play.pod("both")
    ips = [{"ip": "10.1.9.9"}, {"ip": "fd00::9"}]
    play.client.patch(POD, key_of(both), {"status": {"podIP": "10.1.9.9", "podIPs": ips}}, status=True)
    play.pod("old")
    play.begin(ipFamilies=["IPv4", "IPv6"], ipFamilyPolicy="RequireDualStack")
    names = {
        slice_["addressType"]: sorted(each["targetRef"]["name"] for each in slice_["endpoints"])
        for slice_ in play.slices()
    }
    assert names == {"IPv4": ["both", "old"], "IPv6": ["both"]}
