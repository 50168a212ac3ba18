"""Conditions in an object's status, as apimachinery's meta.SetStatusCondition keeps them."""

import copy
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest
import yaml

from distq.client import Client, Object
from distq.client.conditions import get_condition, remove_condition, set_condition
from distq.errors import ConfigError
from tests.client.recording_client import RecordingClient
from tests.support.samples import replica_set

NOON = datetime(2026, 8, 1, 12, 0, 0, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)


def foo(generation: int = 1) -> Object:
    """Return an object without a status."""
    about = {"name": "web", "namespace": "default", "generation": generation}
    return {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": about}


def test_a_condition_is_added_with_its_time_and_generation() -> None:
    """It has all fields of metav1.Condition, and the status keeps what else it had."""
    obj = {**foo(generation=3), "status": {"replicas": 1}}
    assert get_condition(obj, "Ready") is None
    assert set_condition(obj, "Ready", True, reason="Synced", message="all up", last_transition_time=NOON)
    assert get_condition(obj, "Ready") == {
        "type": "Ready",
        "status": "True",
        "reason": "Synced",
        "message": "all up",
        "observedGeneration": 3,
        "lastTransitionTime": "2026-08-01T12:00:00Z",
    }
    assert obj["status"]["replicas"] == 1


def test_the_transition_time_changes_with_the_status_alone() -> None:
    """Another reason or message is a change, and no transition; others' conditions stay where they are."""
    obj = foo()
    for kind in ("Ready", "Healthy"):
        set_condition(obj, kind, False, reason="Starting", last_transition_time=NOON)
    assert set_condition(obj, "Ready", False, reason="Waiting", message="1 of 2", last_transition_time=LATER)
    ready = get_condition(obj, "Ready")
    assert ready is not None
    assert (ready["reason"], ready["lastTransitionTime"]) == ("Waiting", "2026-08-01T12:00:00Z")
    assert set_condition(obj, "Ready", True, reason="Synced", last_transition_time=LATER)
    ready = get_condition(obj, "Ready")
    assert ready is not None
    assert (ready["message"], ready["lastTransitionTime"]) == ("", "2026-08-01T13:00:00Z")
    assert [each["type"] for each in obj["status"]["conditions"]] == ["Ready", "Healthy"]


def test_an_equal_condition_is_no_change() -> None:
    """The same again returns False and leaves the object as it is; a new generation is a change."""
    obj = foo()
    set_condition(obj, "Ready", True, reason="Synced", last_transition_time=NOON)
    before = obj["status"]
    assert set_condition(obj, "Ready", True, reason="Synced", last_transition_time=LATER) is False
    assert obj["status"] is before
    obj["metadata"]["generation"] = 2
    assert set_condition(obj, "Ready", True, reason="Synced", last_transition_time=LATER) is True


@pytest.mark.parametrize(
    ("status", "text"), [(True, "True"), (False, "False"), (None, "Unknown"), ("Unknown", "Unknown")]
)
def test_a_status_is_true_false_or_unknown(status: Any, text: str) -> None:
    """Python's values and Kubernetes' texts mean the same."""
    obj = foo()
    set_condition(obj, "Ready", status, reason="Synced")
    found = get_condition(obj, "Ready")
    assert found is not None
    assert found["status"] == text


@pytest.mark.parametrize("status", ["true", 1, "", ["True"]])
def test_another_status_is_refused(status: Any) -> None:
    """What Kubernetes would refuse, or take for something else, changes nothing."""
    obj = foo()
    with pytest.raises(ConfigError, match=r"bad status .* of condition Ready\. Give True, False or None"):
        set_condition(obj, "Ready", status, reason="Synced")
    assert obj == foo()


@pytest.mark.parametrize("reason", ["", "not one word", "1st", None])
def test_a_reason_is_a_word(reason: Any) -> None:
    """The schema of metav1.Condition requires one."""
    with pytest.raises(ConfigError, match=r"bad reason .* of condition Ready\. Give a word in CamelCase"):
        set_condition(foo(), "Ready", True, reason=reason)


def test_times_are_written_in_utc_and_without_fractions() -> None:
    """As metav1.Time is."""
    obj = foo()
    local = datetime(2026, 8, 1, 12, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=2)))
    set_condition(obj, "Ready", True, reason="Synced", last_transition_time=local)
    assert obj["status"]["conditions"][0]["lastTransitionTime"] == "2026-08-01T10:00:00Z"


