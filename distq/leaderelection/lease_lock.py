"""Keep the leader's record in a Lease object, as client-go and controller-runtime do.

Electors of both kinds can compete for the same Lease. Writes carry uid and
resourceVersion: a PUT without them would create a Lease that was just deleted.
"""

import json
import math
import secrets
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from distq.client.client import Client
from distq.client.objects import Object
from distq.client.resources import Resource
from distq.errors import ApiError, ConfigError, Conflict, NotFound
from distq.leaderelection.lease_watch import LeaseWatch
from distq.leaderelection.lock import LeaderElectionRecord

LEASES = Resource("coordination.k8s.io/v1", "Lease", "leases", namespaced=True)
REFUSED_PATCH = frozenset({403, 404, 409, 422})  # no verb, no Lease, busy, a failed test operation


class LeaseLock:
    """Keep the record in the Lease ``namespace/name``; not to be shared by electors.

    ``identity`` defaults to the host's name and a random part. ``labels`` are set on the Lease at each write,
    other labels stay. The service account needs the verbs get, create, update, patch and watch on leases.

    Source: client-go tools/leaderelection/resourcelock LeaseLock.
    """

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
            raise ConfigError(f'bad Lease: "{namespace}/{name}". Give both a namespace and a name.')
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = f"{socket.gethostname()}_{secrets.token_hex(8)}" if identity is None else identity
        self._labels = dict(labels or {})
        self._lease: Object | None = None

    @property
    def identity(self) -> str:
        """Return who this process is in the Lease."""
        return self._identity

    def describe(self) -> str:
        """Return ``namespace/name`` of the Lease."""
        return f"{self._namespace}/{self._name}"

    def get(self, *, timeout: float) -> LeaderElectionRecord | None:
        """Return the Lease's record, or None when there is no Lease."""
        try:
            return self._remember(self._client.request("GET", self._path, timeout=timeout))
        except NotFound:
            self._lease = None
            return None

    def create(self, record: LeaderElectionRecord, *, timeout: float) -> LeaderElectionRecord:
        """Create the Lease; raise Conflict if it exists."""
        lease = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"namespace": self._namespace, "name": self._name, "labels": self._labels},
            "spec": spec_of(record),
        }
        path = LEASES.path(self._namespace)
        return self._remember(self._client.request("POST", path, body=lease, timeout=timeout))

    def update(self, record: LeaderElectionRecord, *, timeout: float) -> LeaderElectionRecord:
        """Replace the record last seen; raise Conflict if the Lease has another one by now, or is gone.

        Writes to the Lease that leave the record alone do not make it fail.
        """
        seen = self._lease
        if seen is None:
            raise Conflict(f"Lease {self.describe()}: not read yet. Get or create it first.", status=409)
        spec = (seen.get("spec") or {}) | spec_of(record)
        try:
            return self._put(seen, spec, timeout)
        except Conflict:
            return self._patch(seen, spec, timeout)
        except NotFound as error:
            raise Conflict(str(error), status=409, reason="Conflict") from error

    @contextmanager
    def watch(self, on_record: Callable[[LeaderElectionRecord], None]) -> Iterator[None]:
        """Watch the Lease and call ``on_record`` from the watch's thread with the record of each event."""
        watch = LeaseWatch(
            self._client, LEASES.path(self._namespace), self._name, lambda lease: on_record(record_of(lease))
        )
        watch.start()
        try:
            yield
        finally:
            watch.close()

    def record_event(self, message: str) -> None:
        """Record a Normal event with the reason LeaderElection about the Lease."""
        if self._lease is not None:
            about = self._lease | {"apiVersion": LEASES.api_version, "kind": LEASES.kind}
            self._client.event(about, "LeaderElection", message)

    @property
    def _path(self) -> str:
        return LEASES.path(self._namespace, self._name)

    def _put(self, seen: Object, spec: Object, timeout: float) -> LeaderElectionRecord:
        metadata = seen["metadata"]
        if self._labels:
            metadata = metadata | {"labels": metadata.get("labels", {}) | self._labels}
        lease = seen | {"metadata": metadata, "spec": spec}
        return self._remember(self._client.request("PUT", self._path, body=lease, timeout=timeout))

    def _patch(self, seen: Object, spec: Object, timeout: float) -> LeaderElectionRecord:
        """Write the record whatever the Lease's version, if it is still the one that was seen."""
        old = seen.get("spec") or {}
        guards = [("/metadata/uid", seen["metadata"]["uid"])]
        for name in "holderIdentity", "renewTime":
            if name not in old:
                # Two candidates could both find it absent.
                raise Conflict(f"Lease {self.describe()} changed, and its record has no {name}.", status=409)
            guards.append((f"/spec/{name}", old[name]))
        patch = [{"op": "test", "path": path, "value": value} for path, value in guards]
        patch.append({"op": "replace", "path": "/spec", "value": spec})
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
            lease = json.loads(reply)
            record = record_of(lease)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ApiError(f"Lease {self.describe()}: the reply is no Lease ({error!r}).") from error
        self._lease = lease
        return record


def record_of(lease: Object) -> LeaderElectionRecord:
    """Read the record of a Lease object, whoever wrote it; what is absent or null is empty."""
    spec = lease.get("spec") or {}
    return LeaderElectionRecord(
        holder_identity=spec.get("holderIdentity") or "",
        lease_duration=float(spec.get("leaseDurationSeconds") or 0),
        acquire_time=_parse_time(spec.get("acquireTime")),
        renew_time=_parse_time(spec.get("renewTime")),
        leader_transitions=spec.get("leaseTransitions") or 0,
        version=lease["metadata"]["resourceVersion"],
    )


def spec_of(record: LeaderElectionRecord) -> dict[str, Any]:
    """Return the record as a Lease's spec; Leases count whole seconds, so the duration is rounded up."""
    return {
        "holderIdentity": record.holder_identity,
        "leaseDurationSeconds": math.ceil(record.lease_duration),
        "acquireTime": _format_time(record.acquire_time),
        "renewTime": _format_time(record.renew_time),
        "leaseTransitions": record.leader_transitions,
    }


def _parse_time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _format_time(time: datetime | None) -> str | None:
    """Write six decimals always: the API server refuses fewer."""
    if time is None:
        return None
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
