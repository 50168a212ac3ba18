"""A resource without an API server, for tests of what follows one (client-go FakeControllerSource)."""

import queue
import threading
import warnings
from collections.abc import Iterator
from typing import Any, Self, cast

import msgspec

from distq.client.objects import Object
from distq.client.resources import Resource, parse_resource
from distq.errors import ApiError, Expired, NotFound
from distq.informer.objects import Metadata, key_of
from distq.informer.wire import ENDS_LIST, Page, WatchEvent, decode_event, decode_page
from distq.redisio.limits import PAGE_SIZE

_END = b""


class FakeListWatch:
    """A ListWatch whose objects and faults the test decides; versions count from 1.

    ``failures`` are raised by the next lists or watches, one each; while it is ``unreachable``, all fail.
    ``streams_lists`` says whether a watch may begin with a list. ``asked`` notes what was asked for.
    """

    metadata_only = False
    """Its objects are whole, so that a lister of them may be what a write begins with."""

    def __init__(self, resource: str = "v1/Pod") -> None:
        api_version, kind = parse_resource(resource)
        self.failures: list[ApiError] = []
        self.unreachable = False
        self.streams_lists = True
        self.asked: list[str] = []
        self._resource = Resource(api_version, kind, f"{kind.lower()}s", namespaced=True)
        self._lock = threading.Lock()
        self._objects: dict[str, Object] = {}
        self._version = 0
        self._history: list[tuple[int, bytes]] = []
        self._oldest = 0
        self._watches: list[_FakeLines] = []

    # What happens to the resource

    def add(self, obj: Object) -> Object:
        """Create an object; return it with its version."""
        return self._change("ADDED", obj)

    def modify(self, obj: Object) -> Object:
        """Change an object; return it with its version. Raises NotFound where there is none."""
        return self._change("MODIFIED", obj)

    def delete(self, obj: Object) -> Object:
        """Delete an object; return its last state, with the deletion's version. Raises NotFound."""
        return self._change("DELETED", obj)

    def bookmark(self) -> None:
        """Send the watches a bookmark of how far they are, though nothing happened to the resource."""
        with self._lock:
            self._version += 1
            self._send_event("BOOKMARK", {"metadata": {"resourceVersion": str(self._version)}})

    def send(self, line: bytes) -> None:
        """Send the watches any line."""
        with self._lock:
            for watch in self._watches:
                watch.put(line)

    def tell(self, line: bytes) -> None:
        """Call ``send``; the old name stays for one version."""
        warnings.warn("Call send: it is the new name.", DeprecationWarning, stacklevel=2)
        self.send(line)

    def break_watches(self) -> None:
        """End all watches; what happens until the next ones is sent to those, from their version on."""
        with self._lock:
            watches, self._watches = self._watches, []
            for watch in watches:
                watch.put(_END)

    def compact(self) -> None:
        """Forget the history, so that a watch from before now expires, and end the watches."""
        with self._lock:
            self._history.clear()
            self._oldest = self._version
        self.break_watches()

    # What a Reflector asks

    def version(self) -> str:
        """Return the present version."""
        self._answer("version")
        return str(self._version)

    def page(self, next_token: str = "", *, limit: int = PAGE_SIZE) -> Page:  # noqa: ARG002 - one page has all
        """Return all objects."""
        self._answer("list")
        with self._lock:
            items = list(self._objects.values())
            body = {"metadata": {"resourceVersion": str(self._version)}, "items": items}
        return decode_page(msgspec.json.encode(body), self._resource)

    def watch(
        self,
        version: str,
        *,
        stream_list: bool = False,
        brief: bool = False,  # noqa: ARG002 - a test ends its watches itself
    ) -> "_FakeLines":
        """Watch what happened after a version, or all objects first."""
        self._answer("stream" if stream_list else f"watch {version}")
        if stream_list and not self.streams_lists:
            raise ApiError("sendInitialEvents is forbidden for watch", status=422, reason="Invalid")
        with self._lock:
            if not stream_list and int(version) < self._oldest:
                raise Expired("too old", status=410, reason="Expired")
            lines = _FakeLines()
            later = (line for at, line in self._history if at > int(version))
            for line in self._listed() if stream_list else later:
                lines.put(line)
            self._watches.append(lines)
        return lines

    def decode(self, line: bytes) -> WatchEvent:
        """Decode a line."""
        return decode_event(line, self._resource)

    def __str__(self) -> str:
        return f"fake {self._resource.kind}"

    def _listed(self) -> Iterator[bytes]:
        for obj in self._objects.values():
            yield _line("ADDED", obj)
        version, ends = str(self._version), {ENDS_LIST: "true"}
        yield _line("BOOKMARK", {"metadata": {"resourceVersion": version, "annotations": ends}})

    def _answer(self, question: str) -> None:
        self.asked.append(question)
        if self.failures:
            raise self.failures.pop(0)
        if self.unreachable:
            raise ApiError(f"{self}: unreachable")

    def _change(self, kind: str, obj: Object) -> Object:
        with self._lock:
            key = key_of(cast("Metadata", obj["metadata"]))
            if kind != "ADDED" and key not in self._objects:
                raise NotFound(f"{self} {key}: there is none. Add it first.", status=404, reason="NotFound")
            if kind == "DELETED":
                obj = self._objects.pop(key)
            self._version += 1
            metadata = {**obj["metadata"], "resourceVersion": str(self._version)}
            kind_of = {"apiVersion": self._resource.api_version, "kind": self._resource.kind}
            changed = {**kind_of, **obj, "metadata": metadata}
            if kind != "DELETED":
                self._objects[key] = changed
            self._send_event(kind, changed)
        return changed

    def _send_event(self, kind: str, obj: Any) -> None:
        line = _line(kind, obj)
        self._history.append((self._version, line))
        for watch in self._watches:
            watch.put(line)


def _line(kind: str, obj: Any) -> bytes:
    return msgspec.json.encode({"type": kind, "object": obj})


class _FakeLines(queue.SimpleQueue[bytes]):
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[bytes]:
        while (line := self.get()) != _END:
            yield line

    def close(self) -> None:
        self.put(_END)
