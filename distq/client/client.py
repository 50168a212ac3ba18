"""The client that reconcile functions use: objects are dicts, resources are texts."""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from distq.client import changes, writes
from distq.client.deletion import Propagation, delete_options
from distq.client.dropped_zeros import DroppedZeros
from distq.client.error_mapping import missing_object
from distq.client.http_answer import AnswerTooLarge
from distq.client.objects import Object, metadata, resource_text, title
from distq.client.page_size import PageSize, bytes_of_page
from distq.client.raw import RawClient
from distq.client.recorded_event import About
from distq.client.recorder import EventRecorder
from distq.client.resources import Discovery, Resource
from distq.errors import ApiError, ConfigError, Expired, NotFound, short_tracebacks
from distq.forks import cached_property
from distq.mistakes import suggesting_keywords
from distq.redisio.limits import PAGE_SIZE
from distq.seconds import Duration, in_seconds

if TYPE_CHECKING:
    from distq.client.aio import AsyncClient

_APPLY = "application/apply-patch+yaml"
_MERGE_PATCH = "application/merge-patch+json"
_STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
_JSON_PATCH = "application/json-patch+json"
_WRITES = {"POST", "PUT", "PATCH"}


@short_tracebacks
@suggesting_keywords()
class Client(RawClient):
    """One cluster's objects, by the kubeconfig or the pod's service account; connects when used.

    Resources are texts as ``"apps/v1/Deployment"`` or ``"v1/Pod"``, keys are ``"namespace/name"``, or
    ``"name"`` for cluster-scoped ones. Every call raises ApiError or one of its kinds, with status 0 when no
    answer came within ``timeout`` seconds, and ConfigError for arguments that cannot work.

    :param str | os.PathLike[str] | None kubeconfig: The path of a kubeconfig. Default: None, KUBECONFIG's
        files, else ``~/.kube/config``, else the pod's service account, as kubectl chooses.
    :param str | None context: The name of a context of the kubeconfig. Default: None, its current context.
    :param str field_manager: The owner of the fields that this client writes (server-side apply), and the
        reporter of its events. Default: ``"distq"``.
    :param Duration timeout: Seconds within which the API server must answer, more than 0. Default: 30.
    """

    def __init__(
        self,
        kubeconfig: str | os.PathLike[str] | None = None,
        *,
        context: str | None = None,
        field_manager: str = "distq",
        timeout: Duration = 30.0,
    ) -> None:
        super().__init__(kubeconfig, context=context, timeout=timeout)
        self._manager = {"fieldManager": field_manager}
        self._discovery = Discovery(lambda path: self._decode(self.request("GET", path), "GET", path))
        self._recorder = EventRecorder(self, field_manager)
        self._cluster_ids: dict[str, str] = {}
        """By server: without a kubeconfig of its own, a client follows KUBECONFIG to other clusters."""
        self._dropped_zeros = DroppedZeros()

    def resolve(self, text: str) -> Resource:
        """Return the resource that a text names; NotFound when the API server does not serve it."""
        return self._discovery.resolve(text)

    def forget(self, resource: Resource) -> None:
        """Ask discovery again at the resource's next use: its paths were answered as unknown."""
        self._discovery.forget(resource)

    def get(self, resource: str, key: str) -> Object | None:
        """Return the newest state of the object, None when there is none.

        NotFound means that the resource itself is unknown.
        """
        try:
            return self.get_or_raise(resource, key)
        except NotFound as error:
            if missing_object(error):
                return None
            raise

    def get_or_raise(self, resource: str, key: str) -> Object:
        """Return the newest state of the object; NotFound when there is none.

        For an object that has to be there: a type checker then knows that it is no None.
        """
        kind = self.resolve(resource)
        return self._ask("GET", kind.key_path(key), kind)

    def list(
        self,
        resource: str,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> Iterator[Object]:
        """Yield the objects of a namespace, or of all, asking for them in pages of 500, or 8 MiB, as needed.

        All come from one moment, unless reading takes so long (minutes) that the server forgets it: the
        rest is then as of now, and an object that changed its place in between may be missing or come twice.
        """
        selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        yield from chain.from_iterable(self._pages(resource, namespace, selectors))

    def create(self, obj: Object) -> Object:
        """Create the object and return it as stored; Conflict when it exists."""
        kind = self.resolve(resource_text(obj))
        if kind.namespaced and not metadata(obj).get("namespace"):
            raise ConfigError(f"cannot create {title(obj)}: no namespace. Set metadata.namespace.")
        path = kind.path(metadata(obj).get("namespace"))
        return self._ask("POST", path, kind, body=obj, query=self._manager)

    def update(self, obj: Object, *, status: bool = False) -> Object:
        """Replace the object, or its status alone, and return it as stored.

        Conflict when it has changed since its ``metadata.resourceVersion``.
        """
        kind, path = self._place(obj, status=status)
        return self._ask("PUT", path, kind, body=obj, query=self._manager)

    def apply(self, obj: Object, *, status: bool = False, force: bool = True) -> Object:
        """Make the object's fields so, create it if absent, and return it as stored (server-side apply).

        Fields applied before by this field manager and left out now are removed. ``force`` takes fields
        from other managers, without it they are a Conflict.
        """
        kind, path = self._place(obj, status=status)
        query = {**self._manager, "force": "true" if force else "false"}
        return self._ask("PATCH", path, kind, body=obj, query=query, content_type=_APPLY)

    def patch(
        self,
        resource: str,
        key: str,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        status: bool = False,
        strategic: bool = False,
    ) -> Object:
        """Change the object, or its status alone, and return it as stored.

        A mapping is a JSON merge patch (RFC 7396), which replaces lists whole, a sequence a JSON patch
        (RFC 6902). With ``strategic`` a mapping is a strategic merge patch, which merges lists such as
        containers by their keys: for Kubernetes' own kinds alone, an ApiError (415) for custom resources.
        Source: client-go types.StrategicMergePatchType.
        """
        if strategic and not isinstance(patch, Mapping):
            raise ConfigError(f"bad patch of {resource} {key}: a strategic one is a mapping. Give a dict.")
        kind = self.resolve(resource)
        path = kind.key_path(key) + ("/status" if status else "")
        merges = _STRATEGIC_MERGE_PATCH if strategic else _MERGE_PATCH
        content_type = merges if isinstance(patch, Mapping) else _JSON_PATCH
        return self._ask("PATCH", path, kind, body=patch, query=self._manager, content_type=content_type)

    def delete(
        self,
        resource: str,
        key: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation = "Background",
        grace_period: int | timedelta | None = None,
    ) -> bool:
        """Delete the object and, by ``propagation``, its dependents; return False when there is none.

        Conflict when ``uid`` or ``resource_version`` is given and is not, or no longer, the object's.
        Finalizers may keep it; a Pod has ``grace_period`` seconds to end, by default those of its spec.
        """
        kind = self.resolve(resource)
        options = delete_options(uid, resource_version, propagation, grace_period)
        try:
            path = kind.key_path(key)
            body = self._body("DELETE", path, kind, body=options)
            writes.deleted(self, kind, key, self._decode(body, "DELETE", path), body)
        except NotFound as error:
            if missing_object(error):
                return False
            raise
        return True

    patch_status = changes.patch_status
    modify = changes.modify
    create_or_update = changes.create_or_update
    add_finalizer = changes.add_finalizer
    remove_finalizer = changes.remove_finalizer

    def event(
        self,
        about: About,
        reason: str,
        message: str,
        *,
        type: Literal["Normal", "Warning"] = "Normal",  # noqa: A002  the field's name
        field_path: str = "",
    ) -> None:
        """Record an event about an object, or a part of it; ``kubectl describe`` shows it.

        ``reason`` is one word in CamelCase. It returns at once and raises nothing: a thread sends the events
        in their order, counts equal ones, merges similar ones, and drops those that the API server refuses,
        which it logs and counts. A function in place of the object finds it when the event is sent; None is
        no event. Source: client-go tools/record.
        """
        self._recorder.record(about, reason, message, type=type, field_path=field_path)

    def flush_events(self, timeout: Duration = 5.0) -> bool:
        """Wait at most ``timeout`` seconds until all recorded events are sent; return whether they are."""
        return not self._recorder.flush(in_seconds(timeout))

    def cluster_id(self) -> str:
        """Return an identifier of this cluster, also after it moved, that no other has.

        The uid of the namespace kube-system; where that may not be read, a hash of server and authority.
        """
        if self.server not in self._cluster_ids:
            try:
                kube_system = self.get("v1/Namespace", "kube-system") or {}  # it is never deleted
            except ApiError as error:
                if error.status != 403:
                    raise
                kube_system = {}
            self._cluster_ids[self.server] = metadata(kube_system).get("uid") or self._hash_of_access()
        return self._cluster_ids[self.server]

    def _hash_of_access(self) -> str:
        transport = self._connected()
        authority = transport.certificate_authority
        content = Path(authority).read_bytes() if authority else b""
        return hashlib.sha256(transport.server.encode() + b"\0" + content).hexdigest()[:32]

    @cached_property
    def aio(self) -> "AsyncClient":
        """The same calls for ``async def``: ``await client.aio.get(...)``. They run in threads of its own."""
        from distq.client.aio import AsyncClient  # which imports this module

        return AsyncClient(self)

    def _place(self, obj: Object, *, status: bool) -> tuple[Resource, str]:
        kind = self.resolve(resource_text(obj))
        about = metadata(obj)
        if not about.get("name"):
            raise ConfigError(f"cannot write {title(obj)}: no name. Set metadata.name.")
        return kind, kind.path(about.get("namespace"), about["name"]) + ("/status" if status else "")

    def _pages(
        self, resource: str, namespace: str | None, selectors: Mapping[str, str]
    ) -> Iterator[Sequence[Object]]:
        kind, size = self.resolve(resource), PageSize(PAGE_SIZE)
        path, query = kind.path(namespace), {name: value for name, value in selectors.items() if value}
        while True:
            query["limit"] = str(size.limit)
            try:
                body = self._body("GET", path, kind, query=query, max_bytes=bytes_of_page(size.limit))
            except AnswerTooLarge:
                size.shrink()
                continue
            except Expired as error:
                # the answer may have a token for the rest, as of now
                query["continue"] = metadata(dict(error.answer)).get("continue") or ""
                if not query["continue"]:
                    raise
                continue
            size.came(len(body))
            page = self._decode(body, "GET", path)
            # built-in kinds leave both out of a list's items
            about = {"apiVersion": kind.api_version, "kind": kind.kind}
            yield [{**about, **item} for item in page.get("items") or ()]
            query["continue"] = metadata(page).get("continue") or ""
            if not query["continue"]:
                return

    def _ask(self, method: str, path: str, kind: Resource, **options: Any) -> Object:
        """Send a request about an object, publish a write, and return the object of the answer."""
        body = self._body(method, path, kind, **options)
        obj: Object = self._decode(body, method, path)
        if method in _WRITES:
            writes.written(self, kind, obj, body)
        return obj

    def _body(self, method: str, path: str, kind: Resource, **options: Any) -> bytes:
        try:
            return self.request(method, path, **options)
        except NotFound as error:
            if not missing_object(error):  # its CRD may come again with another plural
                self.forget(kind)
            raise

    def _decode(self, body: bytes, method: str, path: str) -> Any:
        try:
            return msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise ApiError(
                f"{method} {path}: the answer is not JSON. Check that {self.server} is an API server."
            ) from None
        except RecursionError:  # API servers take 10,000 levels
            raise ApiError(
                f"{method} {path}: the answer is nested too deeply. Raise Python's recursion limit."
            ) from None
