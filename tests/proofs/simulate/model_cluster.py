"""An API server in a few dozen lines: a log of events, compaction, lists in pages, watches from a version."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from distq.client.resources import Resource, parse_resource
from distq.clock import Clock
from distq.errors import ApiError, Expired
from tests.proofs.simulate.stepped_thread import SteppedThread

RESOURCE = "v1/ConfigMap"
PAGE = 2
"""Objects a page: API servers may give fewer than they are asked for."""
AT_ONCE = 3
"""Events that a watch hands over at once."""


class Change(NamedTuple):
    """One event: an object, its owner before and its owner now, None where it is not there."""

    version: int
    kind: str
    name: str
    before: str | None
    after: str | None
    moment: int

    def line(self) -> bytes:
        """Return what a watch shows."""
        shown = json_of(self.name, self.version, self.after or self.before or "")
        return f'{{"type":"{self.kind}","object":{shown}}}'.encode()


@dataclass
class Lease:
    """The leader, the version of the cluster since which it leads, and when that was renewed last."""

    holder: str
    epoch: int
    renewed_at: float


class ModelCluster:
    """The objects of one resource, all that ever happened to them, and the Lease.

    ``listed`` has the versions of all lists.
    """

    def __init__(self) -> None:
        self.version = 100
        self.objects: dict[str, tuple[int, str]] = {}
        self.changes: list[Change] = []
        self.lease: Lease | None = None
        self.transitions = 0
        self.terms = 0
        self.oldest = 0
        self.bookmarks = 0
        self.broken = 0
        self.listed: list[int] = []
        self.unreachable = 0
        self._snapshots: dict[int, list[str]] = {}

    # What happens

    def write(self, name: str, owner: str, moment: int) -> None:
        """Create or change an object."""
        before = self.objects.get(name)
        self.version += 1
        self.objects[name] = self.version, owner
        kind = "MODIFIED" if before else "ADDED"
        self.changes.append(Change(self.version, kind, name, before and before[1], owner, moment))

    def delete(self, name: str, moment: int) -> None:
        """Delete an object, if there is one."""
        if before := self.objects.pop(name, None):
            self.version += 1
            self.changes.append(Change(self.version, "DELETED", name, before[1], None, moment))

    def compact(self) -> None:
        """Forget all history."""
        self.oldest = self.version
        self._snapshots.clear()

    def lead(self, holder: str, now: float, *, lasts: float) -> Lease | None:
        """Return the holder's new Lease, None where another one's has not run out."""
        if self.lease is not None and now < self.lease.renewed_at + lasts:
            return None
        self.transitions += 1
        self.terms += 1
        self.version += 1
        self.lease = Lease(holder, self.version, now)
        return self.lease

    # What is asked

    def list(self, limit: int, token: str) -> bytes:
        """Return a page of a list; raise Expired where its version is compacted."""
        version, _, start = token.partition(":")
        if not token:
            version, start = str(self.version), "0"
            if limit > 1:
                self.listed.append(self.version)
                self._snapshots[self.version] = [
                    json_of(name, *self.objects[name]) for name in sorted(self.objects)
                ]
        if limit == 1:
            return f'{{"metadata":{{"resourceVersion":"{version}"}},"items":[]}}'.encode()
        if int(version) not in self._snapshots:
            raise Expired("the list's version is compacted", status=410, reason="Expired")
        objects, first = self._snapshots[int(version)], int(start)
        after = first + PAGE
        more = f"{version}:{after}" if after < len(objects) else ""
        items = ",".join(objects[first:after])
        head = f'{{"metadata":{{"resourceVersion":"{version}","continue":"{more}"}}'
        return f'{head},"items":[{items}]}}'.encode()


def json_of(name: str, version: int, owner: str) -> str:
    """Return an object as JSON."""
    metadata = f'"name":"{name}","namespace":"ns","resourceVersion":"{version}"'
    return f'{{"metadata":{{{metadata},"labels":{{"owner":"{owner}"}}}}}}'


class WatchedChanges:
    """A watch under way."""

    def __init__(self, cluster: ModelCluster, version: int, thread: SteppedThread) -> None:
        self.cluster = cluster
        self.version = version
        self.thread = thread
        self._place = len(cluster.changes)
        while self._place and cluster.changes[self._place - 1].version > version:
            self._place -= 1
        self._bookmarks = cluster.bookmarks
        self._broken = cluster.broken

    def close(self) -> None:
        """End."""

    def __iter__(self) -> Iterator[bytes]:
        raise NotImplementedError  # it is read by InStepReader

    def take(self) -> list[bytes]:
        """Return what has come; raise EOFError at the end of the watch."""
        cluster = self.cluster
        if self._broken != cluster.broken:
            raise EOFError
        if self.version < cluster.oldest and self._place < len(cluster.changes):
            return [b'{"type":"ERROR","object":{"code":410,"reason":"Expired","message":"compacted"}}']
        changes = cluster.changes[self._place : self._place + AT_ONCE]
        self._place += len(changes)
        lines = [change.line() for change in changes]
        if changes:
            self.version = changes[-1].version
        if self._place == len(cluster.changes) and self._bookmarks != cluster.bookmarks:
            self._bookmarks, self.version = cluster.bookmarks, cluster.version
            metadata = f'{{"metadata":{{"resourceVersion":"{cluster.version}"}}}}'
            lines.append(f'{{"type":"BOOKMARK","object":{metadata}}}'.encode())
        return lines


class InStepReader:
    """In place of the thread that reads a watch ahead (``informer.read_ahead.ReadAhead``)."""

    def __init__(self, lines: WatchedChanges, name: str, clock: Clock) -> None:
        self._watch = lines
        self._clock = clock

    def take(self, timeout: float, *, wanted: int = 1) -> tuple[list[bytes], float]:
        """Return the lines that have arrived, at once or else after the timeout."""
        self._watch.thread.pause()
        lines = self._watch.take()
        if not lines:
            self._watch.thread.pause(self._clock.monotonic() + timeout)
            lines = self._watch.take()
        return lines, self._clock.monotonic()

    def close(self) -> None:
        """End."""


class ClusterClient:
    """What a stream asks of ``distq.Client``, of the model; each question and each answer may come late."""

    def __init__(self, cluster: ModelCluster, thread: SteppedThread) -> None:
        self._cluster = cluster
        self._thread = thread
        self._resource = Resource(*parse_resource(RESOURCE), "configmaps", namespaced=True)

    def cluster_id(self) -> str:
        """Return the cluster's name."""
        return "cluster"

    def resolve(self, resource: str) -> Resource:
        """Return the one resource."""
        return self._resource

    def request(
        self, method: str, path: str, *, query: Mapping[str, str], accept: str, max_bytes: int | None
    ) -> bytes:
        """Return a page."""
        self._thread.pause()
        self._refuse()
        answer = self._cluster.list(int(query["limit"]), query.get("continue", ""))
        self._thread.pause()
        return answer

    @contextmanager
    def stream(
        self, path: str, *, query: Mapping[str, str], read_timeout: float, accept: str
    ) -> Iterator[WatchedChanges]:
        """Open a watch."""
        self._thread.pause()
        self._refuse()
        version = int(query["resourceVersion"])
        if version < self._cluster.oldest:
            raise Expired("too old resource version", status=410, reason="Expired")
        yield WatchedChanges(self._cluster, version, self._thread)

    def _refuse(self) -> None:
        if self._cluster.unreachable:
            self._cluster.unreachable -= 1
            raise ApiError("connection refused")
