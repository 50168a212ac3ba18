"""The verbs that write: from a decoded request to the registry, and who manages what it wrote.

Source: apiserver pkg/endpoints/handlers/{create,update,patch,delete}.go.
"""

from collections.abc import Callable
from typing import Any

from distq.testing.apiserver import objects, patches, typed
from distq.testing.apiserver.apply import FieldManagers, object_schema
from distq.testing.apiserver.causes import required
from distq.testing.apiserver.options import WriteOptions
from distq.testing.apiserver.registry import Registry, Written
from distq.testing.apiserver.requests import Target
from distq.testing.apiserver.resources import ServedResource
from distq.testing.apiserver.scale import scaling
from distq.testing.apiserver.status import (
    StatusError,
    bad_request,
    invalid_options,
    not_patched,
    undecodable,
    unsupported_media_type,
)
from distq.testing.apiserver.store import Content, Stored
from distq.testing.apiserver.structural import unknown_fields

_TYPE = {"kind", "apiVersion"}
_PATCHERS: dict[str, Callable[[Any, Any], Any]] = {
    patches.JSON: patches.json_patch,
    patches.MERGE: patches.merge_patch,
}


class Writer:
    """The writes of one server."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._store = registry.store
        self._managers = FieldManagers(registry.store)

    def create(self, target: Target, decoded: Any, options: WriteOptions) -> Written:
        """Create what a body says."""
        _refuse_unknown_fields(target.resource, decoded, options)
        content = objects.accept(target.resource, decoded, target.namespace)
        with self._store.rehearsal(options.dry_run):
            stored = self._registry.create(target.resource, content)
        if not options.dry_run:
            manager = options.manager(target, "Update")
            self._managers.created(target.resource, stored.content, manager)
        return Written(stored, created=True)

    def update(self, target: Target, decoded: Any, options: WriteOptions) -> Written:
        """Replace an object by what a body says."""
        _refuse_unknown_fields(target.shown, decoded, options)
        content = objects.accept(target.shown, decoded, target.namespace, target.name)
        create = target.resource.create_on_update

        def change(existing: Content | None) -> Content:
            if target.subresource == "scale" and existing is not None:
                uid, found = content["metadata"].get("uid"), existing["metadata"]["uid"]
                objects.check_uid(target.resource, target.name, uid, found, namespace=target.namespace)
            return content

        return self._change(target, change, options, create=create)

    def patch(self, target: Target, content_type: str, patch: Any, options: WriteOptions) -> Written:
        """Change an object as a patch says, which may be an applied configuration."""
        resource = target.shown
        formats = [*_PATCHERS, patches.STRATEGIC, patches.APPLY]
        if target.resource.custom:
            formats.remove(patches.STRATEGIC)
        if target.subresource == "scale":
            formats.remove(patches.APPLY)
        if content_type not in formats:
            raise unsupported_media_type(*formats)
        if content_type == patches.APPLY:
            return self._apply(target, patch, options)

        def change(existing: Content | None) -> Content:
            patched = _patched(resource, content_type, existing or {}, patch)
            if refusal := _unknown_fields(resource, patched, options):
                raise not_patched(patched, refusal)
            try:
                content = objects.typed_content(resource, patched)
            except StatusError as error:
                raise _not_patched(resource, patched, error) from None
            if target.subresource != "scale":
                objects.refuse_other_uid(resource, content, existing)
            return objects.placed(content, target.namespace, target.name)

        return self._change(target, change, options, create=False)

    def existing(self, target: Target) -> Stored | None:
        """Return the object that a path names, None where there is none."""
        collection = self._store.collection(target.resource.identity)
        return collection.get(objects.object_key(target.namespace, target.name))

    def _apply(self, target: Target, configuration: Any, options: WriteOptions) -> Written:
        _validate_apply(configuration, options)
        resource, manager = target.resource, options.manager(target, "Apply")

        def change(existing: Content | None) -> Content:
            live = None if existing is None else resource.with_type(existing)
            whole = self._managers.apply(resource, live, configuration, manager, force=options.force)
            return objects.accept(resource, whole, target.namespace, target.name)

        before = self.existing(target)
        with self._store.rehearsal(options.dry_run):
            written = self._write(target, change, create=True)
        if not options.dry_run:
            old = None if before is None else before.content
            self._managers.applied(resource, old, written.stored.content, configuration, manager)
        return written

    def _change(
        self,
        target: Target,
        change: Callable[[Content | None], Content],
        options: WriteOptions,
        *,
        create: bool,
    ) -> Written:
        """Write other than by apply, and note whose fields changed."""
        before = self.existing(target)
        with self._store.rehearsal(options.dry_run):
            written = self._write(target, change, create=create)
        if options.dry_run:
            return written
        manager, content = options.manager(target, "Update"), written.stored.content
        if before is None:
            self._managers.created(target.resource, content, manager)
        elif target.subresource == "scale":
            self._managers.scaled(target.resource, before.content, content, manager)
        elif written.stored is not before:
            self._managers.updated(target.resource, before.content, content, manager)
        return written

    def _write(self, target: Target, change: Callable[[Content | None], Content], *, create: bool) -> Written:
        if target.subresource == "scale":
            change = scaling(target.resource, change)
        return self._registry.update(
            target.resource,
            target.namespace,
            target.name,
            change,
            subresource=target.subresource,
            create=create,
        )


def _patched(resource: ServedResource, content_type: str, existing: Content, patch: Any) -> dict[str, Any]:
    if content_type != patches.JSON and not isinstance(patch, dict):
        raise bad_request(f"error decoding patch: {typed.not_a_map(patch)}")
    target = resource.with_type(existing)
    if content_type == patches.STRATEGIC:  # into the type, of which kind and version are no fields
        merged = patches.strategic_merge_patch(object_schema(resource), target, patch)
        return resource.with_type({name: merged[name] for name in merged.keys() - _TYPE})
    patched: dict[str, Any] = _PATCHERS[content_type](target, patch)
    return patched


def _validate_apply(patch: Any, options: WriteOptions) -> None:
    if not options.field_manager:
        raise invalid_options("PatchOptions", required("fieldManager", "is required for apply patch"))
    if not isinstance(patch, dict) or not patch.get("kind") or not patch.get("apiVersion"):
        raise bad_request("invalid object type: Object 'Kind' is missing")
    metadata = patch.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")


def _not_patched(resource: ServedResource, patched: dict[str, Any], error: StatusError) -> StatusError:
    """Return the answer for a patch that leaves something else than an object of the kind."""
    if error.code != 400:
        return error
    return not_patched(patched, error.message.removeprefix(undecodable(resource, "").message))


def _refuse_unknown_fields(resource: ServedResource, decoded: Any, options: WriteOptions) -> None:
    if refusal := _unknown_fields(resource, decoded, options):
        raise undecodable(resource, refusal)


def _unknown_fields(resource: ServedResource, decoded: Any, options: WriteOptions) -> str:
    """Return why unknown fields are refused; warn of them where they are not."""
    if options.field_validation == "Ignore" or not isinstance(decoded, dict):
        return ""
    found = [f'unknown field "{path}"' for path in sorted(unknown_fields(object_schema(resource), decoded))]
    if found and options.field_validation == "Strict":
        return f"strict decoding error: {', '.join(found)}"
    options.warnings.extend(found)
    return ""