def test_a_condition_is_written_once(client: Client, widgets: str, namespace: str) -> None:
    """The same condition again writes nothing, neither by modify nor as a patch of the read object."""
    api_version, _, kind = widgets.rpartition("/")
    about = {"name": "web", "namespace": namespace}
    client.create({"apiVersion": api_version, "kind": kind, "metadata": about})

    def change(obj: Object) -> None:
        set_condition(obj, "Ready", True, reason="Synced")

    first = client.modify(widgets, f"{namespace}/web", change, status=True)
    assert first["status"]["conditions"][0]["observedGeneration"] == 1
    assert client.modify(widgets, f"{namespace}/web", change, status=True) == first
    wanted = {**first}
    set_condition(wanted, "Ready", True, reason="Synced")
    assert client.patch_status(first, {**wanted["status"]}) is first
    set_condition(wanted, "Ready", False, reason="Broken")
    stored = client.patch_status(first, wanted["status"])
    assert [each["status"] for each in stored["status"]["conditions"]] == ["False"]


@pytest.mark.parametrize("dump", [yaml.safe_dump, partial(yaml.dump, Dumper=yaml.CSafeDumper), json.dumps])
def test_an_object_with_a_new_condition_is_written_as_any_other(dump: Callable[[Object], str]) -> None:
    """A program may log it, or keep it in a file."""
    obj: Object = {"status": {"ready": 1}}
    set_condition(obj, "Ready", True, reason="Synced", last_transition_time=NOON)
    plain = json.loads(json.dumps(obj))
    assert dump(obj) == dump(plain)
    assert copy.deepcopy(obj) == plain


def test_a_condition_that_was_so_already_is_no_request(
    recording: RecordingClient, widgets: str, namespace: str
) -> None:
    """Set and patched again, by the object's own status as by a copy; what else changes then is written."""
    api_version, _, kind = widgets.rpartition("/")
    about = {"name": "web", "namespace": namespace}
    obj = recording.create({"apiVersion": api_version, "kind": kind, "metadata": about})
    set_condition(obj, "Ready", True, reason="Synced")
    recording.patch_status(obj, obj["status"])
    read = recording.get(widgets, f"{namespace}/web")
    assert read is not None
    recording.requests.clear()
    assert not set_condition(read, "Ready", True, reason="Synced")
    assert recording.patch_status(read, read["status"]) is read
    assert recording.requests == []
    read["status"]["size"] = 1
    assert recording.patch_status(read, read["status"])["status"]["size"] == 1


def test_a_condition_rests_on_a_kind_that_keeps_no_generation_in_it(
    recording: RecordingClient, namespace: str
) -> None:
    """Neither the generation nor an empty message, both dropped by the server, is written again."""
    stored = recording.create(replica_set(namespace))
    set_condition(stored, "ReplicaFailure", False, reason="AllThere")
    stored = recording.patch_status(stored, {**stored["status"], "readyReplicas": 0})
    condition = get_condition(stored, "ReplicaFailure")
    assert condition is not None
    assert condition.keys() == {"type", "status", "reason", "lastTransitionTime"}
    recording.requests.clear()
    assert not set_condition(stored, "ReplicaFailure", False, reason="AllThere")
    assert recording.patch_status(stored, stored["status"]) is stored
    assert recording.requests == []
    assert set_condition(stored, "ReplicaFailure", False, reason="AllThere", message="1 of 1")


def test_a_condition_is_removed_and_its_removal_written(
    recording: RecordingClient, widgets: str, namespace: str
) -> None:
    """Others stay; an absent one costs no request, and other changes beside it are written."""
    api_version, _, kind = widgets.rpartition("/")
    about = {"name": "web", "namespace": namespace}
    obj = recording.create({"apiVersion": api_version, "kind": kind, "metadata": about})
    assert not remove_condition(obj, "Degraded")
    assert "status" not in obj
    for each in ("Ready", "Degraded"):
        set_condition(obj, each, True, reason="Synced")
    stored = recording.patch_status(obj, obj["status"])
    assert remove_condition(stored, "Degraded")
    assert get_condition(stored, "Degraded") is None
    stored = recording.patch_status(stored, stored["status"])
    assert [each["type"] for each in stored["status"]["conditions"]] == ["Ready"]
    recording.requests.clear()
    assert not remove_condition(stored, "Degraded")
    assert recording.patch_status(stored, stored["status"]) is stored
    assert recording.requests == []
    stored["status"]["size"] = 1
    stored = recording.patch_status(stored, stored["status"])
    assert stored["status"]["size"] == 1
    assert remove_condition(stored, "Ready")
    assert recording.patch_status(stored, stored["status"])["status"]["conditions"] == []


def test_a_status_without_conditions_can_be_patched_after_a_removal(
    recording: RecordingClient, widgets: str, namespace: str
) -> None:
    """A reconcile that removes what never was, and patches its status, asks nothing."""
    api_version, _, kind = widgets.rpartition("/")
    about = {"name": "web", "namespace": namespace}
    obj = recording.create({"apiVersion": api_version, "kind": kind, "metadata": about})
    obj = recording.patch_status(obj, {"size": 1})
    recording.requests.clear()
    assert not remove_condition(obj, "Degraded")
    assert recording.patch_status(obj, obj["status"]) is obj
    assert recording.requests == []
    assert obj["status"] == {"size": 1}
