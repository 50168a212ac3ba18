"""Server-side apply: the managers of fields, their conflicts, and the fields that go with their manager.

Managers are kept beside the objects: ``managedFields`` is not shown. What the
server itself changes (garbage collection) has no manager.
Source: apimachinery pkg/util/managedfields, sigs.k8s.io/structured-merge-diff merge.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from distq.testing.apiserver import field_sets
from distq.testing.apiserver.causes import Cause
from distq.testing.apiserver.field_sets import ListItem, Path, text_of
from distq.testing.apiserver.resources import Schema, ServedResource, built_in, names_in
from distq.testing.apiserver.schema_validation import violations
from distq.testing.apiserver.status import StatusError, apply_conflicts, invalid
from distq.testing.apiserver.store import Collection, Content, Store, Stored, StoreEvent, value_at
from distq.testing.apiserver.structural import TYPE_META

Configuration = dict[str, Any]

_UNMANAGED: set[Path] = {(name,) for name in TYPE_META}
_UNMANAGED |= {("metadata", field) for field in names_in(built_in(), "unmanaged")}


class FieldManager(NamedTuple):
    """Who manages fields: by applying them, or by writing them in another way."""

    name: str
    operation: str
    subresource: str


class Managed(NamedTuple):
    """The fields of a manager, and the version of the API that it last wrote them at."""

    fields: frozenset[Path]
    version: str


class FieldManagers:
    """Who manages what of each living object."""

    def __init__(self, store: Store) -> None:
        self._managed: dict[str, dict[FieldManager, Managed]] = {}
        self._created: dict[str, tuple[FieldManager, ServedResource, Content]] = {}
        """Of objects that were written once: their fields are computed when another manager writes."""
        store.observers.append(self._observe)

    def written(
        self, resource: ServedResource, before: Stored | None, stored: Stored, manager: FieldManager
    ) -> None:
        """Note who wrote an object, other than by applying to it; ``before`` is None where it is new."""
        new = stored.content
        if before is None:
            self._created[new["metadata"]["uid"]] = manager, resource, new
        elif manager.subresource == "scale":
            self._scaled(resource, before.content, new, manager)
        elif stored is not before:
            self._updated(resource, before.content, new, manager)

    def _updated(self, resource: ServedResource, old: Content, new: Content, manager: FieldManager) -> None:
        managed = self._of(new["metadata"]["uid"])
        changed, gone = _changes(resource, old, new)
        if changed or gone:
            _withdraw(managed, changed | gone)
            last = managed[manager].fields if manager in managed else frozenset()
            managed[manager] = Managed((last - gone) | changed, resource.api_version)

    def _scaled(self, resource: ServedResource, old: Content, new: Content, manager: FieldManager) -> None:
        """Note who changed an object's replicas.

        Replicas without a manager stay without one. A manager by other writes that has more than the replicas
        loses these, even where they stay the same: it is split in two, of which one is forgotten.
        """
        managed, path = self._of(new["metadata"]["uid"]), resource.scale.replicas
        changed = path in _changes(resource, old, new)[0]
        owners = [each for each in managed if path in managed[each].fields]
        for each in owners:
            if changed or (each.operation == "Update" and len(managed[each].fields) > 1):
                managed[each] = Managed(managed[each].fields - {path}, managed[each].version)
        if owners and changed and value_at(new, path):  # a Scale leaves out that it wants none
            managed[manager] = Managed(frozenset({path}), resource.api_version)

    def apply(
        self,
        resource: ServedResource,
        live: Content | None,
        configuration: Configuration,
        manager: FieldManager,
        *,
        force: bool,
    ) -> Configuration:
        """Return the object with the configuration applied.

        Raises StatusError where the configuration is not of the kind's schema, and for fields of other
        managers unless they are forced.
        """
        schema = object_schema(resource)
        _require_schema(resource, schema, configuration)
        if live is None:
            return configuration
        managed = self._of(live["metadata"]["uid"])
        whole = field_sets.merged(schema, live, configuration)
        conflicts = list(_conflicts(managed, manager, set(field_sets.differences(schema, live, whole))))
        if conflicts and not force:
            raise apply_conflicts(conflicts)
        kept = _applied_fields(resource, configuration, manager).union(
            *(each.fields for other, each in managed.items() if other != manager)
        )
        last = managed[manager].fields if manager in managed else frozenset()
        no_longer = {path for path in last if not _is_kept(path, kept)}
        result: Configuration = field_sets.without(schema, whole, no_longer)
        if resource.custom and (causes := list(_emptied(kept, whole, result))):
            causes += violations(resource.schema, result, live)  # the answer names the other mistakes, too
            raise invalid(resource, result["metadata"]["name"], *causes)
        return result

    def applied(
        self,
        resource: ServedResource,
        old: Content | None,
        new: Content,
        configuration: Configuration,
        manager: FieldManager,
    ) -> bool:
        """Note what a manager applied, which others no longer manage where it changed.

        Return whether any manager has other fields than before.
        """
        managed = self._of(new["metadata"]["uid"])
        before = dict(managed)
        if old is not None:
            changed, gone = _changes(resource, old, new)
            schema = object_schema(resource)  # what was taken by force may be the same again with defaults
            forced = set(field_sets.differences(schema, old, field_sets.merged(schema, old, configuration)))
            others = {other: each for other, each in managed.items() if other != manager}
            _withdraw(others, changed | forced | gone - _last_of(gone))
            managed |= others
        fields = _applied_fields(resource, configuration, manager)
        if fields or manager in managed:
            managed[manager] = Managed(fields, resource.api_version)
        return managed != before

    def _of(self, uid: str) -> dict[FieldManager, Managed]:
        managed = self._managed.setdefault(uid, {})
        if uid in self._created:
            manager, resource, content = self._created.pop(uid)
            fields = set(field_sets.added(object_schema(resource), content, typed=not resource.custom))
            fields -= _UNMANAGED | {path for path in fields if resource.status and path[0] == "status"}
            managed[manager] = Managed(frozenset(fields), resource.api_version)
        return managed

    def _observe(self, _: Collection, event: StoreEvent) -> None:
        if event.gone:
            uid = event.current.metadata["uid"]
            self._managed.pop(uid, None)
            self._created.pop(uid, None)


def object_schema(resource: ServedResource) -> Schema:
    """Return the schema of whole objects; that of a custom resource may say nothing of its metadata."""
    if not resource.custom:
        return resource.schema
    return {**resource.schema, "properties": {**(resource.schema.get("properties") or {}), **TYPE_META}}


def _require_schema(resource: ServedResource, schema: Schema, configuration: Configuration) -> None:
    found = sorted(field_sets.problems(schema, configuration))
    if not found:
        return
    given = configuration.get("metadata")
    texts = [given.get(field) for field in ("namespace", "name")] if isinstance(given, dict) else []
    place = "/".join(text if isinstance(text, str) else "" for text in texts or ("", ""))
    group = f"{resource.group}/" if resource.group else "/"
    listed = found[0] if len(found) == 1 else "\n  ".join(["errors:", *found])
    kind = f"{group}{resource.version}, Kind={resource.kind}"
    raise StatusError(500, f"failed to create typed patch object ({place}; {kind}): {listed}")


def _emptied(kept: frozenset[Path], whole: Configuration, result: Configuration) -> Iterator[Cause]:
    """Yield the managed fields, or those around them, that have nothing any longer: no schema allows null."""
    paths = {path[:depth] for path in kept for depth in range(1, len(path) + 1)}
    for path in sorted(paths, key=text_of):
        if path[0] == "metadata" or any(isinstance(step, ListItem) for step in path):
            continue
        before, field = value_at(whole, path), text_of(path)[1:]
        if before and isinstance(before, dict | list) and not value_at(result, path):
            kind = "object" if isinstance(before, dict) else "array"
            message = f'{field} in body must be of type {kind}: "null"'
            yield "FieldValueTypeInvalid", field, f'Invalid value: "null": {message}'


def _applied_fields(
    resource: ServedResource, configuration: Configuration, manager: FieldManager
) -> frozenset[Path]:
    """Return the fields that an apply manages: of the status path, or of all others."""
    fields = set(field_sets.fields_of(object_schema(resource), configuration)) - _UNMANAGED
    if manager.subresource == "status":
        return frozenset(path for path in fields if path[0] == "status" or not resource.custom)
    return frozenset(path for path in fields if path[0] != "status" or not resource.status)


def _changes(resource: ServedResource, old: Content, new: Content) -> tuple[set[Path], set[Path]]:
    """Return the fields that are new or have changed, and those that are gone."""
    schema = object_schema(resource)
    changed = set(field_sets.differences(schema, old, new)) - _UNMANAGED
    gone = set(field_sets.differences(schema, new, old)) - _UNMANAGED - changed
    return changed, gone - set(field_sets.fields_of(schema, new))


def _last_of(gone: set[Path]) -> set[Path]:
    """Return the fields of which an apply took the last that was in them: they are still managed."""
    around = {path[:depth] for path in gone for depth in range(1, len(path))}
    return {
        path
        for path in gone & around
        if not isinstance(path[-1], ListItem)
        and not any(path[:depth] in gone for depth in range(1, len(path)))
    }


def _withdraw(managed: dict[FieldManager, Managed], paths: set[Path]) -> None:
    for manager, each in list(managed.items()):
        if each.fields & paths:
            managed[manager] = Managed(each.fields - paths, each.version)


def _conflicts(
    managed: dict[FieldManager, Managed], manager: FieldManager, changed: set[Path]
) -> Iterator[tuple[str, list[str]]]:
    """Yield with whom there is a conflict, as messages name them, and which fields, outer ones first."""
    for other, each in sorted(managed.items()):
        if other != manager and each.fields & changed:
            subresource = f' with subresource "{other.subresource}"' if other.subresource else ""
            how = f" using {each.version}" if other.operation == "Update" else ""
            fields = sorted(each.fields & changed, key=lambda path: (len(path), text_of(path)))
            yield f'"{other.name}"{subresource}{how}', list(map(text_of, fields))


def _is_kept(path: Path, kept: frozenset[Path]) -> bool:
    """Return whether a field stays: it is managed, or a field in it is, unless it is an item of a list."""
    if path in kept:
        return True
    return not isinstance(path[-1], ListItem) and any(each[: len(path)] == path for each in kept)
