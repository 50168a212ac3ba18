"""ClusterSecret: a Secret that many namespaces need, kept the same in all that match.

    kubectl apply -f examples/cluster-secret-crd.yaml
    distq informer examples.cluster_secret
    distq worker examples.cluster_secret --concurrency 8
    kubectl apply -f examples/cluster-secret.yaml

Source: zakkg3/ClusterSecret, an operator on kopf; its objects and the copies that it made are taken as they
are. Different: a copy that is changed or deleted comes back, a change of the Secret that ``valueFrom`` names
is followed, a Secret that was there before is never replaced, and a condition shows why a namespace has no
copy. Redis gets a digest of each copy, and no value.
"""

import hashlib
import json
import re
from copy import deepcopy
from typing import Any

from distq import (
    Client,
    Controller,
    For,
    Owns,
    Request,
    TerminalError,
    Watches,
    key_of,
    owned_by,
    set_condition,
    set_controller_reference,
)
from distq.controller.event import Event
from distq.controller.predicate import annotations_changed, generation_changed, labels_changed
from distq.errors import ApiError, NotFound

CLUSTER_SECRET = "clustersecret.io/v1/ClusterSecret"
SECRET = "v1/Secret"
NAMESPACE = "v1/Namespace"

LABELS = {"clustersecret.io": "true"}
ANNOTATIONS = {"clustersecret.io/created-by": "ClusterSecrets"}
NOT_COPIED = ("kopf.zalando.org", "kubectl.kubernetes.io", "app.kubernetes.io")

FINALIZER = "clustersecret.io/copies"
FINALIZER_OF_KOPF = "kopf.zalando.org/KopfFinalizerMarker"

Object = dict[str, Any]

client = Client()


class BadPattern(TerminalError):
    """A pattern of namespaces is no regular expression. The names of errors are reasons of events."""


class BadSource(TerminalError):
    """``valueFrom`` names no Secret, or the object has data of its own, too."""


class SourceNotFound(TerminalError):
    """The Secret that ``valueFrom`` names is not there. Its creation is an event, which revives the item."""


class SomebodyElses(Exception):
    """A namespace has a Secret of the name that is no copy. Its deletion is an event, too."""


def reconcile(request: Request) -> None:
    """Bring the copies of a ClusterSecret to where they belong, and say in its status where they are."""
    cluster_secret = client.get(CLUSTER_SECRET, request.key)
    if cluster_secret is None:
        return  # its copies went before it
    copies = copies_of(cluster_secret)
    if cluster_secret["metadata"].get("deletionTimestamp"):
        delete(*copies.values())
        for finalizer in (FINALIZER, FINALIZER_OF_KOPF):
            client.remove_finalizer(cluster_secret, finalizer)
        return
    cluster_secret = client.add_finalizer(cluster_secret, FINALIZER)  # before there is anything to delete
    try:
        content, namespaces = content_of(cluster_secret), namespaces_of(cluster_secret)
    except TerminalError as error:
        report(cluster_secret, list(copies), type(error).__name__, str(error))
        raise
    delete(*(copy for namespace, copy in copies.items() if namespace not in namespaces))
    refused = spread(cluster_secret, content, namespaces, copies)
    there = [namespace for namespace in namespaces if namespace not in refused]
    if refused:
        report(cluster_secret, there, "Refused", summary(refused))
    else:
        report(cluster_secret, there, "Synced", f"copied to {len(there)} namespaces")
    for refusal in refused.values():
        if isinstance(refusal, ApiError) and not isinstance(refusal, NotFound):
            raise refusal  # no event comes when a quota is raised, but one does for a namespace that is gone


