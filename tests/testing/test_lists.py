"""LIST: versions, pages and selectors, on the emulated and the real server."""

import pytest

from tests.testing.conftest import (
    PARTIAL,
    PARTIAL_LIST,
    Api,
    config_map,
    labelled,
    names,
    version_of,
    widget,
)

FUTURE = "999999999"


@pytest.fixture
def three(api: Api, config_maps: str) -> str:
    """Give the path of ConfigMaps with three of them: a and c red, b blue and alone checked."""
    api.create(config_maps, labelled("a", color="red"))
    api.create(config_maps, labelled("b", color="blue", checked="yes"))
    api.create(config_maps, labelled("c", color="red"))
    return config_maps


def test_items_of_built_in_lists_have_no_kind(api: Api, three: str, widgets: str) -> None:
    """Items of typed lists carry neither kind nor apiVersion; those of custom resources do."""
    listed = api.get(three)
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert all("kind" not in item and "apiVersion" not in item for item in listed["items"])
    api.create(widgets, widget("web"))
    listed = api.get(widgets)
    assert listed["kind"] == "WidgetList"
    assert listed["items"][0]["kind"] == "Widget"


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("color=red", "ac"),
        ("color==red", "ac"),
        ("color!=red", "b"),
        ("color in (red, blue)", "abc"),
        ("color notin (red)", "b"),
        ("checked notin (no)", "abc"),
        ("checked", "b"),
        ("!checked", "ac"),
        ("color=red,checked", ""),
        ("color=blue,checked=yes", "b"),
        ("color=", ""),
    ],
)
def test_label_selectors(api: Api, three: str, selector: str, expected: str) -> None:
    """Equality, sets and existence select as they should."""
    assert names(api.get(three, labelSelector=selector)) == list(expected)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [("metadata.name=b", "b"), ("metadata.name!=b", "ac"), ("metadata.name=b,metadata.namespace=other", "")],
)
def test_field_selectors(api: Api, three: str, selector: str, expected: str) -> None:
    """Name and namespace can be selected by everywhere."""
    assert names(api.get(three, fieldSelector=selector)) == list(expected)


def test_fields_of_a_kind_can_be_selected_by(api: Api, namespace: str) -> None:
    """Events are found by their object."""
    events = f"/api/v1/namespaces/{namespace}/events"
    for name in ("web", "db"):
        about = {"namespace": namespace, "kind": "Widget", "name": name}
        api.create(events, {"metadata": {"name": name}, "involvedObject": about, "reason": "Seen"})
    assert names(api.get(events, fieldSelector="involvedObject.name=db,reason=Seen")) == ["db"]


@pytest.mark.parametrize(
    "query",
    [
        {"labelSelector": "a b c"},
        {"labelSelector": "color=red,"},
        {"labelSelector": "color in (red"},
        {"fieldSelector": "spec.color=red"},
        {"fieldSelector": "metadata.name"},
        {"resourceVersion": "abc"},
        {"limit": "abc"},
        {"continue": "abc"},
    ],
)
def test_a_parameter_that_cannot_be_read_is_a_bad_request(
    api: Api, config_maps: str, query: dict[str, str]
) -> None:
    """Selectors, numbers and tokens that make no sense are 400."""
    status = api.refused("GET", config_maps, **query)
    assert (status["code"], status["reason"]) == (400, "BadRequest")


@pytest.mark.parametrize(
    "query",
    [
        {"resourceVersionMatch": "Exact"},
        {"resourceVersionMatch": "Exact", "resourceVersion": "0"},
        {"resourceVersionMatch": "Bogus", "resourceVersion": "5"},
        {"sendInitialEvents": "true"},
    ],
)
def test_contradictory_options_are_invalid(api: Api, config_maps: str, query: dict[str, str]) -> None:
    """The answer is 422 and about the options."""
    status = api.refused("GET", config_maps, **query)
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert 'ListOptions.meta.k8s.io "" is invalid' in status["message"]


def test_pages_are_of_one_version(api: Api, three: str) -> None:
    """Later pages do not see what was written after the first, and say how much is left."""
    first = api.get(three, limit="1")
    assert names(first) == ["a"]
    assert first["metadata"]["remainingItemCount"] == 2
    api.create(three, config_map("ab"))
    api.delete(f"{three}/c")
    second = api.get(three, **{"limit": "1", "continue": first["metadata"]["continue"]})
    third = api.get(three, **{"limit": "5", "continue": second["metadata"]["continue"]})
    assert names(second) + names(third) == ["b", "c"]
    assert {version_of(page) for page in (second, third)} == {version_of(first)}
    assert "continue" not in third["metadata"]
    assert names(api.get(three)) == ["a", "ab", "b"]


