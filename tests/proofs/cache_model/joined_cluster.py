"""An API server of two resources that belong together: lists, watches, compaction, a restore."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from distq.client.resources import Resource, parse_resource
from distq.errors import Expired
from tests.proofs.simulate.stepped_thread import SteppedThread

FOO, GRANT = "v1/ConfigMap", "v1/Secret"
"""What is reconciled, and what it is reconciled by: the grants of its group."""

RESOURCES = {
    each: Resource(*parse_resource(each), plural, namespaced=True)
    for each, plural in ((FOO, "configmaps"), (GRANT, "secrets"))
}
NAMES = {FOO: ("foo-1", "foo-2", "foo-3"), GRANT: ("grant-1", "grant-2", "grant-3")}
GROUPS = ("x", "y")
FIRST_VERSION = 95
"""So that versions of two digits are compared with those of three."""
AT_ONCE = 2
"""Events that a watch hands over at once, and objects of a page."""


class State(NamedTuple):
    """What an object was from a version on, gone where its group is None, and its group before."""

    resource: str
    name: str
    version: int
    group: str | None
    group_before: str | None = None

    @property
    def key(self) -> str:
        """Return the object's key."""
        return f"ns/{self.name}"

    def json(self) -> str:
        """Return the object, or what it was last."""
        labels = f'"labels":{{"group":"{self.group or self.group_before}"}}'
        kind = f'"kind":"{RESOURCES[self.resource].kind}","apiVersion":"v1"'
        metadata = f'"name":"{self.name}","namespace":"ns","resourceVersion":"{self.version}",{labels}'
        return f'{{{kind},"metadata":{{{metadata}}}}}'

    def line(self) -> bytes:
        """Return the event as a watch shows it."""
        kind = "DELETED" if self.group is None else "MODIFIED" if self.group_before else "ADDED"
        return f'{{"type":"{kind}","object":{self.json()}}}'.encode()


class JoinedCluster:
    """Objects, and all that ever happened to them."""

    def __init__(self) -> None:
        self.version = self.oldest = FIRST_VERSION
        self.changes: list[State] = []
        self.bookmarks = 0
        self.broken = 0
        self.lists = 0
        self._pages: dict[tuple[str, int], list[State]] = {}

    def write(self, resource: str, name: str, group: str | None) -> State | None:
        """Create, change or delete an object, which may not be there; return what it is now."""
        before = self.present(resource).get(name)
        if group is None and before is None:
            return None
        self.version += 1
        state = State(resource, name, self.version, group, before and before.group)
        self.changes.append(state)
        return state

    def present(self, resource: str) -> dict[str, State]:
        """Return the objects of a resource, by name."""
        last = {each.name: each for each in self.changes if each.resource == resource}
        return {name: last[name] for name in sorted(last) if last[name].group}

    def was(self, resource: str, key: str, version: int) -> State | None:
        """Return what an object was written as at a version."""
        written = (each for each in self.changes if each.version == version)
        return next((each for each in written if each.resource == resource and each.key == key), None)

    def was_gone_after(self, resource: str, key: str, version: int) -> bool:
        """Return whether an object was deleted later than at a version."""
        later = (each for each in self.changes if each.version > version and each.group is None)
        return any(each.resource == resource and each.key == key for each in later)

    def compact(self) -> None:
        """Forget all history."""
        self.oldest = self.version
        self._pages.clear()

    def restore(self, version: int) -> None:
        """Go back to a version, as from a backup."""
        self.changes = [each for each in self.changes if each.version <= version]
        self.version, self.oldest = version, min(version, self.oldest)
        self.broken += 1
        self._pages.clear()

    def page(self, resource: str, limit: int, token: str) -> bytes:
        """Return a page of a list; raise Expired where its version is compacted."""
        version, _, start = token.partition(":")
        if not token:
            version, start = str(self.version), "0"
            self._pages[resource, self.version] = [*self.present(resource).values()]
            self.lists += limit > 1
        if (resource, int(version)) not in self._pages:
            raise Expired("the list's version is compacted", status=410, reason="Expired")
        first = int(start)
        objects = self._pages[resource, int(version)]
        items = ",".join(each.json() for each in objects[first : first + min(limit, AT_ONCE)])
        more = f"{version}:{first + AT_ONCE}" if first + AT_ONCE < len(objects) else ""
        head = f'{{"metadata":{{"resourceVersion":"{version}","continue":"{more}"}}'
        return f'{head},"items":[{items}]}}'.encode()


class ClusterClient:
    """What streams ask of ``distq.Client``; each question and each answer may come late."""

    def __init__(self, cluster: JoinedCluster, thread: SteppedThread) -> None:
        self._cluster = cluster
        self._thread = thread

    def cluster_id(self) -> str:
        """Return the cluster's name."""
        return "cluster"

    def resolve(self, resource: str) -> Resource:
        """Return one of the two resources."""
        return RESOURCES[resource]

    def request(
        self, method: str, path: str, *, query: Mapping[str, str], accept: str, max_bytes: int | None
    ) -> bytes:
        """Return a page."""
        self._thread.pause()
        answer = self._cluster.page(_of(path), int(query["limit"]), query.get("continue", ""))
        self._thread.pause()
        return answer

    @contextmanager
    def stream(
        self, path: str, *, query: Mapping[str, str], read_timeout: float, accept: str
    ) -> Iterator["JoinedWatch"]:
        """Open a watch."""
        self._thread.pause()
        yield JoinedWatch(self._cluster, _of(path), int(query["resourceVersion"]), self._thread)


class JoinedWatch:
    """A watch of one resource under way; ``simulate.model_cluster.InStepReader`` reads it."""

    def __init__(self, cluster: JoinedCluster, resource: str, version: int, thread: SteppedThread) -> None:
        self.thread = thread
        self._cluster = cluster
        self._resource = resource
        self._version = version
        self._bookmarks = cluster.bookmarks
        self._broken = cluster.broken

    def close(self) -> None:
        """End."""

    def take(self) -> list[bytes]:
        """Return what has come; raise EOFError at the end of the watch."""
        cluster = self._cluster
        if self._broken != cluster.broken:
            raise EOFError
        if self._version < cluster.oldest and self._left():
            return [b'{"type":"ERROR","object":{"code":410,"reason":"Expired","message":"compacted"}}']
        events = self._left()[:AT_ONCE]
        lines = [each.line() for each in events]
        if events:
            self._version = events[-1].version
        if self._bookmarks != cluster.bookmarks and not self._left():
            self._bookmarks, self._version = cluster.bookmarks, cluster.version
            metadata = f'{{"metadata":{{"resourceVersion":"{cluster.version}"}}}}'
            lines.append(f'{{"type":"BOOKMARK","object":{metadata}}}'.encode())
        return lines

    def _left(self) -> list[State]:
        changes = self._cluster.changes
        return [each for each in changes if each.version > self._version and each.resource == self._resource]


def _of(path: str) -> str:
    return next(name for name, resource in RESOURCES.items() if path.endswith(f"/{resource.plural}"))
