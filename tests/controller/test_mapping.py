"""Which keys an event means: the object's own, its owners', or what a function returns."""

from typing import Any

import pytest

from distq.controller.event import Event
from distq.controller.stream.mapping import KeysOf, function_keys, key_of_name, owner_keys
from distq.controller.stream.routing import _is_outage
from distq.errors import ApiError


def pod(**metadata: Any) -> Event:
    """Return the creation of a Pod."""
    return Event("create", {"metadata": {"name": "web-1", "namespace": "prod", **metadata}})


def keys_of(event: Event, mapping: KeysOf) -> list[str]:
    """Return the keys that an event means, as text."""
    return [key.decode() for key in mapping(event)]


def test_an_object_means_its_own_key() -> None:
    """Namespace and name, or the name of a cluster-scoped one."""
    assert key_of_name(pod().key) == [b"prod/web-1"]
    assert key_of_name(Event("create", {"metadata": {"name": "node-1"}}).key) == [b"node-1"]


@pytest.mark.parametrize(
    ("only_controller", "namespaced", "expected"),
    [
        (True, True, ["prod/web"]),
        (False, True, ["prod/web", "prod/other"]),
        (True, False, ["web"]),
    ],
)
def test_an_owned_object_means_its_owners(
    only_controller: bool, namespaced: bool, expected: list[str]
) -> None:
    """By group and kind, in any version; a cluster-scoped owner has no namespace."""
    owners = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True},
        {"apiVersion": "apps/v1beta1", "kind": "ReplicaSet", "name": "other"},
        {"apiVersion": "v1", "kind": "ReplicaSet", "name": "no-group", "controller": True},
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "no-kind", "controller": True},
    ]
    keys = owner_keys("apps/v1/ReplicaSet", namespaced=namespaced, only_controller=only_controller)
    assert keys_of(pod(ownerReferences=owners), keys) == expected
    assert keys_of(pod(), keys) == []


@pytest.mark.parametrize("name", ["a\nb", "x" * 1100, "a/b", "..", "%2e", ""])
def test_an_owner_that_cannot_exist_is_left_out(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """API servers take any text for a name in a reference: it must not stop the stream, and is said."""
    owners = [{"apiVersion": "v1", "kind": "Foo", "name": each} for each in (name, "web")]
    keys = owner_keys("v1/Foo", namespaced=False, only_controller=False)
    assert keys_of(pod(ownerReferences=owners), keys) == ["web"]
    assert "its owner cannot exist" in caplog.text


def test_a_function_means_the_keys_that_it_returns() -> None:
    """Any iterable; None is none; a text is a mistake that would be its letters."""
    assert keys_of(pod(), function_keys(lambda obj: (obj["metadata"]["name"], "b"))) == ["web-1", "b"]
    assert keys_of(pod(), function_keys(lambda _: None)) == []  # type: ignore[arg-type,return-value]  # what is tested
    with pytest.raises(TypeError, match="return a list of keys"):
        function_keys(lambda _: "prod/web")(pod())


@pytest.mark.parametrize("status", ["503", None, [500], object()])
def test_an_error_with_an_odd_status_stops_no_stream(status: Any) -> None:
    """A function of the user may raise an ApiError of its own making; its object becomes dead."""
    assert not _is_outage(ApiError("odd", status=status))
