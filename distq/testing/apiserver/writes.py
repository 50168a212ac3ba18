"""The verbs that write: from a decoded request to the registry, and who manages what it wrote.

Source: apiserver pkg/endpoints/handlers/{create,update,patch,delete}.go, apimachinery pkg/apis/meta/v1
(CreateOptions and its siblings).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from aiohttp import web
from multidict import MultiMapping

from distq.testing.apiserver import objects, patches, status, typed
from distq.testing.apiserver.apply import FieldManager, FieldManagers, object_schema
from distq.testing.apiserver.causes import forbidden, no_choice, required, too_long, unsupported, wrong
from distq.testing.apiserver.registry import DeleteOptions, Registry
from distq.testing.apiserver.requests import Target, decode, is_set, whole_number
from distq.testing.apiserver.resources import ServedResource
from distq.testing.apiserver.status import StatusError
from distq.testing.apiserver.store import Content, Stored
from distq.testing.apiserver.structural import unknown_fields
from distq.testing.apiserver.subresources import scaling

Written = tuple[Stored, bool]
"""What is stored, and whether it is new."""
Change = Callable[[Content | None], Content]
"""From an object, or None where there is none, to what it becomes."""

_TYPE = {"kind", "apiVersion"}
_PATCHERS = {patches.JSON: patches.json_patch, patches.MERGE: patches.merge_patch}
_KINDS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions", "DELETE": "DeleteOptions"}
_LONGEST_MANAGER = 128
_VALIDATIONS = ("", "Ignore", "Strict", "Warn")


@dataclass(frozen=True, kw_only=True, slots=True)
class WriteOptions:
    """The query of a write, parsed."""

    dry_run: bool = False
    """Whether everything is done but the change itself."""
    field_validation: str = "Warn"
    """What unknown fields are: Strict (an error), Warn or Ignore."""
    force: bool = False
    """Whether an apply takes fields from other managers."""
    field_manager: str = ""
    """The manager of the written fields, if the request names it."""
    program: str = ""
    """The manager otherwise: the program that sends the request."""
    warnings: list[str] = field(default_factory=list)
    """Warnings for the client."""

    @classmethod
    def parse(cls, request: web.BaseRequest) -> Self:
        """Parse the parameters of a request."""
        query, kind = request.query, _KINDS.get(request.method, "CreateOptions")
        validation = query.get("fieldValidation", "")
        if validation not in _VALIDATIONS:
            raise status.invalid_options(kind, *unsupported("fieldValidation", validation, _VALIDATIONS))
        manager, causes = query.get("fieldManager", ""), []
        if len(manager.encode()) > _LONGEST_MANAGER:
            causes.append(too_long("fieldManager", _LONGEST_MANAGER))
        applies = request.headers.get("Content-Type", "").startswith(patches.APPLY)
        if request.method == "PATCH" and "force" in query and not applies:
            causes.append(forbidden("force", "may not be specified for non-apply patch"))
        if causes:
            raise status.invalid_options(kind, *causes)
        user_agent = request.headers.get("User-Agent", "")
        return cls(
            dry_run=_dry_run(kind, query.getall("dryRun", [])),
            field_validation=validation or "Warn",
            force=is_set(query, "force"),
            field_manager=manager,
            program=user_agent.partition("/")[0],
        )

    def manager(self, target: Target, operation: Literal["Apply", "Update"]) -> FieldManager:
        """Return who manages what the request writes."""
        return FieldManager(self.field_manager or self.program, operation, target.subresource)


def delete_options(request: web.BaseRequest, body: bytes) -> tuple[DeleteOptions, bool]:
    """Return how to delete, and whether to do all but that; a body says all of it, and else the query."""
    if not body:
        given = _in_query(request.query)
        return DeleteOptions.parse(given), _dry_run("DeleteOptions", given["dryRun"])
    decoded = decode(body, request.headers.get("Content-Type", ""))
    if not isinstance(decoded, dict):
        raise status.bad_request("couldn't get version/kind; json parse error: no object")
    given = typed.delete_options(decoded)
    return DeleteOptions.parse(given), _dry_run("DeleteOptions", given.get("dryRun", []))


def _in_query(query: MultiMapping[str]) -> dict[str, Any]:
    given: dict[str, Any] = {"dryRun": query.getall("dryRun", [])}
    if policy := query.get("propagationPolicy"):
        given["propagationPolicy"] = policy
    if period := query.get("gracePeriodSeconds"):
        given["gracePeriodSeconds"] = whole_number(period)
    if "orphanDependents" in query:
        given["orphanDependents"] = is_set(query, "orphanDependents")
    return given


def _dry_run(kind: str, given: list[str]) -> bool:
    if any(each != "All" for each in given):
        listed = ",".join(f'"{each}"' for each in given)
        raise status.invalid_options(kind, no_choice("dryRun", f"[{listed}]", ["All"]))
    return bool(given)


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
            self._managers.written(target.resource, None, stored, options.manager(target, "Update"))
        return stored, True

    def update(self, target: Target, decoded: Any, options: WriteOptions) -> Written:
        """Replace an object by what a body says."""
        _refuse_unknown_fields(target.shown, decoded, options)
        content = objects.accept(target.shown, decoded, target.namespace, target.name)
        create = target.resource.create_on_update

        def change(existing: Content | None) -> Content:
            if target.subresource == "scale" and existing is not None:
                objects.check_uid(target, content["metadata"].get("uid"), existing["metadata"]["uid"])
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
            raise status.unsupported_media_type(*formats)
        if content_type == patches.APPLY:
            return self._apply(target, patch, options)

        def change(existing: Content | None) -> Content:
            patched = _patched(resource, content_type, existing or {}, patch)
            if refusal := _unknown_fields(resource, patched, options):
                raise status.not_patched(patched, refusal)
            try:
                content = objects.typed_content(resource, patched)
            except StatusError as error:
                if error.code != 400:
                    raise
                cause = error.message.removeprefix(status.undecodable(resource, "").message)
                raise status.not_patched(patched, cause) from None
            uid = content["metadata"].get("uid")
            if existing and uid and uid != existing["metadata"]["uid"] and target.subresource != "scale":
                raise status.invalid(resource, target.name, wrong("metadata.uid", uid, "field is immutable"))
            return objects.placed(content, target.namespace, target.name)

        return self._change(target, change, options, create=False)

    def _apply(self, target: Target, configuration: Any, options: WriteOptions) -> Written:
        _validate_apply(configuration, options)
        resource, manager = target.resource, options.manager(target, "Apply")

        def change(existing: Content | None) -> Content:
            live = None if existing is None else resource.with_type(existing)
            whole = self._managers.apply(resource, live, configuration, manager, force=options.force)
            return objects.accept(resource, whole, target.namespace, target.name)

        before, stored = self._write(target, change, options, create=True)
        if not options.dry_run:
            old = None if before is None else before.content
            changed = self._managers.applied(resource, old, stored.content, configuration, manager)
            if changed and stored is before:  # as the real server, which keeps the managers in the object
                stored = self._registry.touch(resource, stored)
        return stored, before is None

    def _change(self, target: Target, change: Change, options: WriteOptions, *, create: bool) -> Written:
        """Write other than by apply, and note whose fields changed."""
        before, stored = self._write(target, change, options, create=create)
        if not options.dry_run:
            self._managers.written(target.resource, before, stored, options.manager(target, "Update"))
        return stored, before is None

    def _write(
        self, target: Target, change: Change, options: WriteOptions, *, create: bool
    ) -> tuple[Stored | None, Stored]:
        """Return what there was, and what is written."""
        before = self._registry.find(target)
        change = scaling(target.resource, change) if target.subresource == "scale" else change
        with self._store.rehearsal(options.dry_run):
            return before, self._registry.update(target, change, create=create)


def _patched(resource: ServedResource, content_type: str, existing: Content, patch: Any) -> dict[str, Any]:
    if content_type != patches.JSON and not isinstance(patch, dict):
        raise status.bad_request(f"error decoding patch: {typed.not_a_map(patch)}")
    target = resource.with_type(existing)
    if content_type == patches.STRATEGIC:  # into the type, of which kind and version are no fields
        merged = patches.strategic_merge_patch(object_schema(resource), target, patch)
        return resource.with_type({name: merged[name] for name in merged.keys() - _TYPE})
    patched: dict[str, Any] = _PATCHERS[content_type](target, patch)
    return patched


def _validate_apply(patch: Any, options: WriteOptions) -> None:
    if not options.field_manager:
        raise status.invalid_options("PatchOptions", required("fieldManager", "is required for apply patch"))
    if not isinstance(patch, dict) or not patch.get("kind") or not patch.get("apiVersion"):
        raise status.bad_request("invalid object type: Object 'Kind' is missing")
    metadata = patch.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise status.bad_request("metadata.managedFields must be nil")


def _refuse_unknown_fields(resource: ServedResource, decoded: Any, options: WriteOptions) -> None:
    if refusal := _unknown_fields(resource, decoded, options):
        raise status.undecodable(resource, refusal)


def _unknown_fields(resource: ServedResource, decoded: Any, options: WriteOptions) -> str:
    """Return why unknown fields are refused; warn of them where they are not."""
    if options.field_validation == "Ignore" or not isinstance(decoded, dict):
        return ""
    found = [f'unknown field "{path}"' for path in sorted(unknown_fields(object_schema(resource), decoded))]
    if found and options.field_validation == "Strict":
        return f"strict decoding error: {', '.join(found)}"
    options.warnings.extend(found)
    return ""
