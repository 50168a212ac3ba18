"""Locks of the years before Leases, for migrating from them: EndpointsLock, ConfigMapLock, MultiLock.

client-go removed them. The way is: the old lock, then ``MultiLock(old, LeaseLock)``, then LeaseLock, one step
a release. A fleet that goes at once from the old lock to Leases has two leaders during the rollout.
"""

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from distq.client.client import Client
from distq.client.objects import Object
from distq.client.resources import Resource
from distq.errors import ConfigError, Conflict
from distq.leaderelection.lease_lock import ObjectLock
from distq.leaderelection.lock import LeaderElectionRecord, Lock, fields_of, record_from

ANNOTATION = "control-plane.alpha.kubernetes.io/leader"
_TRANSITIONS = "leaderTransitions"
UNKNOWN_LEADER = "leaderelection.k8s.io/unknown"
"""The holder while two locks name different ones: no process, and none may take it before its time."""


class _AnnotationLock(ObjectLock):
    """Keep the record as JSON in an annotation; times are whole seconds: retry_period is 1 or more."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        *,
        identity: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(client, namespace, name, identity=identity, labels=labels)
        warnings.warn(
            f"{type(self).__name__} is for migration: client-go has none any more. "
            "Compete by MultiLock(it, LeaseLock) for one release, then by LeaseLock alone.",
            DeprecationWarning,
            stacklevel=2,
        )

    def _record_of(self, found: Object) -> LeaderElectionRecord:
        fields = json.loads(_annotations(found).get(ANNOTATION) or "{}")
        version = found["metadata"]["resourceVersion"]
        return record_from(fields, version=version, transitions=_TRANSITIONS)

    def _with_record(self, found: Object, record: LeaderElectionRecord) -> Object:
        annotations = _annotations(found) | {ANNOTATION: _json_of(record)}
        return found | {"metadata": found["metadata"] | {"annotations": annotations}}

    def _change(self, seen: Object, record: LeaderElectionRecord) -> list[Object]:
        old = _annotations(seen).get(ANNOTATION)
        if old is None:  # two candidates could both find it absent
            raise Conflict(f"{self._title} changed, and it has no record.", status=409)
        path = "/metadata/annotations/" + ANNOTATION.replace("/", "~1")  # a JSON Pointer (RFC 6901)
        return [
            {"op": "test", "path": path, "value": old},
            {"op": "replace", "path": path, "value": _json_of(record)},
        ]


class EndpointsLock(_AnnotationLock):
    """Keep the record in an annotation of the Endpoints ``namespace/name``; for migration.

    Needs the verbs get, create, update, patch and watch on endpoints.

    Source: client-go 0.22 tools/leaderelection/resourcelock EndpointsLock.
    """

    resource = Resource("v1", "Endpoints", "endpoints", namespaced=True)


class ConfigMapLock(_AnnotationLock):
    """Keep the record in an annotation of the ConfigMap ``namespace/name``; for migration.

    Needs the verbs get, create, update, patch and watch on configmaps.

    Source: client-go 0.22 tools/leaderelection/resourcelock ConfigMapLock.
    """

    resource = Resource("v1", "ConfigMap", "configmaps", namespaced=True)


class MultiLock:
    """Hold two locks at once, the old one as ``primary`` and a LeaseLock as ``secondary``; for migration.

    While they name different holders, no process may lead before the longer lease has run out. Epochs are
    versions of the secondary. Both locks need the same identity.

    Source: client-go tools/leaderelection/resourcelock MultiLock. Different: a record in the secondary counts
    even if the primary was deleted.
    """

    def __init__(self, primary: Lock, secondary: Lock) -> None:
        if primary.identity != secondary.identity:
            raise ConfigError(
                f'bad MultiLock: identities "{primary.identity}" and "{secondary.identity}". '
                "Give both locks the same one."
            )
        self._primary = primary
        self._secondary = secondary
        self._found = _Pair()

    @property
    def identity(self) -> str:
        """Return this process's name in both records."""
        return self._primary.identity

    def describe(self) -> str:
        """Return the primary's name."""
        return self._primary.describe()

    def get(self, *, timeout: float) -> LeaderElectionRecord | None:
        """Return both records as one, None if there is neither."""
        self._found = _Pair(self._primary.get(timeout=timeout), self._secondary.get(timeout=timeout))
        return self._found.together()

    def create(self, record: LeaderElectionRecord, *, timeout: float) -> LeaderElectionRecord:
        """Create both; raise Conflict if there is one."""
        self._found = _Pair()
        return self.update(record, timeout=timeout)

    def update(self, record: LeaderElectionRecord, *, timeout: float) -> LeaderElectionRecord:
        """Replace or create both, first the primary; raise Conflict if one is another by now.

        A first write without the second keeps all processes from leading for the time of a lease.
        """
        found = self._found
        write = self._primary.update if found.primary else self._primary.create
        first = write(record, timeout=timeout)
        self._found = replace(found, primary=first)  # noted even if the second write fails
        write = self._secondary.update if found.secondary else self._secondary.create
        second = write(record, timeout=timeout)
        self._found = _Pair(first, second)
        written = self._found.together()
        assert written is not None  # noqa: S101  # both are there
        return written

    @contextmanager
    def watch(self, on_record: Callable[[LeaderElectionRecord], None]) -> Iterator[None]:
        """Watch both, and call ``on_record`` with both records as one."""
        seen = _Pair()

        def receive(**record: LeaderElectionRecord) -> None:
            nonlocal seen
            seen = replace(seen, **record)
            together = seen.together()
            if together is not None:
                on_record(together)

        with (
            self._primary.watch(lambda record: receive(primary=record)),
            self._secondary.watch(lambda record: receive(secondary=record)),
        ):
            yield

    def record_event(self, message: str) -> None:
        """Record an event about either."""
        self._primary.record_event(message)
        self._secondary.record_event(message)


@dataclass(frozen=True, kw_only=True)
class _Together(LeaderElectionRecord):
    """Two records as one."""

    other: LeaderElectionRecord | None = None
    """The secondary's, so that a change of either record is a change of this one."""


@dataclass(frozen=True)
class _Pair:
    primary: LeaderElectionRecord | None = None
    secondary: LeaderElectionRecord | None = None

    def together(self) -> _Together | None:
        """Return one record for both, None without any; its holder is unknown if theirs differ."""
        main, other = self.primary or self.secondary, self.secondary
        if main is None:
            return None
        duration, holder = main.lease_duration, main.holder_identity
        if other is not None and other.holder_identity != holder:
            holder, duration = UNKNOWN_LEADER, max(duration, other.lease_duration)
        return _Together(
            holder_identity=holder,
            lease_duration=duration,
            acquire_time=main.acquire_time,
            renew_time=main.renew_time,
            leader_transitions=main.leader_transitions,
            version=(other or main).version,
            other=other,
        )


def _annotations(found: Object) -> dict[str, str]:
    annotations: dict[str, str] = found["metadata"].get("annotations") or {}
    return annotations


def _json_of(record: LeaderElectionRecord) -> str:
    fields = fields_of(record, transitions=_TRANSITIONS, precision="seconds")
    return json.dumps(fields, separators=(",", ":"))
