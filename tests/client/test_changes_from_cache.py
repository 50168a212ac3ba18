"""modify and create_or_update begin with a cached object, on both API servers: no GET where there is one."""

import asyncio

import pytest

from distq.client import Client, Object
from distq.errors import ConfigError, NotFound
from distq.informer.indexer import Indexer
from distq.informer.lister import IndexerLister, Lister
from tests.client.recording_client import RecordingClient
from tests.client.test_changes import CONFIG_MAP, meddle, paint, widget
from tests.support.samples import config_map

LEASE = "coordination.k8s.io/v1/Lease"


def cache(*objects: Object, is_whole: bool = True) -> Lister:
    """Return a lister that shows these objects, even if they have changed since."""
    indexer = Indexer()
    for each in objects:
        indexer.add(each)
    return IndexerLister(indexer, is_whole=is_whole)


def without_managed_fields(obj: Object) -> Object:
    """Return an object as caches keep it."""
    about = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return {**obj, "metadata": about}


def asked(client: RecordingClient) -> list[str]:
    """Return the methods of the requests since the last look."""
    methods = [method for method, _ in client.requests]
    client.requests.clear()
    return methods


def test_an_object_that_is_so_in_the_cache_costs_no_request(
    recording: RecordingClient, namespace: str
) -> None:
    """Neither call reads or writes, and both return the object as it is cached."""
    created = without_managed_fields(recording.create(config_map(namespace, "web", color="red")))
    lister, key = cache(created), f"{namespace}/web"
    asked(recording)
    assert recording.modify(CONFIG_MAP, key, paint("red"), lister=lister) == created
    found = recording.create_or_update(config_map(namespace, "web"), paint("red"), lister=lister)
    assert found == (created, "unchanged")
    assert asked(recording) == []
    assert lister.get(key) == created


def test_an_object_that_differs_costs_one_request(recording: RecordingClient, namespace: str) -> None:
    """The cached object is written as a whole; the managers of its fields are still known."""
    created = without_managed_fields(recording.create(config_map(namespace, "web", color="red", size="1")))
    asked(recording)
    key = f"{namespace}/web"
    stored = recording.modify(CONFIG_MAP, key, paint("blue"), lister=cache(created))
    assert asked(recording) == ["PUT"]
    assert stored["data"] == {"color": "blue", "size": "1"}
    cached = cache(without_managed_fields(stored))
    stored, result = recording.create_or_update(config_map(namespace, "web"), paint("green"), lister=cached)
    assert asked(recording) == ["PUT"]
    assert (stored["data"], result) == ({"color": "green", "size": "1"}, "updated")
    assert recording.get(CONFIG_MAP, key) == stored
    before, after = created["metadata"], stored["metadata"]
    assert before["uid"] == after["uid"]
    if "managedFields" in stored["metadata"]:  # the emulator does not show them
        assert [each["manager"] for each in stored["metadata"]["managedFields"]] == ["distq"]


def test_an_object_that_changed_meanwhile_is_read_live(recording: RecordingClient, namespace: str) -> None:
    """After the Conflict of the cached object the change is made anew, and no change of others is lost."""
    stale = recording.create(config_map(namespace, "web", color="red"))
    key = f"{namespace}/web"
    meddle(recording, key, "kept")
    asked(recording)
    stored = recording.modify(CONFIG_MAP, key, paint("blue"), lister=cache(stale))
    assert asked(recording) == ["PUT", "GET", "PUT"]
    assert stored["data"] == {"color": "blue", "others": "kept"}
    stored, result = recording.create_or_update(
        config_map(namespace, "web"), paint("green"), lister=cache(stale)
    )
    assert asked(recording) == ["PUT", "GET", "PUT"]
    assert (stored["data"], result) == ({"color": "green", "others": "kept"}, "updated")
    assert recording.modify(CONFIG_MAP, key, paint("green"), lister=cache(stale)) == stored
    assert asked(recording) == ["PUT", "GET"]


