"""Create, update, patch, apply and delete: what happens to objects, from any request.

Source: apiserver pkg/registry/generic/registry/store.go.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from distq.testing.apiserver import objects, strategies
from distq.testing.apiserver.causes import no_choice, wrong
from distq.testing.apiserver.requests import Target
from distq.testing.apiserver.resources import DEFINITIONS, NAMESPACES, ServedResource
from distq.testing.apiserver.status import (
    StatusError,
    already_exists,
    conflict,
    forbidden,
    invalid,
    invalid_options,
    not_found,
)
from distq.testing.apiserver.store import Collection, Content, Store, Stored
from distq.testing.apiserver.structural import same_value

_PERMANENT_NAMESPACES = {"default", "kube-system", "kube-public"}
FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


@dataclass(frozen=True, kw_only=True, slots=True)
class DeleteOptions:
    """How to delete (metav1.DeleteOptions)."""

    uid: str | None = None
    resource_version: str | None = None
    propagation: str = ""
    """Background, Foreground or Orphan; empty is what the kind does."""
    grace_period: int | None = None
    """How many seconds a Pod has to end; by default what its spec says."""

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Self:
        """Return how to delete, as DeleteOptions in a body say it."""
        preconditions, period = given.get("preconditions", {}), given.get("gracePeriodSeconds")
        propagation, orphans = given.get("propagationPolicy", ""), given.get("orphanDependents")
        if propagation and orphans is not None:
            rule = "orphanDependents and deletionPropagation cannot be both set"
            raise invalid_options("DeleteOptions", wrong("propagationPolicy", propagation, rule))
        if propagation not in {"", "Background", "Foreground", "Orphan"}:
            known = ("Foreground", "Background", "Orphan", "nil")
            cause = no_choice("propagationPolicy", f'"{propagation}"', known)
            raise invalid_options("DeleteOptions", cause)
        return cls(
            uid=preconditions.get("uid"),
            resource_version=preconditions.get("resourceVersion"),
            propagation=propagation if orphans is None else "Orphan" if orphans else "Background",
            grace_period=1 if period is not None and period < 0 else period,  # rest.BeforeDelete
        )


class Registry:
    """The writes; reads go to its store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def create(self, resource: ServedResource, content: Content) -> Stored:
        """Create an object, named by its metadata."""
        namespace = content["metadata"].get("namespace", "")
        if namespace:
            self._require_namespace(resource, namespace, content)
        if content["metadata"].get("resourceVersion", "0") != "0":
            raise StatusError(500, "resourceVersion should not be set on objects to be created")
        if resource.custom:
            self._require_definition(resource, content)
        objects.prepare_for_create(resource, content)
        strategies.prepare_for_create(resource, content)
        name = content["metadata"]["name"]
        target = Target(resource, namespace, name)
        if (existing := self.find(target)) is not None:
            raise already_exists(resource, name, deleting="deletionTimestamp" in existing.metadata)
        return self.store.put(self._collection(resource), target.key, content)

    def find(self, target: Target) -> Stored | None:
        """Return the object that a path names, None where there is none."""
        return self._collection(target.resource).get(target.key)

    def get(self, target: Target) -> Stored:
        """Return the object that a path names; raise StatusError where there is none."""
        if (found := self.find(target)) is None:
            raise not_found(target.resource, target.name)
        return found

    def update(
        self, target: Target, change: Callable[[Content | None], Content], *, create: bool = False
    ) -> Stored:
        """Change an object to what ``change`` makes of it; it gets None where none exists.

        ``change`` returns a new object whose metadata is its own.
        """
        resource, existing = target.resource, self.find(target)
        if existing is None:
            if target.subresource or not create:
                raise not_found(resource, target.name)
            content = change(None)
            objects.check_uid(target, content["metadata"].get("uid"))
            _require_number(content["metadata"].pop("resourceVersion", None))
            content["metadata"]["name"] = target.name
            return self.create(resource, content)
        new = change(existing.content)
        metadata = new["metadata"]
        objects.check_uid(target, metadata.get("uid"), existing.metadata["uid"])
        _check_version(resource, metadata.get("resourceVersion"), existing)
        if target.subresource == "status":
            new = strategies.prepare_for_status_update(resource, new, existing.content)
            objects.prepare_for_update(resource, new, existing.content)
        else:
            finalizes = target.subresource == "finalize"
            objects.prepare_for_update(resource, new, existing.content)
            strategies.prepare_for_update(resource, new, existing.content, finalizes=finalizes)
        return self._replace(resource, existing, new)

    def rewrite(
        self, resource: ServedResource, stored: Stored, subresource: str = "", **fields: Content
    ) -> Stored:
        """Give an object other fields, as a controller does; return it as it is then."""
        new = stored.content | {"metadata": dict(stored.metadata)} | fields
        target = Target(resource, stored.metadata.get("namespace", ""), stored.name, subresource)
        return self.update(target, lambda _: new)

    def touch(self, resource: ServedResource, stored: Stored) -> Stored:
        """Give an object another version, and nothing else."""
        content = stored.content | {"metadata": dict(stored.metadata)}
        return self.store.put(self._collection(resource), stored.key, content)

    def delete(self, resource: ServedResource, key: str, options: DeleteOptions) -> tuple[Stored, bool]:
        """Delete an object, or mark it where finalizers hold it; answer it and whether it is gone."""
        collection = self._collection(resource)
        existing = collection.get(key)
        if existing is None:
            raise not_found(resource, key.rpartition("/")[2])
        self.check_preconditions(resource, existing, options)
        if resource == NAMESPACES and existing.name in _PERMANENT_NAMESPACES:
            raise forbidden(resource, existing.name, "this namespace may not be deleted")
        finalizers = _finalizers(resource, existing, options)
        if resource == NAMESPACES and existing.content["spec"].get("finalizers"):
            return self._terminate(collection, existing, finalizers), False
        if not finalizers and not resource.graceful:
            return self.store.remove(collection, existing), True
        period = objects.grace_period(existing.content, options.grace_period) if resource.graceful else 0
        # also an object that goes at once: the answer has the mark
        marked = self._mark_deleted(collection, existing, finalizers, period)
        if finalizers or period:
            return marked, False
        return self.store.remove(collection, marked), True

    def _terminate(self, collection: Collection, namespace: Stored, finalizers: list[str]) -> Stored:
        """Begin the end of a namespace; its controller empties it, and takes its own finalizer away then."""
        if "deletionTimestamp" in namespace.metadata:
            return namespace
        metadata = namespace.metadata | {"deletionTimestamp": objects.timestamp()}
        if finalizers:
            metadata["finalizers"] = finalizers
        status = namespace.content["status"] | {"phase": "Terminating"}
        content = namespace.content | {"metadata": metadata, "status": status}
        return self.store.put(collection, namespace.key, content)

    def _mark_deleted(
        self, collection: Collection, existing: Stored, finalizers: list[str], period: int
    ) -> Stored:
        metadata = dict(existing.metadata)
        if finalizers:
            metadata["finalizers"] = finalizers
        if "deletionTimestamp" not in metadata and "generation" in metadata:
            metadata["generation"] += 1
        if "deletionTimestamp" not in metadata or period < metadata["deletionGracePeriodSeconds"]:
            metadata["deletionTimestamp"] = objects.timestamp(period)
            metadata["deletionGracePeriodSeconds"] = period
        if metadata == existing.metadata:
            return existing
        return self.store.put(collection, existing.key, existing.content | {"metadata": metadata})

    def _require_namespace(self, resource: ServedResource, name: str, content: Content) -> None:
        """Refuse a new object in a namespace that does not exist, or is about to go."""
        namespace = self._collection(NAMESPACES).get(name)
        if namespace is None:
            raise not_found(NAMESPACES, name)
        if namespace.content["status"]["phase"] == "Terminating":
            metadata, message = content["metadata"], f"namespace {name} is being terminated"
            cause = "NamespaceTerminating", "metadata.namespace", message
            refusal = f"unable to create new content in namespace {name} because it is being terminated"
            named = metadata.get("name") or metadata.get("generateName", "Unknown")
            raise forbidden(resource, named, refusal, cause)

    def _require_definition(self, resource: ServedResource, content: Content) -> None:
        """Refuse a new object whose definition is about to go."""
        definition = self._collection(DEFINITIONS).get(f"{resource.plural}.{resource.group}")
        if definition is not None and "deletionTimestamp" in definition.metadata:
            refusal = "create not allowed while custom resource definition is terminating"
            raise forbidden(resource, content["metadata"].get("name", ""), refusal)

    def _collection(self, resource: ServedResource) -> Collection:
        return self.store.collection(resource.identity)

    def _replace(self, resource: ServedResource, existing: Stored, new: Content) -> Stored:
        """Store the new object; one whose last finalizer went while being deleted goes too."""
        collection, metadata = self._collection(resource), new["metadata"]
        metadata["resourceVersion"] = existing.metadata["resourceVersion"]
        if same_value(new, existing.content):
            return existing
        held = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
        held = held or (resource == NAMESPACES and new["spec"].get("finalizers"))
        if "deletionTimestamp" in metadata and not held:
            self.store.remove(collection, existing)
            return Stored(existing.key, new, existing.revision)  # under the old version, as the real one
        return self.store.put(collection, existing.key, new)

    def check_preconditions(self, resource: ServedResource, existing: Stored, options: DeleteOptions) -> None:
        """Refuse to delete another object, or version of it, than the options name."""
        metadata = existing.metadata
        for field, wanted, found, remedy in (
            ("UID", options.uid, metadata["uid"], "deleted and then recreated"),
            ("ResourceVersion", options.resource_version, metadata["resourceVersion"], "modified"),
        ):
            if wanted in {None, found}:
                continue
            if resource == NAMESPACES:
                where = f"{field} in precondition: {wanted}, {field} in object meta: {found}"
                raise conflict(resource, existing.name, f"Precondition failed: {where}")
            mismatch = f"the {field} in the precondition ({wanted}) does not match the {field} in record"
            by_kind = replace(resource, plural=resource.kind)  # so the real one's message names it
            cause = f"{mismatch} ({found}). The object might have been {remedy}"
            raise conflict(by_kind, existing.name, cause)


