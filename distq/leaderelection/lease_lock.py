"""Keep the leader's record in an object of the API server, such as a Lease.

Electors of client-go and controller-runtime can compete for the same Lease.
"""

import json
import logging
import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from distq.client.client import Client
from distq.client.objects import Object
from distq.client.raw import WatchResponse
from distq.client.resources import Resource
from distq.errors import ApiError, ConfigError, Conflict, NotFound
from distq.leaderelection.lock import LeaderElectionRecord, fields_of, new_identity, record_from

logger = logging.getLogger(__name__)

READ_TIMEOUT = 75.0  # seconds of a watch's silence; bookmarks come each minute
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds between two watches
REFUSED_PATCH = frozenset({403, 404, 409, 422})  # no verb, no object, busy, a failed test operation


class ObjectLock(ABC):
    """A Lock on the object ``namespace/name`` of one kind; not to be shared by electors."""

    resource: ClassVar[Resource]

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        *,
        identity: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        if not namespace or not name:
            raise ConfigError(
                f'bad {self.resource.kind}: "{namespace}/{name}". Give both a namespace and a name.'
            )
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = new_identity() if identity is None else identity
        self._labels = dict(labels or {})
        self._title = f"{self.resource.kind} {namespace}/{name}"
        self._object: Object | None = None

    @property
    def identity(self) -> str:
        """Return this process's name in the record."""
        return self._identity

    def describe(self) -> str:
        """Return ``namespace/name`` of the object."""
        return f"{self._namespace}/{self._name}"

    def get(self, *, timeout: float) -> LeaderElectionRecord | None:
        """Return the object's record, None if there is no object."""
        try:
            return self._remember(self._client.request("GET", self._path, timeout=timeout))
        except NotFound:
            self._object = None
            return None

    def create(self, record: LeaderElectionRecord, *, timeout: float) -> LeaderElectionRecord:
        """Create the object; raise Conflict if it exists."""
        empty = {
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "metadata": {"namespace": self._namespace, "name": self._name, "labels": self._labels},
        }
        path = self.resource.path(self._namespace)
        body = self._with_record(empty, record)
        return self._remember(self._client.request("POST", path, body=body, timeout=timeout))

    def update(self, record: LeaderElectionRecord, *, timeout: float) -> LeaderElectionRecord:
        """Replace the record last seen; raise Conflict if the object has another one by now, or is gone.

        Writes to the object that leave the record alone do not make it fail.
        """
        seen = self._object
        if seen is None:
            raise Conflict(f"{self._title}: not read yet. Get or create it first.", status=409)
        try:
            return self._put(seen, record, timeout)
        except Conflict:  # other clients may write to the object as often as they like
            return self._patch(seen, record, timeout)
        except NotFound as error:  # the elector reads again after a Conflict
            raise Conflict(str(error), status=409, reason="Conflict") from error

    def watch(self, on_record: Callable[[LeaderElectionRecord], None]) -> AbstractContextManager[None]:
        """Watch the object and call ``on_record`` from the watch's thread with the record of each event."""
        path = self.resource.path(self._namespace)
        return ObjectWatch(self._client, path, self._name, lambda found: on_record(self._record_of(found)))

    def record_event(self, message: str) -> None:
        """Record a Normal event with the reason LeaderElection about the object."""
        if self._object is not None:
            about = self._object | {"apiVersion": self.resource.api_version, "kind": self.resource.kind}
            self._client.event(about, "LeaderElection", message)

    # These differ by the kind of object

    @abstractmethod
    def _record_of(self, found: Object) -> LeaderElectionRecord:
        """Read the record of any writer; a field that is absent or null is empty."""

    @abstractmethod
    def _with_record(self, found: Object, record: LeaderElectionRecord) -> Object:
        """Return the object with this record in place of its own."""

    @abstractmethod
    def _change(self, seen: Object, record: LeaderElectionRecord) -> list[Object]:
        """Return a JSON patch that fails if the record is not the one seen.

        Raises Conflict if no patch can test that.
        """

    # Requests

    @property
    def _path(self) -> str:
        return self.resource.path(self._namespace, self._name)

    def _put(self, seen: Object, record: LeaderElectionRecord, timeout: float) -> LeaderElectionRecord:
        # with the uid and resourceVersion of ``seen``: without, a PUT would create a Lease that was deleted
        body = self._with_record(seen, record)
        if self._labels:
            metadata = body["metadata"]
            labels = (metadata.get("labels") or {}) | self._labels
            body = body | {"metadata": metadata | {"labels": labels}}
        return self._remember(self._client.request("PUT", self._path, body=body, timeout=timeout))

    def _patch(self, seen: Object, record: LeaderElectionRecord, timeout: float) -> LeaderElectionRecord:
        """Write the record at any version of the object, if the record is still the one that was seen."""
        # an object that was deleted and made anew is another one, even with the same record
        same = {"op": "test", "path": "/metadata/uid", "value": seen["metadata"]["uid"]}
        patch = [same, *self._change(seen, record)]
        try:
            reply = self._client.request(
                "PATCH", self._path, body=patch, content_type="application/json-patch+json", timeout=timeout
            )
        except ApiError as error:
            if error.status in REFUSED_PATCH:
                raise Conflict(str(error), status=409, reason="Conflict") from error
            raise
        return self._remember(reply)

    def _remember(self, reply: bytes) -> LeaderElectionRecord:
        try:
            found: dict[str, Any] = json.loads(reply)
            record = self._record_of(found)
        # any client may have written anything: a later try may find a record
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            raise ApiError(f"{self._title}: no record can be read from the reply ({error!r}).") from error
        self._object = found
        return record


