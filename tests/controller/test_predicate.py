"""Predicates combine, and let pass what they cannot compare."""

from typing import Any

import pytest

from distq.client.objects import Object
from distq.controller.event import Event
from distq.controller.predicate import (
    Predicate,
    all_of,
    annotations_changed,
    changed,
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
    """And, or and not, also with functions and with predicates that cannot decide."""
    assert predicate(CREATED) is passes


def test_a_combination_compares_where_a_part_does() -> None:
    """Only then the leader keeps old metadata."""
    assert (YES & generation_changed).compared == "metadata"
    assert (~(YES | generation_changed)).compared == "metadata"
    assert (generation_changed | ~(changed("status") & YES)).compared == "object"
    assert (YES & ~NO).compared == ""


@pytest.mark.parametrize("word", ["whole", None, 1, ["object"]])
def test_another_word_for_the_compared_part_is_refused(word: Any) -> None:
    """True, as 0.1.0 has it, is the metadata."""
    assert CANNOT_TELL.compared == "metadata"
    with pytest.raises(ConfigError, match=r"bad compares of a predicate: .* Use metadata or object"):
        Predicate(lambda _: True, compares=word)


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


BEFORE: Object = {
    "metadata": {"name": "a", "labels": {"app": "web"}},
    "spec": {"size": 1, "ports": [1, 2]},
    "status": {"phase": "Pending"},
}


def update_of(**parts: Any) -> Event:
    """Return an update of an object in which these parts are new."""
    return Event("update", {**BEFORE, **parts}, old=BEFORE)


@pytest.mark.parametrize(
    ("paths", "event", "passes"),
    [
        (["status.phase"], update_of(status={"phase": "Running"}), True),
        (["status.phase"], update_of(status={"phase": "Pending", "ip": "10.0.0.1"}), False),
        (["status"], update_of(status={"phase": "Pending", "ip": "10.0.0.1"}), True),
        (["status.phase", "spec.size"], update_of(spec={"size": 2}), True),
        (["status.phase", "spec.size"], update_of(spec={"size": 1, "ports": []}), False),
        (["spec.ports"], update_of(spec={"size": 1, "ports": [2, 1]}), True),
        (["status.phase"], update_of(status=None), True),
        (["status.ip"], update_of(status=None), False),
        (["status.load.ingress"], update_of(status={"load": {"ingress": []}}), True),
        (["metadata.labels.app"], update_of(metadata={"name": "a", "labels": {"app": "db"}}), True),
        (["metadata.labels.app.k8s.io/v"], update_of(metadata={"labels": {"app.k8s.io/v": "2"}}), True),
        (["metadata.labels.tier"], update_of(metadata={"name": "a", "labels": {"app": "db"}}), False),
        (["status.phase"], Event("update", BEFORE), True),
        (["status.phase"], Event("create", BEFORE), True),
        (["status.phase"], Event("delete", BEFORE), True),
    ],
)
def test_changed_drops_updates_that_left_its_parts_alone(
    paths: list[str], event: Event, passes: bool
) -> None:
    """One of them that differs is enough; where nothing is known of the past, the event passes."""
    assert changed(*paths)(event) is passes
    assert (~changed(*paths))(event) is (not passes or (event.type == "update" and event.old is None))


@pytest.mark.parametrize(
    "paths",
    [
        (),
        ("",),
        ("status..phase",),
        (".status",),
        ("status.",),
        (None,),
        (["status", "phase"],),
        ("$.status",),
        ("status.list[0]",),
    ],
)
def test_bad_paths_of_changed_are_refused(paths: Any) -> None:
    """They would filter all updates, or none."""
    with pytest.raises(ConfigError, match=r'changed\(\).* Give .*"status.phase"'):
        changed(*paths)


@pytest.mark.parametrize("path", ["metadata", "metadata.managedFields", "metadata.label"])
def test_metadata_that_is_not_kept_cannot_be_compared(path: str) -> None:
    """It would be missing always, and filter all updates."""
    with pytest.raises(ConfigError, match=r"bad path .* of metadata are kept annotations, creation"):
        changed(path)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            "spec.ports.0",
            'changed("spec.ports.0") leads into a list. Compare it whole: changed("spec.ports")',
        ),
        ("status.phase.x.y", 'leads into a str. Compare it whole: changed("status.phase")'),
    ],
)
def test_a_path_into_a_list_is_refused_at_the_first_object(path: str, message: str) -> None:
    """There is no such path, so it would filter all updates."""
    with pytest.raises(ConfigError) as refused:
        changed(path)(update_of())
    assert message in str(refused.value)


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
        ("size<4,size>0", True),
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
        ("app in (x.y/z)", "app in (x.y/z)"),
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