def test_pages_of_selected_objects(api: Api, three: str) -> None:
    """A page holds as many matches as asked for, and no count of the rest."""
    page = api.get(three, limit="1", labelSelector="color=red")
    assert names(page) == ["a"]
    assert "remainingItemCount" not in page["metadata"]
    token = page["metadata"]["continue"]
    page = api.get(three, **{"limit": "1", "labelSelector": "color=red", "continue": token})
    assert names(page) == ["c"]


def test_the_last_page_of_selected_objects_may_be_empty(api: Api, three: str) -> None:
    """Whether more objects match is only known when they were looked at."""
    page = api.get(three, limit="1", labelSelector="color=blue")
    assert names(page) == ["b"]
    token = page["metadata"]["continue"]
    page = api.get(three, **{"limit": "1", "labelSelector": "color=blue", "continue": token})
    assert (names(page), page["metadata"].get("continue")) == ([], None)


def test_a_name_is_looked_up_alone(api: Api, three: str) -> None:
    """So nothing can follow it."""
    page = api.get(three, limit="1", fieldSelector="metadata.name=a")
    assert (names(page), page["metadata"].get("continue")) == (["a"], None)


def test_version_zero_ignores_the_limit(api: Api, three: str) -> None:
    """The cache answers with everything at once."""
    assert names(api.get(three, resourceVersion="0", limit="1")) == ["a", "b", "c"]


def test_a_limit_below_zero_is_none(api: Api, three: str) -> None:
    """So that a version means one that is not older."""
    version = api.get(f"{three}/a")["metadata"]["resourceVersion"]
    assert names(api.get(three, limit="-1", resourceVersion=version)) == ["a", "b", "c"]
    assert names(api.get(three, limit="5", resourceVersion=version)) == ["a"]


def test_exact_lists_show_the_past(api: Api, config_maps: str) -> None:
    """Also a version with a limit and no match means exactly that version."""
    before = str(version_of(api.create(config_maps, config_map("a"))))
    api.merge(f"{config_maps}/a", {"data": {"changed": "yes"}})
    api.create(config_maps, config_map("b"))
    exact = api.get(config_maps, resourceVersion=before, resourceVersionMatch="Exact")
    assert names(exact) == ["a"]
    assert "data" not in exact["items"][0]
    assert str(version_of(exact)) == before
    limited = api.get(config_maps, resourceVersion=before, limit="10")
    assert (names(limited), str(version_of(limited))) == (["a"], before)
    not_older = api.get(config_maps, resourceVersion=before)
    assert names(not_older) == ["a", "b"]
    assert version_of(not_older) > int(before)


@pytest.mark.parametrize("query", [{}, {"limit": "1"}, {"resourceVersionMatch": "Exact"}])
def test_a_version_that_is_not_reached_times_out(api: Api, config_maps: str, query: dict[str, str]) -> None:
    """After three seconds the answer is 504 and names the cause."""
    status = api.refused("GET", config_maps, resourceVersion=FUTURE, **query)
    assert (status["code"], status["reason"]) == (504, "Timeout")
    assert status["message"].startswith(f"Timeout: Too large resource version: {FUTURE}, current: ")
    assert status["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


def test_a_page_of_one_has_the_version(api: Api, config_maps: str) -> None:
    """LIST limit=1 is never below a write that was answered."""
    written = version_of(api.create(config_maps, config_map("a")))
    assert int(api.version(config_maps)) >= written


def test_lists_of_metadata_need_their_own_form(api: Api, three: str) -> None:
    """LIST takes PartialObjectMetadataList, GET PartialObjectMetadata, and the other way is 406."""
    listed = api.get(three, accept=PARTIAL_LIST)
    assert (listed["kind"], listed["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert {item["kind"] for item in listed["items"]} == {"PartialObjectMetadata"}
    assert api.get(f"{three}/a", accept=PARTIAL)["kind"] == "PartialObjectMetadata"
    assert api.refused("GET", three, accept=PARTIAL)["code"] == 406
    assert api.refused("GET", f"{three}/a", accept=PARTIAL_LIST)["code"] == 406


@pytest.mark.usefixtures("three")
def test_all_namespaces_are_listed_together(api: Api, namespace: str) -> None:
    """The path without a namespace has everything, and field selectors narrow it."""
    query = {"fieldSelector": f"metadata.namespace={namespace}"}
    assert names(api.get("/api/v1/configmaps", **query)) == ["a", "b", "c"]


@pytest.mark.parametrize(("limit", "cause"), [("x", "invalid syntax"), ("9" * 21, "value out of range")])
def test_a_limit_is_a_number_of_64_bits(api: Api, config_maps: str, limit: str, cause: str) -> None:
    """Another one is a request that makes no sense."""
    refused = api.refused("GET", config_maps, limit=limit)
    assert (refused["code"], refused["message"]) == (400, f'strconv.ParseInt: parsing "{limit}": {cause}')
