"""Watches are checked when they are written down, and tell which keys an event means."""

from typing import Any

import pytest

from distq.controller.event import Event
from distq.controller.predicate import generation_changed
from distq.controller.stream.mapping import KeysOf, function_keys, own_key, owner_keys
from distq.controller.watches import (
    Every,
    For,
    Owns,
    ResourceWatch,
    Watches,
    group_kind,
    identities,
)
from distq.errors import ConfigError


def pod(**metadata: Any) -> Event:
    """Return the creation of a Pod."""
    return Event("create", {"metadata": {"name": "web-1", "namespace": "prod", **metadata}})


def keys_of(event: Event, mapping: KeysOf) -> list[str]:
    """Return the keys that an event means, as text."""
    return [key.decode() for key in mapping(event)]


@pytest.mark.parametrize("resource", ["Pod", "", "v1/", "a/b/c/d", None])
def test_bad_resources_are_refused(resource: Any) -> None:
    """A version and a kind are needed."""
    with pytest.raises(ConfigError, match="bad resource"):
        For(resource)


@pytest.mark.parametrize("namespaces", ["prod", [], [""], [None]])
def test_bad_namespaces_are_refused(namespaces: Any) -> None:
    """One text is not a list of names, and none is not all."""
    with pytest.raises(ConfigError, match="bad namespaces"):
        For("v1/Pod", namespaces=namespaces)


def test_a_cached_watch_is_refused_as_long_as_there_is_no_lister() -> None:
    """The message says what to do instead."""
    with pytest.raises(ConfigError, match=r"cannot cache v1/Pod: .* Leave cached out"):
        For("v1/Pod", cached=True)


def test_predicates_and_functions_must_be_callable() -> None:
    """What cannot be called is refused before anything runs."""
    with pytest.raises(ConfigError, match="bad predicate"):
        For("v1/Pod", predicates=["app=web"])  # type: ignore[list-item]  # what is tested
    with pytest.raises(ConfigError, match="bad keys of Watches"):
        Watches("v1/Pod", ["a"])  # type: ignore[arg-type]  # what is tested
    with pytest.raises(ConfigError, match="bad keys of Every"):
        Every(10, ["a"])  # type: ignore[arg-type]  # what is tested


@pytest.mark.parametrize("period", [0, -1, float("inf"), float("nan")])
def test_bad_periods_are_refused(period: float) -> None:
    """A period is a number of seconds above 0."""
    with pytest.raises(ConfigError, match="bad period"):
        Every(period, list)


def test_one_predicate_needs_no_list() -> None:
    """A single predicate is a list of one."""
    lonely: Any = generation_changed
    assert For("v1/Pod", predicates=lonely).predicate.compares


def test_group_and_kind_of_a_resource() -> None:
    """The core group is empty."""
    assert group_kind("apps/v1/Deployment") == ("apps", "Deployment")
    assert group_kind("v1/Pod") == ("", "Pod")


def test_an_object_means_its_own_key() -> None:
    """Namespace and name, or the name of a cluster-scoped one."""
    assert keys_of(pod(), own_key) == ["prod/web-1"]
    assert keys_of(Event("create", {"metadata": {"name": "node-1"}}), own_key) == ["node-1"]


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
    """By group and kind, whatever the version; a cluster-scoped owner has no namespace."""
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


def test_a_function_means_what_it_returns() -> None:
    """Any iterable; None is none; a text is a mistake that would be its letters."""
    assert keys_of(pod(), function_keys(lambda obj: (obj["metadata"]["name"], "b"))) == ["web-1", "b"]
    assert keys_of(pod(), function_keys(lambda _: None)) == []  # type: ignore[arg-type,return-value]  # what is tested
    with pytest.raises(TypeError, match="return a list of keys"):
        function_keys(lambda _: "prod/web")(pod())


def test_identities_tell_watches_apart() -> None:
    """Resource, selectors and mapping do; predicates, version and order of declaration do not."""
    maps = Watches("v1/ConfigMap", own_key)  # type: ignore[arg-type]  # any named function
    watches: list[ResourceWatch] = [
        For("apps/v1/Deployment"),
        Owns("apps/v1/Deployment"),
        Owns("apps/v1/Deployment", only_controller=False),
        For("apps/v1/Deployment", label_selector="app=web"),
        maps,
        maps,
    ]
    assert len(set(identities(watches))) == len(watches)
    assert identities([For("apps/v1/Deployment")]) == identities(
        [For("apps/v1beta1/Deployment", predicates=[generation_changed])]
    )
