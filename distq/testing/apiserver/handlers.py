"""The verbs: from a request to the store or registry, and back to an answer.

Source: apiserver pkg/endpoints/handlers.
"""

import random
from collections.abc import Callable
from typing import Any

import msgspec
from aiohttp import web

from distq.testing.apiserver import discovery, objects, patches, typed
from distq.testing.apiserver.apply import AppliedConfigurations, Owner
from distq.testing.apiserver.listing import ListOptions, list_page, parse_version, reach
from distq.testing.apiserver.registry import DeleteOptions, Registry, Written
from distq.testing.apiserver.representation import PARTIAL, PARTIAL_LIST, Representation
from distq.testing.apiserver.requests import Target, decode, locate
from distq.testing.apiserver.resources import ACCESS_REVIEWS, Catalogue
from distq.testing.apiserver.selectors import Selector
from distq.testing.apiserver.status import (
    StatusError,
    bad_request,
    invalid,
    method_not_allowed,
    not_found,
    not_patched,
    success,
    unsupported_media_type,
    wrong_form,
)
from distq.testing.apiserver.store import Content, Store, Stored
from distq.testing.apiserver.watch import Watch

_MIN_WATCH_SECONDS = 1800.0
_MAX_BODY = 3 * 1024 * 1024
Patcher = Callable[[Any, Any], Any]
_TYPE = {"kind", "apiVersion"}
_OPENAPI_V2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""A document without schemas is an empty message: nothing is validated."""
_HEALTH_PATHS = {"/healthz", "/readyz", "/livez"}


class Api:
    """Answers requests."""

    def __init__(
        self, store: Store, catalogue: Catalogue, registry: Registry, *, bookmark_period: float
    ) -> None:
        self._store = store
        self._catalogue = catalogue
        self._registry = registry
        self._applied = AppliedConfigurations(store)
        self._bookmark_period = bookmark_period

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        try:
            target = locate(self._catalogue, request.path)
            if target is None:
                return self._discover(request.path)
            return await self._act(request, target)
        except StatusError as error:
            headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
            return _json(error.as_object(), error.code, headers)

    def _discover(self, path: str) -> web.Response:
        if path in _HEALTH_PATHS:
            return web.Response(text="ok")
        try:
            match path.strip("/").split("/"):
                case ["version"]:
                    return _json(discovery.VERSION)
                case ["api"]:
                    return _json(discovery.core_versions())
                case ["apis"]:
                    return _json(discovery.groups(self._catalogue))
                case ["api", version]:
                    return _json(discovery.resources(self._catalogue, "", version))
                case ["apis", group]:
                    return _json(discovery.group(self._catalogue, group))
                case ["apis", group, version]:
                    return _json(discovery.resources(self._catalogue, group, version))
                case ["openapi", "v2"]:  # an old kubectl refuses to apply without it
                    return web.Response(body=b"", content_type=_OPENAPI_V2)
                case ["openapi", "v3"]:
                    return _json(discovery.openapi_paths(self._catalogue))
                case ["openapi", "v3", "api", version]:
                    return _json(discovery.openapi(self._catalogue, "", version))
                case ["openapi", "v3", "apis", group, version]:
                    return _json(discovery.openapi(self._catalogue, group, version))
        except KeyError:
            pass
        return web.Response(status=404, text="404 page not found\n")

    async def _act(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        if target.resource == ACCESS_REVIEWS:
            return await self._review(request)
        if "dryRun" in request.query:
            raise bad_request("the emulated API server has no dry run")
        match request.method, bool(target.name):
            case "GET", True:
                return await self._get(request, target)
            case "GET", False:
                return await self._read_collection(request, target)
            case "POST", False if target.namespace or not target.resource.namespaced:
                return await self._create(request, target)
            case "PUT", True:
                return await self._update(request, target)
            case "PATCH", True:
                return await self._patch(request, target)
            case "DELETE", True if not target.subresource:
                return await self._delete(request, target)
            case "DELETE", False:
                return await self._delete_collection(request, target)
        raise method_not_allowed()

    async def _get(self, request: web.BaseRequest, target: Target) -> web.Response:
        representation = _representation(request, target)
        await reach(self._store, parse_version(request.query.get("resourceVersion", "")))
        return _bytes(representation.object(self._find(target)))

    async def _read_collection(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        query = request.query
        selector = _selector(request, target)
        options = ListOptions.parse(query)
        if query.get("watch") in {"true", "1"}:
            return await self._watch(request, target, selector, options)
        representation = _representation(request, target, is_list=True)
        collection = self._store.collection(target.resource.identity)
        page = await list_page(self._store, collection, options, selector)
        return _bytes(representation.list(page.items, page.metadata))

    async def _watch(
        self, request: web.BaseRequest, target: Target, selector: Selector, options: ListOptions
    ) -> web.StreamResponse:
        watch = Watch(
            self._store,
            self._store.collection(target.resource.identity),
            options,
            selector,
            Representation(target.resource, request.headers.get("Accept", "")),
            bookmark_period=self._bookmark_period if options.bookmarks else None,
            timeout=options.timeout or _MIN_WATCH_SECONDS * random.uniform(1, 2),
        )
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        try:
            async for chunk in watch.chunks():
                await response.write(chunk)
            await response.write_eof()
        finally:
            watch.close()
        return response

    async def _create(self, request: web.BaseRequest, target: Target) -> web.Response:
        representation = _representation(request, target)
        decoded = decode(await _body(request), request.headers.get("Content-Type", ""))
        content = objects.accept(target.resource, decoded, target.namespace)
        return _bytes(representation.object(self._registry.create(target.resource, content)), 201)

    async def _update(self, request: web.BaseRequest, target: Target) -> web.Response:
        representation = _representation(request, target)
        decoded = decode(await _body(request), request.headers.get("Content-Type", ""))
        content = objects.accept(target.resource, decoded, target.namespace, target.name)
        create = target.resource.create_on_update
        written = self._write(target, lambda _: content, create=create)
        return _written(representation, written)

    async def _patch(self, request: web.BaseRequest, target: Target) -> web.Response:
        representation = _representation(request, target)
        content_type = request.headers.get("Content-Type", "").partition(";")[0]
        patch = decode(await _body(request), content_type)
        merge = _patch_format(content_type, custom=target.resource.custom)
        if content_type == patches.APPLY:
            _validate_apply(request, patch)
            owner = request.query["fieldManager"], target.subresource
            return _written(representation, self._apply(target, owner, patch, merge))

        def change(existing: Content | None) -> Content:
            if content_type in {patches.MERGE, patches.STRATEGIC} and not isinstance(patch, dict):
                raise bad_request(f"error decoding patch: {typed.not_a_map(patch)}")
            patched = merge(_with_type(target, existing or {}), patch)
            if content_type == patches.STRATEGIC:  # into the type, of which these are no fields
                patched = _with_type(target, {name: patched[name] for name in patched.keys() - _TYPE})
            try:
                content = objects.typed_content(target.resource, patched)
            except StatusError as error:
                raise not_patched(patched, error.message) if error.code == 400 else error from None
            objects.refuse_other_uid(target.resource, content, existing)
            return objects.placed(content, target.namespace, target.name)

        return _written(representation, self._write(target, change, create=False))

    def _apply(self, target: Target, owner: Owner, configuration: Any, merge: Patcher) -> Written:
        def change(existing: Content | None) -> Content:
            whole = {}
            if existing is not None:
                live = _with_type(target, existing)
                whole = self._applied.without_dropped(live, owner, configuration)
            return objects.accept(target.resource, merge(whole, configuration), target.namespace, target.name)

        written = self._write(target, change, create=True)
        self._applied.remember(written.stored.metadata["uid"], owner, configuration)
        return written

    def _write(self, target: Target, change: Callable[[Content | None], Content], *, create: bool) -> Written:
        return self._registry.update(
            target.resource,
            target.namespace,
            target.name,
            change,
            status=target.subresource == "status",
            create=create,
        )

    async def _delete(self, request: web.BaseRequest, target: Target) -> web.Response:
        options = await _delete_options(request)
        key = objects.object_key(target.namespace, target.name)
        stored, gone = self._registry.delete(target.resource, key, options)
        if gone and not target.resource.returns_deleted:
            return _json(success(target.resource, target.name, stored.metadata["uid"]))
        return _bytes(_representation(request, target).object(stored))

    async def _delete_collection(self, request: web.BaseRequest, target: Target) -> web.Response:
        options = await _delete_options(request)
        selector = _selector(request, target)
        collection = self._store.collection(target.resource.identity)
        page = await list_page(self._store, collection, ListOptions.parse(request.query), selector)
        for stored in page.items:
            self._registry.delete(target.resource, stored.key, options)
        representation = _representation(request, target, is_list=True)
        return _bytes(representation.list(page.items, page.metadata))

    async def _review(self, request: web.BaseRequest) -> web.Response:
        review = decode(await _body(request), request.headers.get("Content-Type", ""))
        answer = {"kind": ACCESS_REVIEWS.kind, "apiVersion": ACCESS_REVIEWS.api_version, "metadata": {}}
        return _json(answer | review | {"status": {"allowed": True}}, 201)

    def _find(self, target: Target) -> Stored:
        collection = self._store.collection(target.resource.identity)
        stored = collection.get(objects.object_key(target.namespace, target.name))
        if stored is None:
            raise not_found(target.resource, target.name)
        return stored


def _representation(request: web.BaseRequest, target: Target, *, is_list: bool = False) -> Representation:
    representation = Representation(target.resource, request.headers.get("Accept", ""))
    if representation.form == (PARTIAL if is_list else PARTIAL_LIST):
        raise wrong_form(representation.form, is_list=is_list)
    return representation


async def _body(request: web.BaseRequest) -> bytes:
    body = await request.content.read()
    if len(body) > _MAX_BODY:
        message = f"Request entity too large: limit is {_MAX_BODY}"
        raise StatusError(413, "RequestEntityTooLarge", message)
    return body


def _selector(request: web.BaseRequest, target: Target) -> Selector:
    query = request.query
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    return Selector(target.resource, target.namespace, labels, fields)


def _with_type(target: Target, content: Content) -> dict[str, Any]:
    resource = target.resource
    return {"kind": resource.kind, "apiVersion": resource.api_version} | content


def _patch_format(content_type: str, *, custom: bool) -> Patcher:
    formats: dict[str, Patcher] = {
        patches.JSON: patches.json_patch,
        patches.MERGE: patches.merge_patch,
        patches.APPLY: patches.apply_to_custom if custom else patches.apply_to_built_in,
    }
    if not custom:
        formats[patches.STRATEGIC] = patches.strategic_merge_patch
    if content_type not in formats:
        raise unsupported_media_type(*formats)
    return formats[content_type]


def _validate_apply(request: web.BaseRequest, patch: Any) -> None:
    if not request.query.get("fieldManager"):
        cause = ("FieldValueRequired", "fieldManager", "Required value: is required for apply patch")
        raise invalid("meta.k8s.io", "PatchOptions", "", cause)
    if not isinstance(patch, dict) or not patch.get("kind") or not patch.get("apiVersion"):
        raise bad_request("invalid object type: Object 'Kind' is missing")
    if (patch.get("metadata") or {}).get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")


async def _delete_options(request: web.BaseRequest) -> DeleteOptions:
    body = await _body(request)
    given = decode(body, request.headers.get("Content-Type", "")) if body else {}
    preconditions = given.get("preconditions") or {}
    propagation = given.get("propagationPolicy") or request.query.get("propagationPolicy") or "Background"
    if propagation not in {"Background", "Foreground", "Orphan"}:
        supported = 'supported values: "Foreground", "Background", "Orphan", "nil"'
        message = f'Unsupported value: "{propagation}": {supported}'
        cause = ("FieldValueNotSupported", "propagationPolicy", message)
        raise invalid("meta.k8s.io", "DeleteOptions", "", cause)
    return DeleteOptions(
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        propagation=propagation,
    )


def _written(representation: Representation, written: Written) -> web.Response:
    return _bytes(representation.object(written.stored), 201 if written.created else 200)


def _bytes(body: bytes, code: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(body=body, status=code, content_type="application/json", headers=headers)


def _json(answer: dict[str, Any], code: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return _bytes(msgspec.json.encode(answer), code, headers)
