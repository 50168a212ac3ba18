"""What kube-controller-manager does with owners and their dependents: garbage collection.

Objects whose owners are all gone are deleted, soon after and in the background;
so are those created for an owner that is gone already. Foreground deletion
removes the dependents before the owner, orphaning takes the reference away.
Source: kubernetes pkg/controller/garbagecollector.
"""

from collections import defaultdict
from typing import Any

from distq.testing.apiserver.admission import PROTECTION
from distq.testing.apiserver.backlog import Backlog
from distq.testing.apiserver.registry import FOREGROUND, ORPHAN, DeleteOptions, Registry
from distq.testing.apiserver.resources import Catalogue
from distq.testing.apiserver.store import Collection, Content, Store, Stored, StoreEvent

Place = tuple[tuple[str, str], str]
"""Where an object lives: its resource's identity and its key."""


class GarbageCollector:
    """Follows all owner references, and deletes what nothing owns any longer."""

    def __init__(self, store: Store, catalogue: Catalogue, registry: Registry) -> None:
        self._store = store
        self._catalogue = catalogue
        self._registry = registry
        self._living: dict[str, Place] = {}
        self._dependents: dict[str, set[Place]] = defaultdict(set)
        self._backlog = Backlog(self._attend)
        self.run = self._backlog.run
        store.observers.append(self._observe)

    def _observe(self, collection: Collection, event: StoreEvent) -> None:
        place = collection.identity, event.key
        before = _owners(event.before)
        after = _owners(event.after)
        for uid in before - after:
            self._dependents[uid].discard(place)
            if not self._dependents[uid]:
                del self._dependents[uid]
        for uid in after - before:
            self._dependents[uid].add(place)
        if event.gone:
            self._bury(event.current)
        else:
            self._living[event.current.metadata["uid"]] = place
            if after or "deletionTimestamp" in event.current.metadata:
                self._backlog.add(place)

    def _bury(self, dead: Stored) -> None:
        uid = dead.metadata["uid"]
        self._living.pop(uid, None)
        self._backlog.add(*self._dependents.get(uid, ()))
        for owner in _owners(dead) & self._living.keys():
            self._backlog.add(self._living[owner])  # it may wait for its dependents

    def _attend(self, place: Place) -> None:
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
        finalizers = owner.metadata.get("finalizers", ())
        protection = PROTECTION.get(place[0])
        if protection in finalizers:
            self._rewrite(place, finalizers=[each for each in finalizers if each != protection])
            return
        uid = owner.metadata["uid"]
        dependents = list(self._dependents.get(uid, ()))
        if ORPHAN in finalizers:
            for each in dependents:
                if (dependent := self._find(each)) is not None:
                    self._disown(each, dependent, {uid})
            self._rewrite(place, finalizers=[each for each in finalizers if each != ORPHAN])
        elif FOREGROUND in finalizers:
            for each in dependents:
                self._delete(each)
            if not self._dependents.get(uid):
                self._rewrite(place, finalizers=[each for each in finalizers if each != FOREGROUND])

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
        resource = self._catalogue.of(place[0])
        namespace, _, name = place[1].rpartition("/")
        if resource is not None:
            self._registry.update(resource, namespace, name, lambda old: _with_metadata(old or {}, fields))


def _with_metadata(content: Content, fields: dict[str, list[Any]]) -> Content:
    metadata = content["metadata"] | fields
    return content | {"metadata": {field: value for field, value in metadata.items() if value != []}}


def _owners(stored: Stored | None) -> set[str]:
    if stored is None:
        return set()
    return {each["uid"] for each in stored.metadata.get("ownerReferences", ())}
