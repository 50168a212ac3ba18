"""Writes that look first: modify, create_or_update, patch_status and finalizers, on both API servers."""

import asyncio
from typing import Any

import pytest

from distq.client import Client, Object
from distq.client.changes import ATTEMPTS
from distq.client.conditions import get_condition, set_condition
from distq.errors import ConfigError, Conflict, NotFound
from tests.client.recording_client import RecordingClient
from tests.support.samples import config_map, replica_set

CONFIG_MAP = "v1/ConfigMap"
FINALIZER = "example.com/held"


def widget(resource: str, namespace: str, **spec: Any) -> Object:
    """Return a custom object to be written."""
    api_version, _, kind = resource.rpartition("/")
    about = {"name": "web", "namespace": namespace}
    return {"apiVersion": api_version, "kind": kind, "metadata": about, "spec": spec}


def paint(color: str) -> Any:
    """Return a change that sets one value of a ConfigMap."""

    def change(obj: Object) -> None:
        obj.setdefault("data", {})["color"] = color

    return change


def meddle(client: Client, key: str, text: str) -> None:
    """Change a ConfigMap as another client would."""
    client.patch(CONFIG_MAP, key, {"data": {"others": text}})


def test_modify_writes_the_changes_of_the_function(client: Client, namespace: str) -> None:
    """The object is stored as changed, and returned as stored."""
    client.create(config_map(namespace, "web", color="red", size="1"))
    stored = client.modify(CONFIG_MAP, f"{namespace}/web", paint("blue"))
    assert stored["data"] == {"color": "blue", "size": "1"}
    assert client.get(CONFIG_MAP, f"{namespace}/web") == stored


def test_modify_writes_nothing_where_nothing_changed(recording: RecordingClient, namespace: str) -> None:
    """An object that is so already costs one read."""
    created = recording.create(config_map(namespace, "web", color="red"))
    recording.requests.clear()
    assert recording.modify(CONFIG_MAP, f"{namespace}/web", paint("red")) == created
    assert [method for method, _ in recording.requests] == ["GET"]


def test_modify_keeps_the_writes_of_others_in_between(client: Client, namespace: str) -> None:
    """On a Conflict the object is read and changed again, so no other writer's change is lost."""
    client.create(config_map(namespace, "web", color="red"))
    calls: list[Object] = []

    def change(obj: Object) -> None:
        if not calls:
            meddle(client, f"{namespace}/web", "between")
        calls.append(obj)
        obj["data"]["color"] = "blue"

    stored = client.modify(CONFIG_MAP, f"{namespace}/web", change)
    assert stored["data"] == {"color": "blue", "others": "between"}
    assert len(calls) == 2


def test_modify_gives_up_after_five_conflicts(client: Client, namespace: str) -> None:
    """An object that changes each time is left to the retry of the reconcile, by the last Conflict."""
    client.create(config_map(namespace, "web"))
    calls: list[Object] = []

    def change(obj: Object) -> None:
        meddle(client, f"{namespace}/web", str(len(calls)))
        calls.append(obj)
        obj.setdefault("data", {})["color"] = "blue"

    with pytest.raises(Conflict):
        client.modify(CONFIG_MAP, f"{namespace}/web", change)
    assert len(calls) == ATTEMPTS == 5
    stored = client.get(CONFIG_MAP, f"{namespace}/web")
    assert stored is not None
    assert stored["data"] == {"others": "4"}


def test_modify_of_an_absent_object_is_not_found(client: Client, namespace: str) -> None:
    """Nothing is created, and the function is not called."""
    with pytest.raises(NotFound, match=rf"cannot modify v1/ConfigMap {namespace}/absent: there is none"):
        client.modify(CONFIG_MAP, f"{namespace}/absent", lambda _: pytest.fail("called"))


def test_modify_writes_a_status_apart(client: Client, widgets: str, namespace: str) -> None:
    """With ``status`` the status is written; a change of anything else beside it is refused, not dropped."""
    client.create(widget(widgets, namespace, size=1))

    def change(obj: Object) -> None:
        obj["status"] = {"size": obj["spec"]["size"]}

    stored = client.modify(widgets, f"{namespace}/web", change, status=True)
    assert stored["status"] == {"size": 1}

    def change_both(obj: Object) -> None:
        obj["spec"]["size"] = obj["status"]["size"] = 2

    with pytest.raises(ConfigError, match=r"status=True writes the status alone\. Change the rest by a call"):
        client.modify(widgets, f"{namespace}/web", change_both, status=True)
    assert client.get(widgets, f"{namespace}/web") == stored


