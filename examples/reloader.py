"""Reloader: workloads roll out anew when a ConfigMap or Secret that they use changes.

    distq informer examples.reloader
    distq worker examples.reloader --concurrency 8
    kubectl annotate deployment web reloader.stakater.com/auto=true

Source: stakater/Reloader; its annotations ``auto``, ``reload``, ``search``, ``match`` and ``ignore`` mean the
same. Different: a change while nothing runs is found afterwards, since an annotation of each workload has the
digests that its pods began with; names are no regular expressions; of the kinds there are Deployments,
DaemonSets and StatefulSets. No value of a Secret gets into Redis, or into an annotation.
"""

import hashlib
import hmac
import json
from collections.abc import Iterable, Iterator
from typing import Any

from distq import Client, Controller, For, Request, TerminalError, Watches, key_of
from distq.controller.predicate import annotations_changed, generation_changed

SOURCES = ("v1/ConfigMap", "v1/Secret")

PREFIX = "reloader.stakater.com"
AUTO, SEARCH, MATCH, IGNORE = (f"{PREFIX}/{word}" for word in ("auto", "search", "match", "ignore"))

NOTED = "reloader.example.com/noted"
"""A workload's annotation: the digest of each source that its pods have, or will have."""

RELOADED = f"{PREFIX}/last-reloaded-from"
"""An annotation of the pod template: the digests that made it roll out last."""

Object = dict[str, Any]

client = Client()


class BadNote(TerminalError):
    """Somebody changed the annotation with the digests. Without it they are noted anew."""


class Reloader:
    """The controller of one kind of workload."""

    def __init__(self, kind: str) -> None:
        self.workload = f"apps/v1/{kind}"
        self.controller = Controller(
            f"reload-{kind.lower()}s",
            self.reconcile,
            watches=[
                For(
                    self.workload,
                    predicates=generation_changed | annotations_changed,
                    cached=True,
                    indexers={"source": by_source},
                ),
                *(Watches(each, self.users, cached=True, transform=without_values) for each in SOURCES),
            ],
            failure_events=True,
        )

    def users(self, source: Object) -> list[str]:
        """Return the workloads that a ConfigMap or Secret may concern."""
        workloads = self.controller.lister(self.workload)
        return [key_of(each) for each in workloads.by_index("source", name_of(source))]

    def reconcile(self, request: Request) -> None:
        """Roll out a workload one of whose sources is not what it was, and note what they are."""
        workload = self.controller.lister(self.workload).get(request.key)
        if workload is None:
            return
        sources = {name: self.source(name) for name in by_source(workload)}
        before = {name: digest for name, digest in noted(workload).items() if name in sources}
        now = before | {name: source["digest"] for name, source in sources.items() if source}
        if now == noted(workload):
            return
        changed = [
            name
            for name, source in sources.items()
            if source and before.get(name, now[name]) != now[name] and reloads(workload, source)
        ]
        self.note(workload, now, {name: now[name] for name in changed})

    def note(self, workload: Object, digests: dict[str, str], changed: dict[str, str]) -> None:
        """Note the digests, and in the same write roll out the workload where some have changed."""
        note = json.dumps(digests, sort_keys=True) if digests else None
        patch: Object = {"metadata": {"annotations": {NOTED: note}}}
        if changed:
            patch["spec"] = {"template": {"metadata": {"annotations": {RELOADED: json.dumps(changed)}}}}
        client.patch(self.workload, key_of(workload), patch)
        if changed:
            client.event(workload, "Reloaded", f"changed: {', '.join(changed)}")

    def source(self, name: str) -> Object | None:
        """Return a ConfigMap or Secret as it is cached."""
        kind, _, key = name.partition(" ")
        return self.controller.lister(f"v1/{kind}").get(key)


def reloads(workload: Object, source: Object) -> bool:
    """Return whether a change of the source, which the workload uses or names, is to roll it out."""
    wishes, about = annotations_of(workload), annotations_of(source)
    kind = source["kind"].lower()
    if about.get(IGNORE) == "true":
        return False
    if name_of(source) in named(workload):
        return True
    if "true" in (wishes.get(AUTO), wishes.get(f"{kind}.{AUTO}")):
        return True
    return wishes.get(SEARCH) == "true" and about.get(MATCH) == "true"