def spread(
    cluster_secret: Object, content: Object, namespaces: list[str], copies: dict[str, Object]
) -> dict[str, Exception]:
    """Write the copies that are missing or differ; return by namespace what refused one."""
    refused: dict[str, Exception] = {}
    outdated = [each for each in namespaces if each not in copies or not has(copies[each], content)]
    for namespace in outdated:
        copy = copies.get(namespace)
        try:
            if copy and copy["type"] != content["type"]:
                delete(copy)  # a type cannot be changed
            write(cluster_secret, content, namespace)
        except (ApiError, SomebodyElses) as error:
            if isinstance(error, ApiError) and (error.status in {0, 429} or error.status >= 500):
                raise  # that is no namespace's fault
            refused[namespace] = error
    if len(outdated) > len(refused):
        client.event(cluster_secret, "Copied", f"copied to {len(outdated) - len(refused)} namespaces")
    return refused


def write(cluster_secret: Object, content: Object, namespace: str) -> None:
    """Write one copy; raise SomebodyElses where the Secret of that name is none."""
    name = cluster_secret["metadata"]["name"]

    def fill(secret: Object) -> None:
        about = secret["metadata"]
        made_here = (about.get("annotations") or {}).items() >= ANNOTATIONS.items()
        if about.get("uid") and not (made_here or owned_by(secret, cluster_secret)):
            raise SomebodyElses(f"Secret {namespace}/{name} is not a copy")
        set_controller_reference(cluster_secret, secret)
        for part in ("labels", "annotations"):
            about[part] = {**(about.get(part) or {}), **content[part]}
        secret["type"], secret["data"] = content["type"], content["data"]

    metadata = {"name": name, "namespace": namespace}
    client.create_or_update({"apiVersion": "v1", "kind": "Secret", "metadata": metadata}, fill)


def delete(*copies: Object) -> None:
    """Delete these very copies, and not what has their names since."""
    for copy in copies:
        client.delete(SECRET, key_of(copy), uid=copy["metadata"]["uid"])


def report(cluster_secret: Object, namespaces: list[str], reason: str, message: str) -> None:
    """Say in the status where copies are, and whether that is all; nothing is written if it says so."""
    wanted = deepcopy(cluster_secret)
    set_condition(wanted, "Synced", reason == "Synced", reason=reason, message=message)
    wanted["status"]["namespaces"] = sorted(namespaces)
    client.patch_status(cluster_secret, wanted["status"])


def summary(refused: dict[str, Exception], most: int = 5) -> str:
    """Return what refused copies, shortened where there is much of it."""
    lines = [f"{namespace}: {error}" for namespace, error in refused.items()]
    more = [f"and {len(lines) - most} more"] if len(lines) > most else []
    return "; ".join(lines[:most] + more)


def namespaces_of(cluster_secret: Object) -> list[str]:
    """Return the namespaces that match and are not to be avoided, less those that go; raise BadPattern."""
    try:
        match = [re.compile(pattern) for pattern in cluster_secret.get("matchNamespace") or [".*"]]
        avoid = [re.compile(pattern) for pattern in cluster_secret.get("avoidNamespaces") or []]
    except re.error as error:
        raise BadPattern(f"{error.pattern!r}: {error}") from None
    there = controller.lister(NAMESPACE).list()
    names = [each["metadata"]["name"] for each in there if "deletionTimestamp" not in each["metadata"]]
    return sorted(
        name
        for name in names
        if any(pattern.match(name) for pattern in match)
        and not any(pattern.match(name) for pattern in avoid)
        and f"{name}/{cluster_secret['metadata']['name']}" not in by_source(cluster_secret)
    )


def content_of(cluster_secret: Object) -> Object:
    """Return what each copy has; raise BadSource or SourceNotFound."""
    about, data = cluster_secret["metadata"], cluster_secret.get("data") or {}
    if "valueFrom" in data:
        data = taken_from(data)
    return {
        "type": cluster_secret.get("type") or "Opaque",
        "data": data,
        "labels": {**copied(about.get("labels")), **LABELS},
        "annotations": {**copied(about.get("annotations")), **ANNOTATIONS},
    }


def taken_from(data: Object) -> dict[str, str]:
    """Return the data of the Secret that ``valueFrom`` names, or the keys of it that are asked for."""
    sources = by_source({"data": data})
    if len(data) > 1 or not sources:
        raise BadSource("give valueFrom alone, with a secretKeyRef of namespace and name")
    secret = client.get(SECRET, sources[0])
    if secret is None:
        raise SourceNotFound(f"there is no Secret {sources[0]}")
    values = secret.get("data") or {}
    keys = data["valueFrom"]["secretKeyRef"].get("keys") or values
    return {key: values[key] for key in keys if key in values}


