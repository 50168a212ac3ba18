"""Watches are checked when they are written down, and each is known by what it watches."""

from functools import partial
from typing import Any

import pytest

from distq.client import Client
from distq.controller.predicate import Predicate, changed, generation_changed
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
from distq.informer.listwatch import ListWatch


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


@pytest.mark.parametrize(
    ("selectors", "refused"),
    [
        ({"label_selector": {"app": "web"}}, r"bad label_selector of v1/Pod: .*app=web\."),
        ({"label_selector": None}, r"bad label_selector of v1/Pod: None\. Give a text"),
        ({"label_selector": "app=web,,"}, 'bad label selector "app=web,,"'),
        ({"field_selector": ["a=b"]}, r"bad field_selector of v1/Pod: .*metadata\.name=web\."),
    ],
)
def test_bad_selectors_are_refused(selectors: Any, refused: str) -> None:
    """A program learns it from its own line, and not from a watch that the API server refuses for ever."""
    for construct in (For, Owns, partial(ListWatch, Client())):
        with pytest.raises(ConfigError, match=refused):
            construct("v1/Pod", **selectors)


def test_predicates_and_functions_must_be_callable() -> None:
    """A value that cannot be called is refused before anything runs."""
    with pytest.raises(ConfigError, match="bad predicate"):
        For("v1/Pod", predicates=["app=web"])  # type: ignore[list-item]  # what is tested
    with pytest.raises(ConfigError, match="bad keys of Watches"):
        Watches("v1/Pod", ["a"])  # type: ignore[arg-type]  # what is tested
    with pytest.raises(ConfigError, match="bad keys of Every"):
        Every(10, ["a"])  # type: ignore[arg-type]  # what is tested


@pytest.mark.parametrize("period", [0, -1, float("inf"), float("nan"), "5", True])
def test_bad_periods_are_refused(period: Any) -> None:
    """A period is a number of seconds above 0."""
    with pytest.raises(ConfigError, match="bad period"):
        Every(period, list)


@pytest.mark.parametrize("switch", ["cached", "metadata_only"])
@pytest.mark.parametrize("value", ["yes", "", "no", 1, 0, None, ["v1/Pod"]])
def test_switches_are_true_or_false(switch: str, value: Any) -> None:
    """A text that says no would count as yes."""
    with pytest.raises(ConfigError, match=rf"bad {switch} of v1/Pod: .*\. Give True or False"):
        For("v1/Pod", **{switch: value})


def test_one_predicate_needs_no_list() -> None:
    """A single predicate is a list of one."""
    lonely: Any = generation_changed
    assert For("v1/Pod", predicates=lonely).predicate.compares


@pytest.mark.parametrize(
    "predicate", [changed("status.phase"), Predicate(lambda _: True, compares="object") & generation_changed]
)
def test_objects_are_compared_on_cached_watches_alone(predicate: Predicate) -> None:
    """Elsewhere the old ones are not kept, which a program learns before it runs."""
    with pytest.raises(ConfigError, match=r"bad predicates of v1/Pod: .* Add cached=True"):
        For("v1/Pod", predicates=predicate)
    with pytest.raises(ConfigError, match=r"bad predicates of v1/Pod: .* metadata_only .* Leave it out"):
        For("v1/Pod", predicates=predicate, cached=True, metadata_only=True)
    assert For("v1/Pod", predicates=predicate, cached=True).predicate.compared == "object"
    assert For("v1/Pod", predicates=changed("metadata.labels.app")).predicate.compared == "metadata"


def test_group_and_kind_of_a_resource() -> None:
    """The core group is empty."""
    assert group_kind("apps/v1/Deployment") == ("apps", "Deployment")
    assert group_kind("v1/Pod") == ("", "Pod")


def test_identities_distinguish_watches() -> None:
    """Resource, selectors and mapping do; predicates, version and order of declaration do not."""
    maps = Watches("v1/ConfigMap", sorted)  # any named function
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