def noted(workload: Object) -> dict[str, str]:
    """Return the digests that the workload bears; raise BadNote."""
    text = workload["metadata"].get("annotations", {}).get(NOTED, "{}")
    try:
        digests = json.loads(text)
    except ValueError:
        digests = None
    if not isinstance(digests, dict) or not all(isinstance(each, str) for each in digests.values()):
        raise BadNote(f"annotation {NOTED} is no JSON of digests: remove it")
    return digests


def by_source(workload: Object) -> list[str]:
    """Return all that a workload uses or names, where it asks for anything at all."""
    wishes = annotations_of(workload)
    asks = "true" in (wishes.get(wish) for wish in (AUTO, SEARCH, f"configmap.{AUTO}", f"secret.{AUTO}"))
    return sorted({*named(workload), *(used(workload) if asks else ())})


def named(workload: Object) -> Iterator[str]:
    """Yield what the annotations name, used or not."""
    namespace, wishes = workload["metadata"]["namespace"], annotations_of(workload)
    for kind in ("ConfigMap", "Secret"):
        for name in wishes.get(f"{kind.lower()}.{PREFIX}/reload", "").split(","):
            if name.strip():
                yield f"{kind} {namespace}/{name.strip()}"


def used(workload: Object) -> Iterator[str]:
    """Yield what the pods mount, or have in their environment."""
    namespace, pod = workload["metadata"]["namespace"], workload["spec"]["template"]["spec"]
    containers = [*(pod.get("initContainers") or []), *pod["containers"]]
    variables = [each.get("valueFrom") or {} for one in containers for each in one.get("env") or []]
    environments = [each for one in containers for each in one.get("envFrom") or []]
    volumes = list(pod.get("volumes") or [])
    projected = [each for one in volumes for each in (one.get("projected") or {}).get("sources") or []]
    places: tuple[tuple[str, str, str, Iterable[Object]], ...] = (
        ("ConfigMap", "configMapKeyRef", "name", variables),
        ("Secret", "secretKeyRef", "name", variables),
        ("ConfigMap", "configMapRef", "name", environments),
        ("Secret", "secretRef", "name", environments),
        ("ConfigMap", "configMap", "name", [*volumes, *projected]),
        ("Secret", "secret", "secretName", volumes),
        ("Secret", "secret", "name", projected),
    )
    for kind, field, name, where in places:
        for each in where:
            if each.get(field, {}).get(name):
                yield f"{kind} {namespace}/{each[field][name]}"


def annotations_of(obj: Object) -> dict[str, str]:
    """Return the annotations of an object, and of a workload's pod template, where its own say nothing."""
    template = obj.get("spec", {}).get("template", {}).get("metadata", {})
    return {**(template.get("annotations") or {}), **(obj["metadata"].get("annotations") or {})}


def name_of(source: Object) -> str:
    """Return what notes call a ConfigMap or Secret."""
    return f"{source['kind']} {key_of(source)}"


def without_values(source: Object) -> Object:
    """Return what Redis gets of a ConfigMap or Secret: what people say of it, and a digest."""
    about = source["metadata"]
    wishes = {
        name: text for name, text in (about.get("annotations") or {}).items() if name in {MATCH, IGNORE}
    }
    metadata = {"name": about["name"], "namespace": about["namespace"], "annotations": wishes}
    return {"kind": source["kind"], "metadata": metadata, "digest": digest_of(source)}


def digest_of(source: Object) -> str:
    """Return a text that changes with the data.

    Users with the right to read workloads see the digest, and could guess a weak password by it: so the key
    is the uid, which is shown with the Secret alone. A Secret that is made anew counts as changed, as in the
    original.
    """
    data = json.dumps([source.get("data"), source.get("binaryData")], sort_keys=True)
    return hmac.new(source["metadata"]["uid"].encode(), data.encode(), hashlib.sha256).hexdigest()[:16]


deployments = Reloader("Deployment").controller
daemon_sets = Reloader("DaemonSet").controller
stateful_sets = Reloader("StatefulSet").controller
