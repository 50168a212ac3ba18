"""What kube-controller-manager does with namespaces that are deleted: it empties them, and lets them go.

A namespace is Terminating until nothing is left in it and no finalizer holds
it; its conditions say what it waits for. Pods go before everything else.
Source: kubernetes pkg/controller/namespace/deletion.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from distq.testing.apiserver.backlog import Backlog
from distq.testing.apiserver.built_in_kinds import built_in
from distq.testing.apiserver.conditions import with_condition
from distq.testing.apiserver.registry import DeleteOptions, Registry
from distq.testing.apiserver.resources import NAMESPACES, PODS, Catalogue, ServedResource
from distq.testing.apiserver.store import Collection, Content, Store, Stored, StoreEvent

_FINALIZER = "kubernetes"


class NamespaceController:
    """Follows namespaces that are being deleted, and what is left in them."""

    def __init__(self, store: Store, catalogue: Catalogue, registry: Registry) -> None:
        self._store = store
        self._catalogue = catalogue
        self._registry = registry
        self._terminating: set[str] = set()
        self._backlog = Backlog(self._attend)
        self.run = self._backlog.run
        store.observers.append(self._observe)

    def _observe(self, collection: Collection, event: StoreEvent) -> None:
        if collection.identity == NAMESPACES.identity:
            if event.gone:
                self._terminating.discard(event.key)
            elif "deletionTimestamp" in event.current.metadata:
                self._terminating.add(event.key)
                self._backlog.add(event.key)
        elif (namespace := event.current.metadata.get("namespace", "")) in self._terminating:
            self._backlog.add(namespace)

    def _attend(self, name: str) -> None:
        namespace = self._store.collection(NAMESPACES.identity).get(name)
        if namespace is None or not namespace.content["spec"].get("finalizers"):
            return
        if self._emptied(name, PODS):
            self._report(namespace, {})
            return
        left = {each: objects for each in self._resources() if (objects := self._emptied(name, each))}
        namespace = self._report(namespace, left)
        if not left:
            finalizers = [each for each in namespace.content["spec"]["finalizers"] if each != _FINALIZER]
            self._update(namespace, "finalize", spec={"finalizers": finalizers} if finalizers else {})

    def _resources(self) -> Iterator[ServedResource]:
        """Yield what has namespaces, each at one of its versions."""
        for collection in self._store:
            resource = self._catalogue.of(collection.identity)
            if resource is not None and resource.namespaced:
                yield resource

    def _emptied(self, namespace: str, resource: ServedResource) -> list[Stored]:
        """Delete the resource's objects in a namespace; return those that finalizers hold."""
        collection = self._store.collection(resource.identity)
        for stored in list(collection.scan(f"{namespace}/")):
            self._registry.delete(
                resource, stored.key, DeleteOptions(propagation="Background", grace_period=0)
            )
        return list(collection.scan(f"{namespace}/"))

    def _report(self, namespace: Stored, left: Mapping[ServedResource, list[Stored]]) -> Stored:
        wrong, status = dict(_what_is_left(left)), namespace.content["status"]
        for kind, fine in built_in()["namespace_conditions"].items():
            reason, message = wrong.get(kind, fine)
            status = with_condition(status, kind, str(kind in wrong), reason=reason, message=message)
        return self._update(namespace, "status", status=status)

    def _update(self, namespace: Stored, subresource: str, **fields: Content) -> Stored:
        new = namespace.content | {"metadata": dict(namespace.metadata)} | fields
        written = self._registry.update(
            NAMESPACES, "", namespace.name, lambda _: new, subresource=subresource
        )
        return written.stored


def _what_is_left(left: Mapping[ServedResource, list[Stored]]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the conditions that are True, with reason and message."""
    if not left:
        return
    kinds = (
        f"{each.plural}.{each.group} has {len(objects)} resource instances" for each, objects in left.items()
    )
    yield (
        "NamespaceContentRemaining",
        ("SomeResourcesRemain", f"Some resources are remaining: {', '.join(sorted(kinds))}"),
    )
    held = Counter(
        finalizer
        for objects in left.values()
        for stored in objects
        for finalizer in stored.metadata.get("finalizers", ())
    )
    listed = ", ".join(
        sorted(f"{finalizer} in {count} resource instances" for finalizer, count in held.items())
    )
    yield (
        "NamespaceFinalizersRemaining",
        ("SomeFinalizersRemain", f"Some content in the namespace has finalizers remaining: {listed}"),
    )
