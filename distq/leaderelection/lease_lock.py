"""Keep the leader's record in a Lease object, as client-go and controller-runtime do.

Electors of both kinds can compete for the same Lease.
"""

from typing import Any

from distq.client.objects import Object
from distq.client.resources import Resource
from distq.errors import Conflict
from distq.leaderelection.lock import LeaderElectionRecord, fields_of, record_from
from distq.leaderelection.object_lock import ObjectLock


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
                # Two candidates could both find it absent.
                raise Conflict(f"{self._title} changed, and its record has no {name}.", status=409)
        return [
            {"op": "test", "path": "/spec/holderIdentity", "value": old["holderIdentity"]},
            {"op": "test", "path": "/spec/renewTime", "value": old["renewTime"]},
            {"op": "replace", "path": "/spec", "value": old | _spec_of(record)},
        ]


def _spec_of(record: LeaderElectionRecord) -> dict[str, Any]:
    return fields_of(record, transitions="leaseTransitions", precision="microseconds")