def _check_version(resource: ServedResource, wanted: str | None, existing: Stored) -> None:
    _require_number(wanted)
    if wanted in {None, "", "0"}:
        if not resource.unconditional_update:
            cause = wrong("metadata.resourceVersion", 0, "must be specified for an update")
            raise invalid(resource, existing.name, cause, kind=resource.plural)
    elif wanted != existing.metadata["resourceVersion"]:
        remedy = "please apply your changes to the latest version and try again"
        raise conflict(resource, existing.name, f"the object has been modified; {remedy}")


def _require_number(version: str | None) -> None:
    if version and not version.isdecimal():
        raise StatusError(500, f'strconv.ParseUint: parsing "{version}": invalid syntax')


def _finalizers(resource: ServedResource, existing: Stored, options: DeleteOptions) -> list[str]:
    """Return the finalizers that the object is to have while it is being deleted."""
    before = existing.metadata.get("finalizers", ())
    kept = [each for each in before if each not in {FOREGROUND, ORPHAN}]
    wanted = {"Foreground": [FOREGROUND], "Orphan": [ORPHAN]}.get(options.propagation, [])
    if not options.propagation:
        wanted = [each for each in (ORPHAN, FOREGROUND) if each in before][:1] or [ORPHAN] * resource.orphans
    cleanup = resource.rules.get("cleanup")
    return kept + wanted + [cleanup] * (cleanup is not None and "deletionTimestamp" not in existing.metadata)
