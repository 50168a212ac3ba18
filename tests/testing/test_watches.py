"""WATCH: resuming, selecting, initial events and ends, on the emulated and the real server."""

import time

import msgspec
import pytest

from distq.client import Client
from distq.errors import TooManyRequests
from tests.support.api_servers import ApiServer
from tests.support.eventually import eventually
from tests.testing.conftest import (
    PARTIAL,
    PARTIAL_LIST,
    Answer,
    Api,
    changes,
    config_map,
    labelled,
    names,
    version_of,
    widget,
)

END_OF_INITIAL_EVENTS = {"k8s.io/initial-events-end": "true"}
LIST_FIRST = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}


def test_a_watch_resumes_after_its_version(api: Api, config_maps: str) -> None:
    """Everything after the version comes, in order; a DELETED has its last state and a version of its own."""
    start = api.version(config_maps)
    api.create(config_maps, config_map("a", data="1"))
    changed = api.merge(f"{config_maps}/a", {"data": {"data": "2"}})
    api.delete(f"{config_maps}/a")
    api.create(config_maps, config_map("b"))
    events = api.watch(config_maps, 4, resourceVersion=start)
    assert changes(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "b")]
    deleted = events[2]["object"]
    assert (deleted["kind"], deleted["data"]) == ("ConfigMap", {"data": "2"})
    versions = [version_of(event["object"]) for event in events]
    assert versions == sorted(set(versions))
    resumed = api.watch(config_maps, 2, resourceVersion=str(version_of(changed)))
    assert changes(resumed) == [("DELETED", "a"), ("ADDED", "b")]


@pytest.mark.parametrize("text", ["true", "True", "1", "", "t"])
def test_a_watch_is_asked_for_in_many_ways(
    api: Api, api_server: ApiServer, config_maps: str, text: str
) -> None:
    """Older kubernetes packages say True; every value that does not say no is yes."""
    api.create(config_maps, config_map("web"))
    with api_server.client().stream(config_maps, query={"watch": text}, read_timeout=60) as stream:
        assert msgspec.json.decode(next(iter(stream)))["type"] == "ADDED"


@pytest.mark.parametrize("text", ["false", "False", "0"])
def test_a_watch_that_is_declined_is_a_list(api: Api, config_maps: str, text: str) -> None:
    """A value that says no is no."""
    assert api.get(config_maps, watch=text)["kind"] == "ConfigMapList"


def test_a_watch_follows_new_events(api: Api, api_server: ApiServer, config_maps: str) -> None:
    """An open stream gets each change as it happens."""
    query = {"watch": "true", "resourceVersion": api.version(config_maps)}
    with api_server.client().stream(config_maps, query=query, read_timeout=20) as stream:
        lines = iter(stream)
        for name in ("a", "b", "c"):
            api.create(config_maps, config_map(name))
            assert msgspec.json.decode(next(lines))["object"]["metadata"]["name"] == name


def test_leaving_a_selector_looks_like_a_delete(api: Api, config_maps: str) -> None:
    """Entering is ADDED; leaving is DELETED with the old labels and the new version."""
    path = f"{config_maps}/web"
    start = api.version(config_maps)

    def relabel(color: str) -> int:
        return version_of(api.merge(path, {"metadata": {"labels": {"color": color}}}))

    api.create(config_maps, labelled("web", color="blue"))
    entered, left = relabel("red"), relabel("blue")
    api.merge(path, {"data": {"unseen": "yes"}})
    api.delete(path)
    api.create(config_maps, labelled("end", color="red"))
    events = api.watch(config_maps, 3, resourceVersion=start, labelSelector="color=red")
    assert changes(events) == [("ADDED", "web"), ("DELETED", "web"), ("ADDED", "end")]
    assert [version_of(event["object"]) for event in events[:2]] == [entered, left]
    assert events[1]["object"]["metadata"]["labels"] == {"color": "red"}