def copied(texts: dict[str, str] | None) -> dict[str, str]:
    """Return the labels or annotations that copies get: what kubectl applied last has the values in it."""
    return {name: text for name, text in (texts or {}).items() if not name.startswith(NOT_COPIED)}


def copies_of(cluster_secret: Object) -> dict[str, Object]:
    """Return the copies by namespace, as they are cached."""
    found = controller.lister(SECRET).by_index("owner", cluster_secret["metadata"]["uid"])
    return {copy["metadata"]["namespace"]: copy for copy in found}


def has(copy: Object, content: Object) -> bool:
    """Return whether a cached copy has this content; other labels and annotations are not ours."""
    about = copy["metadata"]
    return (copy["type"], copy["digest"]) == (content["type"], digest(content["data"])) and all(
        about[part].items() >= content[part].items() for part in ("labels", "annotations")
    )


def without_values(secret: Object) -> Object:
    """Return what Redis gets of a copy: a digest shows whether it is as it should be."""
    about = secret["metadata"]
    kept = {name: about[name] for name in ("name", "namespace", "uid", "ownerReferences") if name in about}
    for part in ("labels", "annotations"):
        kept[part] = copied(about.get(part))
    return {"metadata": kept, "type": secret.get("type"), "digest": digest(secret.get("data") or {})}


def without_data(cluster_secret: Object) -> Object:
    """Return what Redis gets of a ClusterSecret: its name, and which Secret its data is in."""
    data = cluster_secret.get("data") or {}
    named = {"valueFrom": data["valueFrom"]} if "valueFrom" in data else {}
    return {"metadata": {"name": cluster_secret["metadata"]["name"]}, "data": named}


def digest(data: dict[str, str]) -> str:
    """Return what differs where data does."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def by_owner(secret: Object) -> list[str]:
    """Return the uid of the object that controls a Secret."""
    owners = secret["metadata"].get("ownerReferences") or []
    return [owner["uid"] for owner in owners if owner.get("controller")]


def by_source(cluster_secret: Object) -> list[str]:
    """Return the key of the Secret that a ClusterSecret takes its data from."""
    match cluster_secret.get("data"):
        case {"valueFrom": {"secretKeyRef": {"namespace": str(namespace), "name": str(name)}}}:
            return [f"{namespace}/{name}"]
    return []


def concerned(secret: Object) -> list[str]:
    """Return who takes data from a Secret, and the ClusterSecret of its name, whose copy it may hinder."""
    cluster_secrets = controller.lister(CLUSTER_SECRET)
    namesake = cluster_secrets.get(secret["metadata"]["name"])
    users = cluster_secrets.by_index("source", key_of(secret))
    return [key_of(each) for each in (*users, namesake) if each]


def every(namespace: Object) -> list[str]:  # noqa: ARG001 - each knows by itself whether it matches
    """Return all ClusterSecrets."""
    return [key_of(each) for each in controller.lister(CLUSTER_SECRET).list()]


def comes_or_goes(event: Event) -> bool:
    """Return whether a namespace is new, begins to be deleted, or is gone."""
    return event.type != "update" or "deletionTimestamp" in event.metadata


controller = Controller(
    "cluster-secrets",
    reconcile,
    watches=[
        For(
            CLUSTER_SECRET,
            predicates=generation_changed | labels_changed | annotations_changed,
            cached=True,
            transform=without_data,
            indexers={"source": by_source},
        ),
        Owns(
            SECRET,
            label_selector="clustersecret.io=true",
            cached=True,
            transform=without_values,
            indexers={"owner": by_owner},
        ),
        Watches(SECRET, concerned, metadata_only=True),
        Watches(NAMESPACE, every, predicates=comes_or_goes, cached=True, metadata_only=True),
    ],
    failure_events=True,
)
