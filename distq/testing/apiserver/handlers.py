"""The verbs: from a request to the store or registry, and back to an answer.

Source: apiserver pkg/endpoints/handlers.
"""

from typing import Any

import msgspec
from aiohttp import web

from distq.testing.apiserver.discovery import discover
from distq.testing.apiserver.listing import ListOptions, list_page, parse_version, reach
from distq.testing.apiserver.registry import Registry
from distq.testing.apiserver.representation import PARTIAL, PARTIAL_LIST, Representation
from distq.testing.apiserver.requests import VERBS, Target, decode, is_set, locate
from distq.testing.apiserver.resources import ACCESS_REVIEWS, SUBRESOURCE_VERBS, Catalogue
from distq.testing.apiserver.selectors import Selector
from distq.testing.apiserver.status import StatusError, deleted, method_not_allowed, success
from distq.testing.apiserver.store import Stored
from distq.testing.apiserver.subresources import evict, scale_of
from distq.testing.apiserver.watch import Watch
from distq.testing.apiserver.writes import WriteOptions, Writer, delete_options

_MAX_BODY = 3 * 1024 * 1024
_OPENAPI_V2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""A document without schemas is an empty message: nothing is validated."""
_HEALTH_PATHS = {"/healthz", "/readyz", "/livez"}


class Api:
    """Answers requests."""

    def __init__(self, catalogue: Catalogue, registry: Registry, *, bookmark_period: float) -> None:
        self._store = registry.store
        self._catalogue = catalogue
        self._registry = registry
        self._writer = Writer(registry)
        self._bookmark_period = bookmark_period

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        try:
            target = locate(self._catalogue, request.path)
            if target is None:
                return self._discover(request.path)
            return await self._act(request, target)
        except StatusError as error:
            seconds = (error.details or {}).get("retryAfterSeconds")
            headers = {} if seconds is None else {"Retry-After": str(seconds)}
            return _json(error.as_object(), error.code, headers)

    def _discover(self, path: str) -> web.Response:
        if path in _HEALTH_PATHS:
            return web.Response(text="ok")
        if path.strip("/") == "openapi/v2":  # an old kubectl refuses to apply without it
            return web.Response(body=b"", content_type=_OPENAPI_V2)
        try:
            return _json(discover(self._catalogue, path))
        except KeyError:
            return web.Response(status=404, text="404 page not found\n")

    async def _act(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        if target.resource == ACCESS_REVIEWS:
            return await self._review(request)
        if target.subresource and VERBS.get(request.method) not in SUBRESOURCE_VERBS[target.subresource]:
            raise method_not_allowed()
        match request.method, bool(target.name):
            case "GET", True:
                return await self._get(request, target)
            case "POST", True if target.subresource == "eviction":
                return await self._evict(request, target)
            case "GET", False:
                return await self._read_collection(request, target)
            case "POST", False if target.namespace or not target.resource.namespaced:
                return await self._write(request, target)
            case "PUT" | "PATCH", True:
                return await self._write(request, target)
            case "DELETE", True:
                return await self._delete(request, target)
            case "DELETE", False if "deletecollection" in target.resource.verbs:
                return await self._delete_collection(request, target)
        raise method_not_allowed()

    async def _get(self, request: web.BaseRequest, target: Target) -> web.Response:
        representation = _representation(request, target)
        await reach(self._store, parse_version(request.query.get("resourceVersion", "")))
        return _bytes(representation.object(_shown(target, self._registry.get(target))))

    async def _read_collection(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        selector, options = _selector(request, target), ListOptions.parse(request.query)
        if is_set(request.query, "watch"):
            return await self._watch(request, target, selector, options)
        representation = _representation(request, target, is_list=True)
        return _bytes(representation.list(*await list_page(self._store, options, selector)))

    async def _watch(
        self, request: web.BaseRequest, target: Target, selector: Selector, options: ListOptions
    ) -> web.StreamResponse:
        representation = _requested(request, target)
        watch = Watch(self._store, options, selector, representation, bookmark_period=self._bookmark_period)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        try:
            async for chunk in watch.chunks():
                await response.write(chunk)
            await response.write_eof()
        except ConnectionResetError:
            pass  # the client left, and the write noticed it before aiohttp cancelled this handler
        finally:
            watch.close()
        return response

    async def _write(self, request: web.BaseRequest, target: Target) -> web.Response:
        representation = _representation(request, target)
        options = WriteOptions.parse(request)
        content_type = request.headers.get("Content-Type", "")
        decoded = decode(await _body(request), content_type)
        if request.method == "POST":
            stored, is_new = self._writer.create(target, decoded, options)
        elif request.method == "PUT":
            stored, is_new = self._writer.update(target, decoded, options)
        else:
            media_type = content_type.partition(";")[0]
            stored, is_new = self._writer.patch(target, media_type, decoded, options)
        response = _bytes(representation.object(_shown(target, stored)), 201 if is_new else 200)
        for each in options.warnings:
            quoted = each.replace("\\", "\\\\").replace('"', '\\"')
            response.headers.add("Warning", f'299 - "{quoted}"')
        return response

    async def _delete(self, request: web.BaseRequest, target: Target) -> web.Response:
        options, dry_run = delete_options(request, await _body(request))
        with self._store.rehearsal(dry_run):
            stored, gone = self._registry.delete(target.resource, target.key, options)
        if gone and not target.resource.returns_deleted:
            return _json(deleted(target.resource, target.name, stored.metadata["uid"]))
        return _bytes(_representation(request, target).object(stored))

    async def _delete_collection(self, request: web.BaseRequest, target: Target) -> web.Response:
        options, dry_run = delete_options(request, await _body(request))
        selector, which = _selector(request, target), ListOptions.parse(request.query)
        items, metadata = await list_page(self._store, which, selector)
        with self._store.rehearsal(dry_run):
            for stored in items:
                self._registry.delete(target.resource, stored.key, options)
        representation = _representation(request, target, is_list=True)
        return _bytes(representation.list(items, metadata))

    async def _evict(self, request: web.BaseRequest, target: Target) -> web.Response:
        content_type = request.headers.get("Content-Type", "")
        eviction, options = decode(await _body(request), content_type), WriteOptions.parse(request)
        evict(self._registry, target, eviction, dry_run=options.dry_run)
        return _json(success() | {"code": 201}, 201)

    async def _review(self, request: web.BaseRequest) -> web.Response:
        content_type, body = request.headers.get("Content-Type", ""), await _body(request)
        readable = not content_type.endswith("protobuf")  # as kubectl sends it; the answer is the same
        review = decode(body, content_type) if readable else {}
        answer = ACCESS_REVIEWS.with_type({"metadata": {}}) | review
        return _json(answer | {"status": {"allowed": True}}, 201)


def _shown(target: Target, stored: Stored) -> Stored:
    return scale_of(target.resource, stored) if target.subresource == "scale" else stored


def _requested(request: web.BaseRequest, target: Target) -> Representation:
    accept, include = request.headers.get("Accept", ""), request.query.get("includeObject", "")
    return Representation(target.shown, accept, include=include)


def _representation(request: web.BaseRequest, target: Target, *, is_list: bool = False) -> Representation:
    representation = _requested(request, target)
    if representation.form == (PARTIAL if is_list else PARTIAL_LIST):
        found = "is a list" if is_list else "is not a list"
        raise StatusError(406, f"you requested {representation.form}, but the requested object {found}")
    return representation


async def _body(request: web.BaseRequest) -> bytes:
    body = await request.content.read()
    if len(body) > _MAX_BODY:
        raise StatusError(413, f"Request entity too large: limit is {_MAX_BODY}")
    return body


def _selector(request: web.BaseRequest, target: Target) -> Selector:
    query = request.query
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    return Selector(target.resource, target.namespace, labels, fields)


def _bytes(body: bytes, code: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(body=body, status=code, content_type="application/json", headers=headers)


def _json(answer: dict[str, Any], code: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return _bytes(msgspec.json.encode(answer), code, headers)