def test_a_field_selector_narrows_a_watch(api: Api, config_maps: str) -> None:
    """Only the named object's events come."""
    start = api.version(config_maps)
    for name in ("a", "b", "a2"):
        api.create(config_maps, config_map(name))
    api.delete(f"{config_maps}/b")
    events = api.watch(config_maps, 2, resourceVersion=start, fieldSelector="metadata.name=b")
    assert changes(events) == [("ADDED", "b"), ("DELETED", "b")]


def test_the_last_finalizer_ends_in_one_delete(api: Api, config_maps: str) -> None:
    """The mark is MODIFIED; the release is DELETED alone, above the version that its writer got."""
    path = f"{config_maps}/web"
    start = api.version(config_maps)
    api.create(config_maps, config_map("web", metadata={"finalizers": ["example.com/hold"]}))
    api.delete(path)
    written = version_of(api.merge(path, {"metadata": {"finalizers": None}}))
    events = api.watch(config_maps, 3, resourceVersion=start)
    assert changes(events) == [("ADDED", "web"), ("MODIFIED", "web"), ("DELETED", "web")]
    assert [version_of(event["object"]) for event in events[1:]] == [written, version_of(events[2]["object"])]
    assert version_of(events[2]["object"]) > written


def test_initial_events_come_in_key_order(api: Api, config_maps: str) -> None:
    """The whole state, with any versions, then a marked bookmark at or above all of them."""
    for name in ("c", "a", "b"):
        api.create(config_maps, config_map(name))
    events = api.watch(config_maps, 4, allowWatchBookmarks="true", **LIST_FIRST)
    assert changes(events) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c"), ("BOOKMARK", "")]
    bookmark = events[3]["object"]
    assert bookmark["metadata"]["annotations"] == END_OF_INITIAL_EVENTS
    assert (bookmark["kind"], bookmark["apiVersion"]) == ("ConfigMap", "v1")
    assert version_of(bookmark) >= max(version_of(event["object"]) for event in events[:3])
    api.create(config_maps, config_map("d"))
    resumed = api.watch(config_maps, 1, resourceVersion=str(version_of(bookmark)))
    assert changes(resumed) == [("ADDED", "d")]


@pytest.mark.parametrize("version", ["", "0"])
def test_a_watch_without_version_starts_with_the_state(api: Api, config_maps: str, version: str) -> None:
    """It is ADDED as for initial events, with the mark where bookmarks are allowed."""
    api.create(config_maps, config_map("a"))
    query = {"resourceVersion": version} if version else {}
    eventually(lambda: api.get(config_maps, **query)["items"], "what any version answers has it")
    events = api.watch(config_maps, 2, allowWatchBookmarks="true", **query)
    assert changes(events) == [("ADDED", "a"), ("BOOKMARK", "")]
    assert events[1]["object"]["metadata"]["annotations"] == END_OF_INITIAL_EVENTS
    assert changes(api.watch(config_maps, 5, timeoutSeconds="1", **query)) == [("ADDED", "a")]


def test_initial_events_of_metadata(api: Api, widgets: str) -> None:
    """A watch of metadata sends PartialObjectMetadata, bookmarks included."""
    api.create(widgets, widget("web", spec={"size": 1}))
    events = api.watch(widgets, 2, accept=PARTIAL, allowWatchBookmarks="true", **LIST_FIRST)
    assert changes(events) == [("ADDED", "web"), ("BOOKMARK", "")]
    for event in events:
        assert event["object"]["kind"] == "PartialObjectMetadata"
        assert "spec" not in event["object"]


def test_a_watch_in_the_form_of_a_list_ends_at_its_first_line(api: Api, config_maps: str) -> None:
    """It answers 200 and then ends without an event."""
    start = api.version(config_maps)
    api.create(config_maps, config_map("a"))
    assert api.watch(config_maps, 1, accept=PARTIAL_LIST, resourceVersion=start) == []