@pytest.mark.parametrize("kind", ["ConfigMap", "Lease"])
def test_an_object_that_is_gone_meanwhile_is_created(
    recording: RecordingClient, namespace: str, kind: str
) -> None:
    """By create_or_update, also of a kind that an update may create; to modify it is not found."""

    def hold(obj: Object) -> None:
        obj["spec"] = {"holderIdentity": "web"}

    wanted = config_map(namespace, "web")
    change, resource = paint("blue"), CONFIG_MAP
    if kind == "Lease":
        wanted = {"apiVersion": "coordination.k8s.io/v1", "kind": kind, "metadata": wanted["metadata"]}
        change, resource = hold, LEASE
    stale = recording.create(wanted)
    key = f"{namespace}/web"
    recording.delete(resource, key)
    asked(recording)
    with pytest.raises(NotFound, match=rf"cannot modify {resource} {key}: there is none"):
        recording.modify(resource, key, change, lister=cache(stale))
    assert recording.get(resource, key) is None
    asked(recording)
    stored, result = recording.create_or_update(wanted, change, lister=cache(stale))
    assert asked(recording) == ["PUT", "GET", "POST"]
    assert result == "created"
    assert stored["metadata"]["uid"] != stale["metadata"]["uid"]


def test_an_object_of_the_same_name_is_not_overwritten(recording: RecordingClient, namespace: str) -> None:
    """An object that was deleted and created anew is another one: it is read before it is changed."""
    stale = recording.create(config_map(namespace, "web", color="red", old="1"))
    recording.delete(CONFIG_MAP, f"{namespace}/web")
    recording.create(config_map(namespace, "web", color="red", new="1"))
    stored, result = recording.create_or_update(
        config_map(namespace, "web"), paint("blue"), lister=cache(stale)
    )
    assert (stored["data"], result) == ({"color": "blue", "new": "1"}, "updated")


def test_an_object_that_the_cache_lacks_is_created_or_read(
    recording: RecordingClient, namespace: str
) -> None:
    """One request creates it; if it exists nevertheless, the API server's state counts."""
    wanted = config_map(namespace, "web", size="1")
    stored, result = recording.create_or_update(wanted, paint("red"), lister=cache())
    assert asked(recording) == ["POST"]
    assert (stored["data"], result) == ({"color": "red", "size": "1"}, "created")
    meddle(recording, f"{namespace}/web", "kept")
    asked(recording)
    stored, result = recording.create_or_update(wanted, paint("blue"), lister=cache())
    assert asked(recording) == ["POST", "GET", "PUT"]
    assert (stored["data"], result) == ({"color": "blue", "others": "kept", "size": "1"}, "updated")
    stored = recording.modify(CONFIG_MAP, f"{namespace}/web", paint("green"), lister=cache())
    assert asked(recording) == ["GET", "PUT"]
    assert stored["data"]["others"] == "kept"


def test_a_status_is_modified_from_the_cache(
    recording: RecordingClient, widgets: str, namespace: str
) -> None:
    """The status alone is written, and nothing where it is so."""
    created = recording.create(widget(widgets, namespace, size=1))

    def change(obj: Object) -> None:
        obj["status"] = {"size": obj["spec"]["size"]}

    key = f"{namespace}/web"
    asked(recording)
    stored = recording.modify(widgets, key, change, status=True, lister=cache(created))
    assert asked(recording) == ["PUT"]
    assert stored["status"] == {"size": 1}
    assert recording.modify(widgets, key, change, status=True, lister=cache(stored)) == stored
    assert asked(recording) == []


@pytest.mark.parametrize(
    ("kind", "is_whole", "message"),
    [
        ("ConfigMap", False, r"bad lister of v1/ConfigMap: its cache lacks fields.*Leave the lister out\.$"),
        ("Secret", True, r"bad lister of v1/ConfigMap: it has v1/Secret\. Give that of v1/ConfigMap\.$"),
    ],
)
def test_a_lister_whose_objects_must_not_be_written_is_refused(
    recording: RecordingClient, namespace: str, kind: str, is_whole: bool, message: str
) -> None:
    """A write would remove what the cache left out, or change an object of another kind."""
    created = recording.create(config_map(namespace, "web", color="red") | {"kind": kind, "data": {}})
    lister = cache(created, is_whole=is_whole)
    asked(recording)
    with pytest.raises(ConfigError, match=message):
        recording.modify(CONFIG_MAP, f"{namespace}/web", paint("blue"), lister=lister)
    with pytest.raises(ConfigError, match=message):
        recording.create_or_update(config_map(namespace, "web"), paint("blue"), lister=lister)
    assert asked(recording) == []


def test_coroutines_change_from_a_cache_too(client: Client, namespace: str) -> None:
    """The awaited calls take a lister."""
    created = client.create(config_map(namespace, "web", color="red"))
    wanted, lister = config_map(namespace, "web"), cache(created)
    change = client.aio.create_or_update(wanted, paint("red"), lister=lister)
    assert asyncio.run(change) == (created, "unchanged")