def test_a_status_that_was_left_out_is_reported(client: Client, widgets: str, namespace: str) -> None:
    """The API server drops the status of a write that is not of the status: it is refused before."""
    created = client.create(widget(widgets, namespace, size=1))

    def change(obj: Object) -> None:
        obj["spec"]["size"] = 2
        obj["status"] = {"ready": True}

    with pytest.raises(ConfigError, match=r"bad change of Widget \S+ its status.*modify with status=True"):
        client.modify(widgets, f"{namespace}/web", change)
    with pytest.raises(ConfigError, match="its status is a subresource"):
        client.create_or_update(widget(widgets, namespace), change)
    assert client.get(widgets, f"{namespace}/web") == created


async def change_later(obj: Object) -> None:
    """Change nothing, since it is never awaited."""
    await asyncio.sleep(0)


def rename(obj: Object) -> None:
    """Make it another object."""
    obj["metadata"]["name"] = "other"


def unlock(obj: Object) -> None:
    """Forget which version it was."""
    del obj["metadata"]["resourceVersion"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda obj: {**obj, "data": {}}, "it returned dict"),
        (change_later, "it returned coroutine"),
        (rename, "it made it another object"),
        (unlock, "or one of another version"),
    ],
)
def test_a_change_that_would_be_lost_is_refused(
    recording: RecordingClient, namespace: str, change: Any, message: str
) -> None:
    """A function that returns its change, or makes another object, is a ConfigError; nothing is written."""
    recording.create(config_map(namespace, "web", color="red"))
    recording.requests.clear()
    with pytest.raises(ConfigError, match=message):
        recording.modify(CONFIG_MAP, f"{namespace}/web", change)
    with pytest.raises(ConfigError, match=message):
        recording.create_or_update(config_map(namespace, "web"), change)
    assert recording.writes == []


def test_create_or_update_reports_its_operation(recording: RecordingClient, namespace: str) -> None:
    """Created, unchanged without a write, updated: as controllerutil's OperationResult."""
    wanted = config_map(namespace, "web", size="1")
    stored, result = recording.create_or_update(wanted, paint("red"))
    assert (stored["data"], result) == ({"color": "red", "size": "1"}, "created")
    assert wanted == config_map(namespace, "web", size="1")
    recording.requests.clear()
    assert recording.create_or_update(wanted, paint("red")) == (stored, "unchanged")
    assert recording.writes == []
    meddle(recording, f"{namespace}/web", "kept")
    stored, result = recording.create_or_update(config_map(namespace, "web", size="2"), paint("blue"))
    assert (stored["data"], result) == ({"color": "blue", "others": "kept", "size": "1"}, "updated")


def test_create_or_update_finds_an_object_that_others_created_in_between(
    client: Client, namespace: str
) -> None:
    """A client that loses the race to create reads again, and updates."""

    def change(obj: Object) -> None:
        if "uid" not in obj["metadata"]:
            client.create(config_map(namespace, "web", others="first"))
        paint("blue")(obj)

    stored, result = client.create_or_update(config_map(namespace, "web"), change)
    assert (stored["data"], result) == ({"color": "blue", "others": "first"}, "updated")


def test_patch_status_writes_the_differences(
    recording: RecordingClient, widgets: str, namespace: str
) -> None:
    """Fields are set, or removed by None; others stay, also those that others wrote in between."""
    created = recording.create(widget(widgets, namespace))
    stored = recording.patch_status(created, {"ready": True, "sizes": {"a": 1, "b": 2}})
    assert stored["status"] == {"ready": True, "sizes": {"a": 1, "b": 2}}
    recording.patch(widgets, f"{namespace}/web", {"status": {"others": 1}}, status=True)
    stored = recording.patch_status(stored, {"ready": False, "sizes": {"a": None, "b": 2}})
    assert stored["status"] == {"ready": False, "sizes": {"b": 2}, "others": 1}