def test_bookmarks_come_before_the_end(api: Api, config_maps: str) -> None:
    """A watch may send bookmarks in its last seconds, then ends; without leave it just ends."""
    start = api.version(config_maps)
    written = version_of(api.create(config_maps, config_map("a")))
    query = {"resourceVersion": start, "timeoutSeconds": "4"}
    events = api.watch(config_maps, 10, allowWatchBookmarks="true", **query)
    assert events[0]["type"] == "ADDED"
    assert {event["type"] for event in events[1:]} <= {"BOOKMARK"}
    assert all(version_of(event["object"]) >= written for event in events[1:])
    assert changes(api.watch(config_maps, 10, resourceVersion=start, timeoutSeconds="1")) == [("ADDED", "a")]


def test_a_watch_from_the_future_is_silent(api: Api, config_maps: str) -> None:
    """It answers 200, and neither events below its version nor bookmarks nor an error come."""
    future = str(int(api.version(config_maps)) + 1000)
    api.create(config_maps, config_map("a"))
    query = {"resourceVersion": future, "timeoutSeconds": "4", "allowWatchBookmarks": "true"}
    assert api.watch(config_maps, 10, **query) == []


@pytest.mark.parametrize(
    "query",
    [
        {"sendInitialEvents": "true"},
        {"sendInitialEvents": "true", "resourceVersionMatch": "Exact"},
        {"resourceVersionMatch": "NotOlderThan"},
    ],
)
def test_contradictory_watches_are_invalid(api: Api, config_maps: str, query: dict[str, str]) -> None:
    """Initial events need NotOlderThan, and NotOlderThan needs initial events."""
    status = api.refused("GET", config_maps, watch="true", **query)
    assert (status["code"], status["reason"]) == (422, "Invalid")


def test_a_watch_from_no_version_at_all_is_an_internal_error(api: Api, config_maps: str) -> None:
    """A value that is no number is 500, unlike in a list."""
    assert api.refused("GET", config_maps, watch="true", resourceVersion="abc")["code"] == 500


def test_initial_events_of_a_version_not_reached_are_an_error(api: Api, config_maps: str) -> None:
    """The error comes inside the stream."""
    query = {"resourceVersion": "999999999", "allowWatchBookmarks": "true", **LIST_FIRST}
    (event,) = api.watch(config_maps, 5, **query)
    assert (event["type"], event["object"]["code"]) == ("ERROR", 504)
    assert event["object"]["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


def test_a_changed_definition_ends_watches_and_their_past(
    api: Api, api_server: ApiServer, widgets: str, widget_definition: str
) -> None:
    """Streams end, for a moment new ones get 429, then older versions are 410 inside a 200; lists go on."""
    start = str(version_of(api.create(widgets, widget("web"))))
    query = {"watch": "true", "resourceVersion": start}
    with api_server.client().stream(widgets, query=query, read_timeout=20) as stream:
        versions = api.get(widget_definition)["spec"]["versions"]
        versions[0]["schema"]["openAPIV3Schema"]["description"] = f"after {start}"
        api.merge(widget_definition, {"spec": {"versions": versions}})
        assert list(stream) == []
    (error,) = _watch_when_ready(api_server.client(), widgets, start)
    assert error["type"] == "ERROR"
    status = error["object"]
    assert (status["code"], status["reason"]) == (410, "Expired")
    assert status["message"].startswith(f"too old resource version: {start} (")
    past = api.get(widgets, resourceVersion=start, resourceVersionMatch="Exact")
    assert names(past) == ["web"]


def _watch_when_ready(client: Client, path: str, version: str) -> list[Answer]:
    """Return all events of a watch, asked again while the server says 429."""
    for _ in range(100):
        try:
            with client.stream(
                path, query={"watch": "true", "resourceVersion": version}, read_timeout=20
            ) as stream:
                return [msgspec.json.decode(line) for line in stream]
        except TooManyRequests:
            time.sleep(0.05)
    raise AssertionError("the server was never ready")
