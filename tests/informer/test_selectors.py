"""Label selectors are those of the API server: both servers and the library take the same texts."""

from typing import Any

import pytest

from distq.errors import ApiError, ConfigError
from distq.informer.selectors import label_selector, matches
from distq.testing.apiserver.selectors import text_of_label_selector
from tests.support.api_servers import ApiServer
from tests.support.samples import config_map

TAKEN = [
    *("a", "a=b", "a==b", "a!=b", "!a", "a=", "a!=", "a =b", "a= b", "x.y/z", "a.b/c=d", "in", "notin=in"),
    *("a in ()", "a notin ()", "a in (b)", "a in(b)", "a in (b,,c)", "a in (,)", "in in (in)"),
    *("a\t in\t(b)", "a in (b),c notin (d,e)", "a=" + "x" * 63, "x" * 63, "d" * 253 + "/a", ""),
    *("a>1", "a>0001", "a<9223372036854775807"),
]
REFUSED = [
    *("b in (x.y/z)", "a=x.y/z", "a!=x/y", "a in (a b)", "a in ((b))", "a=(b)", "a in", "a in (b", "a b"),
    *("a=" + "x" * 64, "x" * 64, "x.y/" + "z" * 64, "d" * 254 + "/a", "X.y/z", "x/y/z", "/a", "a/"),
    *("a=-b", "a=b_", "a-", "_a", "a.-b/c", "a..b/c", "a=é", "é", "!a=b", "!a in (b)", "a,", "a,,b", ",a"),
    *("a>-1", "a<+1", "a<1.5", "a>", "a>b", "a<9223372036854775808", "a=b c"),
]


@pytest.mark.parametrize("selector", TAKEN)
def test_selectors_that_the_server_takes_are_taken(api_server: ApiServer, selector: str) -> None:
    """By the server and by the library."""
    list(api_server.client().list("v1/ConfigMap", "default", label_selector=selector))
    assert callable(label_selector(selector))


def test_no_values_are_the_empty_value() -> None:
    """As in Go."""
    assert label_selector("a in ()")({"a": ""})
    assert not label_selector("a in ()")({"a": "b"})


@pytest.mark.parametrize("selector", REFUSED)
def test_selectors_that_the_server_refuses_are_refused(api_server: ApiServer, selector: str) -> None:
    """A key or value that no label can have is an error: such a selector would select nothing in silence."""
    with pytest.raises(ApiError) as refused:
        list(api_server.client().list("v1/ConfigMap", "default", label_selector=selector))
    assert refused.value.status == 400
    with pytest.raises(ConfigError, match="bad label selector"):
        label_selector(selector)


@pytest.mark.parametrize("selector", [{"b": "x.y/z"}, {"a": "x" * 64}, {"x/y/z": "a"}, {"": "a"}])
def test_a_mapping_has_keys_and_values_of_labels(selector: Any) -> None:
    """Another one is refused as its text is."""
    with pytest.raises(ConfigError, match="no label is"):
        label_selector(selector)


@pytest.mark.parametrize("selector", [None, 5, ["app=web"], b"app=web"])
def test_a_selector_is_text_or_a_mapping(selector: Any) -> None:
    """Anything else is refused by its value, and not by an error from within."""
    with pytest.raises(ConfigError, match=r"^bad label selector .*Give text"):
        label_selector(selector)


LABELS: dict[str, dict[str, str]] = {
    "none": {},
    "web": {"app": "web", "tier": "front"},
    "empty": {"app": "", "example.com/tier": "front"},
    "db": {"app": "db", "tier": "back"},
}
SELECTORS: list[dict[str, Any]] = [
    {},
    {"matchLabels": {"app": "web"}},
    {"matchLabels": {"app": ""}},
    {"matchLabels": {"app": "web", "tier": "back"}},
    {"matchLabels": None, "matchExpressions": None},
    {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]},
    {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]},
    {"matchExpressions": [{"key": "tier", "operator": "Exists"}]},
    {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist", "values": []}]},
    {
        "matchLabels": {"tier": "front"},
        "matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db", "cache"]}],
    },
]


def test_a_selector_of_an_object_matches_the_objects_that_the_server_selects(
    api_server: ApiServer, namespace: str
) -> None:
    """Whether labels are absent, empty, or of other values; an empty selector matches everything."""
    client = api_server.client()
    for name, labels in LABELS.items():
        client.create(config_map(namespace, name) | {"metadata": _about(namespace, name, labels)})
    for selector in SELECTORS:
        text = text_of_label_selector(selector)
        found = client.list("v1/ConfigMap", namespace, label_selector=text)
        selected = {each["metadata"]["name"] for each in found} & LABELS.keys()
        assert {name for name, labels in LABELS.items() if matches(selector, labels)} == selected, text


def _about(namespace: str, name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {"namespace": namespace, "name": name, "labels": labels}


def test_no_selector_matches_nothing() -> None:
    """An absent selector is not an empty one; absent labels are empty ones."""
    assert not matches(None, {"app": "web"})
    assert matches({}, None)
    assert not matches({"matchLabels": {"app": "web"}}, None)


@pytest.mark.parametrize(
    "expression",
    [
        {"key": "app", "operator": "In", "values": []},
        {"key": "app", "operator": "NotIn"},
        {"key": "app", "operator": "Exists", "values": ["web"]},
        {"key": "app", "operator": "DoesNotExist", "values": [""]},
        {"key": "app", "operator": "Gt", "values": ["1"]},
        {"key": "app", "operator": "in", "values": ["web"]},
        {"key": "-app", "operator": "Exists"},
        {"key": "", "operator": "Exists"},
        {"key": "a/b/c", "operator": "In", "values": ["web"]},
        {"key": "app", "operator": "In", "values": ["web", "not one word"]},
        {"key": "app", "operator": "In", "values": ["x" * 64]},
    ],
)
def test_a_selector_that_the_server_refuses_is_refused(
    api_server: ApiServer, namespace: str, expression: dict[str, Any]
) -> None:
    """By the server, as a field of an object, and by the library, for any labels."""
    if api_server.kind == "real":
        policy = {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": "odd", "namespace": namespace},
            "spec": {"podSelector": {"matchExpressions": [expression]}},
        }
        with pytest.raises(ApiError) as refused:
            api_server.client().create(policy)
        assert refused.value.status == 422
        assert {cause.field.partition("[")[0] for cause in refused.value.causes} == {
            "spec.podSelector.matchExpressions"
        }
    for labels in LABELS.values():
        with pytest.raises(ConfigError, match=r"^bad label selector"):
            matches({"matchLabels": {"never": "there"}, "matchExpressions": [expression]}, labels)


@pytest.mark.parametrize(
    "selector",
    [
        {"app": "web"},  # a Service's, which is a plain mapping
        {"matchLabels": ["app"]},
        {"matchLabels": {"app": 1}},
        {"matchLabels": {"app": "web\nagain"}},
        {"matchExpressions": {"key": "app", "operator": "Exists"}},
        {"matchExpressions": ["app"]},
        {"matchExpressions": [{"key": "app", "operator": "In", "values": "web"}]},
        {"matchExpressions": [{"key": ["app"], "operator": ["In"], "values": ["web"]}]},
        "app=web",
        [],
    ],
)
def test_a_value_that_is_no_selector_is_refused(selector: Any) -> None:
    """In one line; a misspelt field would select everything in silence."""
    with pytest.raises(ConfigError, match=r"^bad label selector.*\.$") as refused:
        matches(selector, {"app": "web"})
    assert "\n" not in str(refused.value)
