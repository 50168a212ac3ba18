"""What kube-controller-manager does in the emulated cluster: it collects garbage, and empties namespaces.

Source: kubernetes pkg/controller/garbagecollector, pkg/controller/namespace/deletion.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Generic, TypeVar

from distq.testing.apiserver.objects import with_condition
from distq.testing.apiserver.registry import FOREGROUND, ORPHAN, DeleteOptions, Registry
from distq.testing.apiserver.resources import (
    DEFINITIONS,
    NAMESPACES,
    PODS,
    Catalogue,
    ServedResource,
    built_in,
)
from distq.testing.apiserver.status import StatusError
from distq.testing.apiserver.store import Collection, Stored, StoreEvent

_log = logging.getLogger(__name__)
_FINALIZER = "kubernetes"
Key = TypeVar("Key")
Place = tuple[tuple[str, str], str]
"""Where an object lives: its resource's identity and its key."""


class ClusterController(Generic[Key]):
    """Observes every change of the store, and reconciles keys: each once, in the order of their adds."""

    def __init__(self, catalogue: Catalogue, registry: Registry) -> None:
        self._store = registry.store
        self._catalogue = catalogue
        self._registry = registry
        self._keys: dict[Key, None] = {}
        self._wake = asyncio.Event()
        self._store.observers.append(self.observe)

    def observe(self, collection: Collection, event: StoreEvent) -> None:
        """Add the keys that a change concerns."""
        raise NotImplementedError

    def reconcile(self, key: Key) -> None:
        """Do what is to be done about a key."""
        raise NotImplementedError

    def add(self, *keys: Key) -> None:
        """Let the keys be reconciled, soon after and in the background."""
        self._keys.update(dict.fromkeys(keys))
        self._wake.set()

    async def run(self) -> None:
        """Reconcile for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._keys:
                key = next(iter(self._keys))
                del self._keys[key]
                try:
                    self.reconcile(key)
                except StatusError as error:
                    _log.warning("The emulated API server refused its own controller: %s", error)
                await asyncio.sleep(0)  # requests come between two keys


class GarbageCollector(ClusterController[Place]):
    """Follows all owner references, and deletes what nothing owns any longer.

    Objects whose owners are all gone are deleted, and so are those created for an owner that is gone already.
    Foreground deletion removes the dependents before the owner, orphaning takes the reference away.
    """

    def __init__(self, catalogue: Catalogue, registry: Registry) -> None:
        super().__init__(catalogue, registry)
        self._living: dict[str, Place] = {}
        self._dependents: dict[str, set[Place]] = defaultdict(set)

    def observe(self, collection: Collection, event: StoreEvent) -> None:
        """Add the keys that a change concerns."""
        place = collection.identity, event.current.key
        before, after = _owners(event.before), _owners(None if event.gone else event.current)
        for owner in before - after:
            self._dependents[owner].discard(place)
            if not self._dependents[owner]:
                del self._dependents[owner]
        for owner in after - before:
            self._dependents[owner].add(place)
        uid = event.current.metadata["uid"]
        if event.gone:
            self._living.pop(uid, None)
            waiting = (self._living[owner] for owner in _owners(event.current) & self._living.keys())
            plural_and_group = ".".join(reversed(collection.identity))  # the name of its definition, if any
            self.add(*self._dependents.get(uid, ()), *waiting, (DEFINITIONS.identity, plural_and_group))
        else:
            self._living[uid] = place
            if after or "deletionTimestamp" in event.current.metadata:
                self.add(place)

    def reconcile(self, place: Place) -> None:
        """Delete an object that nothing owns, or do what its own deletion asks for."""
        stored = self._find(place)
        if stored is None:
            return
        owners = _owners(stored)
        if owners and not owners & self._living.keys():
            self._delete(place)
        elif gone := owners - self._living.keys():
            self._disown(place, stored, gone)
        elif "deletionTimestamp" in stored.metadata:
            self._finish(place, stored)

    def _finish(self, place: Place, owner: Stored) -> None:
        """Do what the finalizers of garbage collection ask for."""
        finalizers, resource = owner.metadata.get("finalizers", ()), self._catalogue.of(place[0])
        rules = resource.rules if resource else {}
        own = rules.get("protection") or rules.get("cleanup") or ""
        if own in finalizers:
            if place[0] != DEFINITIONS.identity or self._is_emptied(owner):
                self._release(place, owner, own)
            return
        uid = owner.metadata["uid"]
        dependents = list(self._dependents.get(uid, ()))
        if ORPHAN in finalizers:
            for each in dependents:
                if (dependent := self._find(each)) is not None:
                    self._disown(each, dependent, {uid})
            self._release(place, owner, ORPHAN)
        elif FOREGROUND in finalizers:
            for each in dependents:
                self._delete(each)
            if not self._dependents.get(uid):
                self._release(place, owner, FOREGROUND)

    def _is_emptied(self, definition: Stored) -> bool:
        """Delete the custom resources of a definition; return whether none is left."""
        spec = definition.content["spec"]
        identity = spec["group"], spec["names"]["plural"]
        collection = self._store.collection(identity)
        for stored in list(collection.scan()):  # a list: deletions change the collection
            self._delete((identity, stored.key))
        return next(collection.scan(), None) is None

    def _release(self, place: Place, owner: Stored, finalizer: str) -> None:
        kept = [each for each in owner.metadata["finalizers"] if each != finalizer]
        self._rewrite(place, finalizers=kept)

    def _find(self, place: Place) -> Stored | None:
        return self._store.collection(place[0]).get(place[1])

    def _delete(self, place: Place) -> None:
        resource = self._catalogue.of(place[0])
        if resource is not None and self._find(place) is not None:
            self._registry.delete(resource, place[1], DeleteOptions(propagation="Background"))

    def _disown(self, place: Place, dependent: Stored, owners: set[str]) -> None:
        references = dependent.metadata["ownerReferences"]
        self._rewrite(place, ownerReferences=[each for each in references if each["uid"] not in owners])

    def _rewrite(self, place: Place, **fields: list[Any]) -> None:
        resource, stored = self._catalogue.of(place[0]), self._find(place)
        if resource is not None and stored is not None:
            metadata = {name: value for name, value in (stored.metadata | fields).items() if value != []}
            self._registry.rewrite(resource, stored, metadata=metadata)


def _owners(stored: Stored | None) -> set[str]:
    if stored is None:
        return set()
    return {each["uid"] for each in stored.metadata.get("ownerReferences", ())}


class NamespaceController(ClusterController[str]):
    """Empties namespaces that are being deleted, and lets them go; their conditions name what they wait for.

    A namespace is Terminating until nothing is left in it and no finalizer holds it. Pods go before
    everything else.
    """

    def __init__(self, catalogue: Catalogue, registry: Registry) -> None:
        super().__init__(catalogue, registry)
        self._terminating: set[str] = set()

    def observe(self, collection: Collection, event: StoreEvent) -> None:
        """Add the keys that a change concerns."""
        if collection.identity == NAMESPACES.identity:
            if event.gone:
                self._terminating.discard(event.current.key)
            elif "deletionTimestamp" in event.current.metadata:
                self._terminating.add(event.current.key)
                self.add(event.current.key)
        elif (namespace := event.current.metadata.get("namespace", "")) in self._terminating:
            self.add(namespace)

    def reconcile(self, name: str) -> None:
        """Empty a namespace; let it go once nothing is left in it."""
        namespace = self._store.collection(NAMESPACES.identity).get(name)
        if namespace is None or not namespace.content["spec"].get("finalizers"):
            return
        if self._emptied(name, PODS):
            self._report(namespace, {})
            return
        served = filter(None, (self._catalogue.of(collection.identity) for collection in self._store))
        resources = [each for each in served if each.namespaced]
        left = {each: objects for each in resources if (objects := self._emptied(name, each))}
        namespace = self._report(namespace, left)
        if not left:
            finalizers = [each for each in namespace.content["spec"]["finalizers"] if each != _FINALIZER]
            spec = {"finalizers": finalizers} if finalizers else {}
            self._registry.rewrite(NAMESPACES, namespace, "finalize", spec=spec)

    def _emptied(self, namespace: str, resource: ServedResource) -> list[Stored]:
        """Delete the resource's objects in a namespace; return those that finalizers hold."""
        collection = self._store.collection(resource.identity)
        options = DeleteOptions(propagation="Background", grace_period=0)
        for stored in list(collection.scan(f"{namespace}/")):
            self._registry.delete(resource, stored.key, options)
        return list(collection.scan(f"{namespace}/"))

    def _report(self, namespace: Stored, left: Mapping[ServedResource, list[Stored]]) -> Stored:
        wrong, status = dict(_what_is_left(left)), namespace.content["status"]
        for kind, fine in built_in()["namespace_conditions"].items():
            reason, message = wrong.get(kind, fine)
            status = with_condition(status, kind, str(kind in wrong), reason=reason, message=message)
        return self._registry.rewrite(NAMESPACES, namespace, "status", status=status)


def _what_is_left(left: Mapping[ServedResource, list[Stored]]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the conditions that are True, with reason and message."""
    if not left:
        return
    kinds = {f"{each.plural}.{each.group}": len(objects) for each, objects in left.items()}
    listed = ", ".join(sorted(f"{kind} has {count} resource instances" for kind, count in kinds.items()))
    remaining = f"Some resources are remaining: {listed}"
    yield "NamespaceContentRemaining", ("SomeResourcesRemain", remaining)
    objects = chain(*left.values())
    held = Counter(chain.from_iterable(each.metadata.get("finalizers", ()) for each in objects))
    listed = ", ".join(sorted(f"{name} in {count} resource instances" for name, count in held.items()))
    remaining = f"Some content in the namespace has finalizers remaining: {listed}"
    yield "NamespaceFinalizersRemaining", ("SomeFinalizersRemain", remaining)