@pytest.mark.parametrize("status", [{}, {"ready": True}, {"sizes": {"a": 1}}, {"gone": None}])
def test_patch_status_asks_nothing_where_nothing_differs(
    recording: RecordingClient, widgets: str, namespace: str, status: Object
) -> None:
    """An object that has the status already is returned as it is."""
    obj = recording.create(widget(widgets, namespace))
    obj = recording.patch_status(obj, {"ready": True, "sizes": {"a": 1}})
    recording.requests.clear()
    assert recording.patch_status(obj, status) is obj
    assert recording.requests == []


@pytest.mark.parametrize("copied", [False, True])
def test_patch_status_writes_a_condition_that_was_set_in_place(
    recording: RecordingClient, widgets: str, namespace: str, copied: bool
) -> None:
    """It is compared with the status that was read before the first one was set, not with itself."""
    obj = recording.create(widget(widgets, namespace))
    obj = recording.patch_status(obj, {"sizes": {"a": 1}})
    assert set_condition(obj, "Ready", False, reason="Starting")
    assert set_condition(obj, "Ready", True, reason="Synced")
    obj["status"]["sizes"]["a"] = 2
    stored = recording.patch_status(obj, {**obj["status"]} if copied else obj["status"])
    assert stored["status"]["sizes"] == {"a": 2}
    condition = get_condition(stored, "Ready")
    assert condition is not None
    assert condition["status"] == "True"
    recording.requests.clear()
    assert not set_condition(stored, "Ready", True, reason="Synced")
    assert recording.patch_status(stored, {**stored["status"]}) is stored
    assert recording.requests == []


def test_patch_status_does_not_miss_a_zero_that_the_server_drops(
    recording: RecordingClient, namespace: str
) -> None:
    """It is sent once; in the place of another value it is written, and so is one that the server keeps."""
    created = recording.create(replica_set(namespace))
    old_reason = {
        "type": "ReplicaFailure",
        "status": "False",
        "reason": "Old",
        "message": "",
        "lastTransitionTime": "2026-08-01T12:00:00Z",
    }
    wanted: Object = {"readyReplicas": 0, "conditions": [old_reason]}
    stored = recording.patch_status(created, wanted)
    assert "readyReplicas" not in stored["status"]
    recording.requests.clear()
    assert recording.patch_status(stored, wanted) is stored
    assert recording.requests == []
    up = recording.patch_status(stored, {"replicas": 1, "readyReplicas": 1})
    assert up["status"]["readyReplicas"] == 1
    down = recording.patch_status(up, wanted)
    assert "readyReplicas" not in down["status"]
    kept = recording.patch_status(down, {"terminatingReplicas": 0})
    assert kept["status"]["terminatingReplicas"] == 0
    assert recording.patch_status(kept, {"conditions": [{**old_reason, "reason": "New"}]}) is not kept


def test_patch_status_writes_a_zero_that_is_kept(
    recording: RecordingClient, widgets: str, namespace: str
) -> None:
    """A custom resource has what was sent: absent and 0 are two things there."""
    obj = recording.create(widget(widgets, namespace))
    wanted: Object = {"ready": 0, "message": "", "sizes": {"a": 0}}
    for _ in range(2):
        assert recording.patch_status(obj, wanted)["status"] == wanted


def test_patch_status_distinguishes_true_and_one(client: Client, widgets: str, namespace: str) -> None:
    """What Python takes for equal and JSON does not is written."""
    obj = client.patch_status(client.create(widget(widgets, namespace)), {"ready": 1})
    assert client.patch_status(obj, {"ready": True})["status"] == {"ready": True}


def test_patch_status_with_a_list_spares_the_writes_of_others(
    client: Client, widgets: str, namespace: str
) -> None:
    """A list is replaced whole, and so only in the version that was read."""
    obj = client.create(widget(widgets, namespace))
    newer = client.patch_status(obj, {"pods": ["a"]})
    with pytest.raises(Conflict):
        client.patch_status(obj, {"pods": ["b"]})
    assert client.patch_status(newer, {"pods": ["a", "b"]})["status"] == {"pods": ["a", "b"]}


