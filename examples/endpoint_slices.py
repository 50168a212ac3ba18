"""EndpointSlices: which pods are behind a Service, for Services that ask for it by a label.

    distq informer examples.endpoint_slices
    distq worker examples.endpoint_slices --concurrency 8
    kubectl label service web endpoints.example.com/managed=true

Source: kubernetes/pkg/controller/endpointslice. Different: slices have neither zones nor topology hints. In a
cluster with kube-controller-manager, which writes slices of its own, each leaves the other's alone: the label
``endpointslice.kubernetes.io/managed-by`` says whose they are.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import Any, NamedTuple

from distq import (
    Client,
    Controller,
    For,
    Owns,
    Request,
    Watches,
    key_of,
    meta_labels_index_func,
    set_controller_reference,
)
from examples.pods import has_ended, is_deleted, is_ready

SERVICE = "v1/Service"
POD = "v1/Pod"
SLICE = "discovery.k8s.io/v1/EndpointSlice"

MANAGED = "endpoints.example.com/managed=true"
SERVICE_NAME = "kubernetes.io/service-name"
HEADLESS = "service.kubernetes.io/headless"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
MANAGER = "endpoint-slices.example.com"

BATCH_PERIOD = 1.0
"""Seconds in which changes of pods are collected: a rollout writes a slice once, and not for each pod."""
MOST = 100
"""So many endpoints are in a slice, and written when one of them changes."""

Object = dict[str, Any]
Endpoints = dict[str, Object]
"""Endpoints by the uid of their pod."""


class Group(NamedTuple):
    """What the endpoints of a slice have in common."""

    family: str
    ports: str
    """As JSON, so that equal ones are equal."""


client = Client()


def reconcile(request: Request) -> None:
    """Bring the slices of a Service to the pods that it selects, and delete those that are left over."""
    service = controller.lister(SERVICE).get(request.key)
    found = controller.lister(SLICE).by_index("service", request.key)
    slices = {slice_["metadata"]["name"]: slice_ for slice_ in found}
    wanted: dict[str, tuple[Group, Endpoints]] = {}
    if service and has_endpoints(service):
        for group, endpoints in grouped(service).items():
            for name, share in packed(service, group, endpoints, slices).items():
                write(service, name, group, share)
                wanted[name] = group, share
    for name in slices.keys() - wanted.keys():
        client.delete(SLICE, f"{request.namespace}/{name}", uid=slices[name]["metadata"]["uid"])


def has_endpoints(service: Object) -> bool:
    """Return whether a Service lives and selects pods; what others write for it is theirs."""
    spec = service["spec"]
    return not is_deleted(service) and bool(spec.get("selector")) and spec.get("type") != "ExternalName"


def grouped(service: Object) -> dict[Group, Endpoints]:
    """Return the endpoints of a Service, by address family and ports; a family without any is there, too."""
    pods = [pod for pod in selected_by(service) if not has_ended(pod)]
    groups: dict[Group, Endpoints] = defaultdict(dict)
    for family in service["spec"].get("ipFamilies") or ["IPv4"]:
        for pod in pods:
            if address := address_of(pod, family):
                group = Group(family, json.dumps(ports_of(service, pod), sort_keys=True))
                groups[group][pod["metadata"]["uid"]] = endpoint(service, pod, address)
        if not any(group.family == family for group in groups):
            groups[Group(family, "[]")] = {}
    return groups


def packed(
    service: Object, group: Group, endpoints: Endpoints, slices: Mapping[str, Object]
) -> dict[str, Endpoints]:
    """Return by name what is in each slice of a group, by as few writes as that takes.

    An endpoint stays in its slice; others go where there is room, and then into new slices.
    """
    most_slices = len(slices) + len(endpoints) // MOST + 1
    names = [slice_name(service, group, number) for number in range(most_slices)]
    shares: dict[str, Endpoints] = {name: {} for name in names}
    left = dict(endpoints)
    for name in names:
        for uid in uids_of(slices.get(name)):
            if uid in left:
                shares[name][uid] = left.pop(uid)
    for name in sorted(names, key=lambda name: name not in slices):
        for uid in list(left)[: MOST - len(shares[name])]:
            shares[name][uid] = left.pop(uid)
    return {name: share for name, share in shares.items() if share} or {names[0]: {}}


def slice_name(service: Object, group: Group, number: int) -> str:
    """Return the name of one of a group's slices: the same after a crash, so that there is no second one."""
    about = service["metadata"]
    digest = hashlib.sha256(f"{about['uid']} {group} {number}".encode()).hexdigest()
    return f"{about['name']}-{digest[:8]}"