class LeaseLock(ObjectLock):
    """Keep the record in the Lease ``namespace/name``; not to be shared by electors.

    ``identity`` defaults to the host's name and a random part. ``labels`` are set on the Lease at each write,
    other labels stay. The service account needs the verbs get, create, update, patch and watch on leases.

    Source: client-go tools/leaderelection/resourcelock LeaseLock.
    """

    resource = Resource("coordination.k8s.io/v1", "Lease", "leases", namespaced=True)

    def _record_of(self, found: Object) -> LeaderElectionRecord:
        version = found["metadata"]["resourceVersion"]
        return record_from(found.get("spec") or {}, version=version, transitions="leaseTransitions")

    def _with_record(self, found: Object, record: LeaderElectionRecord) -> Object:
        return found | {"spec": (found.get("spec") or {}) | _spec_of(record)}

    def _change(self, seen: Object, record: LeaderElectionRecord) -> list[Object]:
        old = seen.get("spec") or {}
        for name in "holderIdentity", "renewTime":
            if name not in old:
                # two candidates could both find it absent
                raise Conflict(f"{self._title} changed, and its record has no {name}.", status=409)
        return [
            {"op": "test", "path": "/spec/holderIdentity", "value": old["holderIdentity"]},
            {"op": "test", "path": "/spec/renewTime", "value": old["renewTime"]},
            {"op": "replace", "path": "/spec", "value": old | _spec_of(record)},
        ]


def _spec_of(record: LeaderElectionRecord) -> dict[str, Any]:
    return fields_of(record, transitions="leaseTransitions", precision="microseconds")


class ObjectWatch(AbstractContextManager[None]):
    """Call ``on_object`` from a thread with the object as it is and as it becomes, within the block.

    It only saves time: followers read the record now and then anyway, and always before they take it.
    """

    def __init__(self, client: Client, path: str, name: str, on_object: Callable[[Object], None]) -> None:
        self._client = client
        self._path = path
        self._name = name
        self._on_object = on_object
        self._closed = threading.Event()
        self._stream: WatchResponse | None = None
        self._pause = FIRST_PAUSE

    def __enter__(self) -> None:
        threading.Thread(target=self._run, name=f"distq-election-watch-{self._name}", daemon=True).start()

    def __exit__(self, *error: object) -> None:
        """End the watch; nothing is called afterwards, but the thread is not waited for."""
        self._closed.set()
        stream = self._stream
        if stream is not None:
            stream.close()

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._follow()
            except Exception as error:  # noqa: BLE001 - after any error the next watch may work
                if not self._closed.is_set():
                    logger.debug("watch of %s ended: %s", self._name, error)
            self._closed.wait(self._pause * random.uniform(0.5, 1))
            self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def _follow(self) -> None:
        query = {
            "watch": "true",
            "fieldSelector": f"metadata.name={self._name}",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(random.randint(300, 600)),  # as client-go's reflector asks
        }
        with self._client.stream(self._path, query=query, read_timeout=READ_TIMEOUT) as stream:
            self._stream = stream
            if self._closed.is_set():  # __exit__ came too early to close this stream
                return
            for line in stream:
                self._take(json.loads(line))

    def _take(self, event: dict[str, Any]) -> None:
        if event["type"] == "ERROR":
            raise ApiError(
                event["object"].get("message", "watch error"), status=event["object"].get("code", 0)
            )
        # a deletion is no release: the leader may still act until the lease would have expired
        if event["type"] in {"ADDED", "MODIFIED"} and not self._closed.is_set():
            self._on_object(event["object"])
        self._pause = FIRST_PAUSE  # not before: a bad object comes again with each connection
