"""Predicates combine, and let pass what they cannot compare."""

import pytest

from distq.controller.event import Event
from distq.controller.predicate import (
    Predicate,
    all_of,
    annotations_changed,
    generation_changed,
    labels_changed,
    matches_labels,
    resource_version_changed,
)
from distq.errors import ConfigError

YES, NO = Predicate(lambda _: True), Predicate(lambda _: False)
CANNOT_TELL = Predicate(lambda _: None, compares=True)
CREATED = Event("create", {"metadata": {"name": "a"}})


def update(old: dict[str, object] | None, new: dict[str, object]) -> Event:
    """Return an update between two states of metadata."""
    return Event(
        "update",
        {"metadata": {"name": "a", **new}},
        old=None if old is None else {"metadata": {"name": "a", **old}},
    )


@pytest.mark.parametrize(
    ("predicate", "passes"),
    [
        (YES & YES, True),
        (YES & NO, False),
        (NO | YES, True),
        (NO | NO, False),
        (~NO, True),
        (~YES, False),
        (YES & CANNOT_TELL, True),
        (NO & CANNOT_TELL, False),
        (NO | CANNOT_TELL, True),
        (~CANNOT_TELL, True),
        (~(YES & CANNOT_TELL), True),
        (~(NO & CANNOT_TELL), True),
        (~(YES | CANNOT_TELL), False),
        (YES & (lambda _: False), False),
        (all_of([]), True),
        (all_of([YES, lambda _: True]), True),
        (all_of([YES, NO]), False),
    ],
)
def test_predicates_combine(predicate: Predicate, passes: bool) -> None:
    """And, or and not, also with functions and with what cannot tell."""
    assert predicate(CREATED) is passes


def test_a_combination_compares_where_a_part_does() -> None:
    """Only then the leader keeps old metadata."""
    assert (YES & generation_changed).compares
    assert (~(YES | generation_changed)).compares
    assert not (YES & ~NO).compares


@pytest.mark.parametrize(
    ("predicate", "field"),
    [
        (generation_changed, "generation"),
        (resource_version_changed, "resourceVersion"),
        (labels_changed, "labels"),
        (annotations_changed, "annotations"),
    ],
)
def test_comparisons_filter_updates_alone(predicate: Predicate, field: str) -> None:
    """Unchanged updates are dropped; changes, unknown pasts and other events pass."""
    one, two = ({"a": "1"}, {"a": "2"}) if field in {"labels", "annotations"} else ("1", "2")
    assert not predicate(update({field: one}, {field: one}))
    assert predicate(update({field: one}, {field: two}))
    assert predicate(update({}, {field: one}))
    assert predicate(update(None, {field: one}))
    assert predicate(CREATED)
    assert predicate(Event("delete", {"metadata": {"name": "a"}}))
    assert not (~predicate)(update({field: one}, {field: two}))


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        ("app=db", False),
        ("app!=db", True),
        ("app!=web", False),
        ("missing!=web", True),
        ("app", True),
        ("!app", False),
        ("!missing", True),
        ("app in (db, web)", True),
        ("app in (db)", False),
        ("app notin (db,cache)", True),
        ("missing notin (db)", True),
        ("app=web,tier in (a,b),!canary", True),
        ("app=web,tier in (b,c)", False),
        ("example.com/role=front", True),
        ("empty=", True),
        ("size>2", True),
        ("size > 3", False),
        ("size<4,size>-1", True),
        ("size<3", False),
        ("app>1", False),
        ("missing<1", False),
    ],
)
def test_label_selectors_match_as_kubectl_does(selector: str, matches: bool) -> None:
    """Equality, sets, existence and numbers, and-ed."""
    labels = {"app": "web", "tier": "a", "example.com/role": "front", "empty": "", "size": "3"}
    assert matches_labels(selector)(Event("create", {"metadata": {"name": "a", "labels": labels}})) is matches


def test_a_mapping_is_a_selector_too() -> None:
    """All its labels must be there."""
    event = Event("create", {"metadata": {"name": "a", "labels": {"app": "web", "tier": "a"}}})
    assert matches_labels({"app": "web"})(event)
    assert not matches_labels({"app": "web", "tier": "b"})(event)


@pytest.mark.parametrize(
    ("selector", "part"),
    [
        ("app=web,,", ""),
        ("tier=a,app in web", "app in web"),
        ("=web", "=web"),
        ("app in ()", "app in ()"),
        ("a b", "a b"),
        ("size>big", "size>big"),
    ],
)
def test_bad_selectors_are_refused(selector: str, part: str) -> None:
    """One line names the selector, and the part that is wrong."""
    with pytest.raises(ConfigError) as refused:
        matches_labels(selector)
    assert str(refused.value).startswith(
        f'bad label selector "{selector}": "{part}" is no requirement. Use app=web,'
    )
