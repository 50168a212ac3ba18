"""What a leader remembers of objects, and what it takes over from the one before."""

import json
from typing import Any

import msgspec
import pytest

from distq.client.resources import Resource
from distq.controller.event import OldMetadata
from distq.controller.stream.last_seen import LastSeen
from distq.informer.stored_object import StoredObject
from distq.informer.wire import RawObject, WatchEvent, raw_object

PODS = Resource("v1", "Pod", "pods", namespaced=True)


def pod(version: int, **labels: str) -> RawObject:
    """Return a Pod as a watch brings it."""
    metadata: dict[str, Any] = {"name": "a", "resourceVersion": str(version), "labels": labels}
    return raw_object(msgspec.Raw(json.dumps({"metadata": metadata, "spec": {}}).encode()), PODS)


@pytest.mark.parametrize(("version", "is_taken"), [(3, True), (4, False), (5, False), (10, False)])
def test_an_update_is_not_compared_with_itself_or_a_later_state(version: int, is_taken: bool) -> None:
    """A list that broke off may have handed over a state that the watch shows only now."""
    last_seen = LastSeen("object")
    last_seen.recall(StoredObject("a", str(version), b'{"metadata":{"name":"a"}}'), pod(4))
    assert (last_seen.old(pod(4)) is not None) is is_taken


def test_only_the_compared_part_is_remembered() -> None:
    """Nothing where no predicate compares, and no whole objects for one that compares metadata."""
    kinds: list[type[object]] = []
    for compared in ("", "metadata", "object"):
        last_seen = LastSeen(compared)
        last_seen.remember(pod(1, app="web"))
        kinds.append(type(last_seen.old(pod(2))))
    assert kinds == [type(None), OldMetadata, StoredObject]


def test_the_first_updates_of_unknown_objects_are_asked_for() -> None:
    """Not creations, nor what is remembered; nothing where no predicate compares."""
    events = [WatchEvent("ADDED", pod(1)), WatchEvent("MODIFIED", pod(2)), WatchEvent("MODIFIED", pod(3))]
    last_seen = LastSeen("metadata")
    assert {key: obj.version for key, obj in last_seen.unknown(events).items()} == {"a": "2"}
    assert LastSeen("").unknown(events) == {}
    last_seen.remember(pod(1))
    assert last_seen.unknown(events) == {}