def write(service: Object, name: str, group: Group, endpoints: Endpoints) -> None:
    """Make a slice so; nothing is asked where it is so already."""
    about = service["metadata"]

    def fill(slice_: Object) -> None:
        set_controller_reference(service, slice_)
        slice_["metadata"]["labels"] = {
            **about.get("labels", {}),
            **({HEADLESS: ""} if service["spec"].get("clusterIP") == "None" else {}),
            SERVICE_NAME: about["name"],
            MANAGED_BY: MANAGER,
        }
        slice_["ports"] = json.loads(group.ports)
        slice_["endpoints"] = [endpoints[uid] for uid in sorted(endpoints)]

    slice_ = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": about["namespace"]},
        "addressType": group.family,
    }
    client.create_or_update(slice_, fill, lister=controller.lister(SLICE))


def endpoint(service: Object, pod: Object, address: str) -> Object:
    """Return what a slice says of a pod; one that ends may still serve, but is no longer ready."""
    about, spec = pod["metadata"], pod["spec"]
    serving, terminating = is_ready(pod), is_deleted(pod)
    ready = service["spec"].get("publishNotReadyAddresses") or (serving and not terminating)
    found: Object = {
        "addresses": [address],
        "conditions": {"ready": bool(ready), "serving": serving, "terminating": terminating},
        "targetRef": {"kind": "Pod", **{name: about[name] for name in ("namespace", "name", "uid")}},
    }
    if "nodeName" in spec:
        found["nodeName"] = spec["nodeName"]
    if spec.get("hostname") and spec.get("subdomain") == service["metadata"]["name"]:
        found["hostname"] = spec["hostname"]
    return found


def address_of(pod: Object, family: str) -> str | None:
    """Return a pod's first address of a family, None while it has none."""
    addresses = [each["ip"] for each in pod.get("status", {}).get("podIPs") or []]
    return next((each for each in addresses if f"IPv{ip_address(each).version}" == family), None)


def ports_of(service: Object, pod: Object) -> list[Object]:
    """Return the Service's ports as they are on a pod; without those whose names its containers lack."""
    ports = []
    for port in service["spec"].get("ports") or []:
        if number := port_on(pod, port):
            protocols = {name: port[name] for name in ("protocol", "appProtocol") if name in port}
            ports.append({"name": port.get("name", ""), "port": number, **protocols})
    return ports


def port_on(pod: Object, port: Object) -> int | None:
    """Return the number of a Service's port on a pod."""
    target = port.get("targetPort", port["port"])
    if isinstance(target, int):
        return target
    for container in pod["spec"]["containers"]:
        for each in container.get("ports") or []:
            if (each.get("name"), each.get("protocol", "TCP")) == (target, port.get("protocol", "TCP")):
                return int(each["containerPort"])
    return None


def selected_by(service: Object) -> list[Object]:
    """Return the pods that a Service selects."""
    namespace, selector = service["metadata"]["namespace"], service["spec"]["selector"]
    return controller.lister(POD).list(namespace, label_selector=selector)


def services_of(pod: Object) -> Iterator[str]:
    """Yield the Services that select a pod: each is found by the first label of its selector."""
    namespace, labels = pod["metadata"]["namespace"], pod["metadata"].get("labels") or {}
    for key, value in labels.items():
        for service in controller.lister(SERVICE).by_index("selects", f"{namespace} {key}={value}"):
            if service["spec"]["selector"].items() <= labels.items():
                yield key_of(service)


def by_first_label(service: Object) -> list[str]:
    """Return one label of the selector, with the namespace in which it selects."""
    selector = sorted((service["spec"].get("selector") or {}).items())
    return [f"{service['metadata']['namespace']} {key}={value}" for key, value in selector[:1]]


def by_service(slice_: Object) -> list[str]:
    """Return the key of the Service that a slice is for."""
    about = slice_["metadata"]
    return (
        [f"{about['namespace']}/{about['labels'][SERVICE_NAME]}"] if SERVICE_NAME in about["labels"] else []
    )


def uids_of(slice_: Object | None) -> list[str]:
    """Return the uids of the pods in a slice."""
    endpoints = (slice_ or {}).get("endpoints") or []
    return [each["targetRef"]["uid"] for each in endpoints if "uid" in each.get("targetRef", {})]


controller = Controller(
    "endpoint-slices",
    reconcile,
    watches=[
        For(SERVICE, label_selector=MANAGED, cached=True, indexers={"selects": by_first_label}),
        Watches(
            POD, services_of, cached=True, indexers={"labels": meta_labels_index_func}, after=BATCH_PERIOD
        ),
        Owns(
            SLICE,
            label_selector=f"{MANAGED_BY}={MANAGER}",
            cached=True,
            indexers={"service": by_service},
            after=BATCH_PERIOD,
        ),
    ],
    failure_events=True,
)