def test_patch_status_refuses_a_status_that_it_cannot_compare(
    recording: RecordingClient, widgets: str, namespace: str
) -> None:
    """The object's own status, changed in place, would differ from nothing and be lost."""
    obj = recording.create(widget(widgets, namespace))
    obj["status"] = {"ready": True}
    recording.requests.clear()
    unfit: list[tuple[Any, str]] = [
        (obj["status"], "it is the object's own, .* in a new dict"),
        (["ready"], r"\['ready'\] is no dict"),
        (None, "None is no dict"),
    ]
    for status, refused in unfit:
        with pytest.raises(ConfigError, match=f"bad status of Widget .*: {refused}"):
            recording.patch_status(obj, status)
    assert recording.requests == []


def test_finalizers_are_written_once(recording: RecordingClient, namespace: str) -> None:
    """One that is there is not added again, one that is gone not removed; others stay."""
    obj = config_map(namespace, "web")
    obj["metadata"]["finalizers"] = ["example.com/other"]
    held = recording.add_finalizer(recording.create(obj), FINALIZER)
    assert held["metadata"]["finalizers"] == ["example.com/other", FINALIZER]
    assert recording.remove_finalizer(held, FINALIZER) is True
    freed = recording.modify(CONFIG_MAP, f"{namespace}/web", lambda _: None)
    assert freed["metadata"]["finalizers"] == ["example.com/other"]
    recording.requests.clear()
    assert recording.add_finalizer(held, FINALIZER) is held
    assert recording.remove_finalizer(freed, FINALIZER) is False
    assert recording.requests == []
    recording.remove_finalizer(freed, "example.com/other")


def test_finalizers_are_written_to_an_object_that_changed(client: Client, namespace: str) -> None:
    """A client that read an older version neither fails nor takes others' finalizers away."""
    old = client.create(config_map(namespace, "web"))
    client.add_finalizer(old, "example.com/other")
    held = client.add_finalizer(old, FINALIZER)
    assert held["metadata"]["finalizers"] == ["example.com/other", FINALIZER]
    meddle(client, f"{namespace}/web", "newer")
    assert client.remove_finalizer(held, FINALIZER) is True
    assert client.remove_finalizer(held, "example.com/other") is True
    found = client.get(CONFIG_MAP, f"{namespace}/web")
    assert found is not None
    assert "finalizers" not in found["metadata"]


def test_the_last_finalizer_lets_the_object_go(client: Client, namespace: str) -> None:
    """Once removed, an object that is being deleted is gone; to remove it again is False."""
    held = client.add_finalizer(client.create(config_map(namespace, "web")), FINALIZER)
    assert client.delete(CONFIG_MAP, f"{namespace}/web")
    assert client.remove_finalizer(held, FINALIZER) is True
    assert client.get(CONFIG_MAP, f"{namespace}/web") is None
    assert client.remove_finalizer(held, FINALIZER) is False
    with pytest.raises(NotFound):
        client.add_finalizer({**held, "metadata": {**held["metadata"], "finalizers": []}}, FINALIZER)


def test_a_finalizer_of_an_object_of_the_same_name_is_left_alone(client: Client, namespace: str) -> None:
    """An object that was created anew under the name is another object."""
    held = client.add_finalizer(client.create(config_map(namespace, "web")), FINALIZER)
    client.delete(CONFIG_MAP, f"{namespace}/web")
    client.remove_finalizer(held, FINALIZER)
    anew = client.add_finalizer(client.create(config_map(namespace, "web")), FINALIZER)
    assert client.remove_finalizer(held, FINALIZER) is False
    with pytest.raises(NotFound, match=r"cannot add a finalizer to ConfigMap \S+: there is none"):
        client.add_finalizer(held, "example.com/other")
    assert client.get(CONFIG_MAP, f"{namespace}/web") == anew
    client.remove_finalizer(anew, FINALIZER)


def test_finalizers_need_the_object_as_it_was_read(recording: RecordingClient, namespace: str) -> None:
    """Without its version others' finalizers could be lost."""
    with pytest.raises(ConfigError, match=r"no resourceVersion\. Pass the object as it was read"):
        recording.add_finalizer(config_map(namespace, "web"), FINALIZER)
    assert recording.requests == []
