"""Label selectors are those of the API server: both servers and the library take the same texts."""

from typing import Any

import pytest

from distq.errors import ApiError, ConfigError
from distq.informer.selectors import label_selector
from tests.support.api_servers import ApiServer

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
def test_what_the_server_takes_is_taken(api_server: ApiServer, selector: str) -> None:
    """By the server and by the library."""
    list(api_server.client().list("v1/ConfigMap", "default", label_selector=selector))
    assert callable(label_selector(selector))


def test_no_values_are_the_empty_value() -> None:
    """As in Go."""
    assert label_selector("a in ()")({"a": ""})
    assert not label_selector("a in ()")({"a": "b"})


@pytest.mark.parametrize("selector", REFUSED)
def test_what_the_server_refuses_is_refused(api_server: ApiServer, selector: str) -> None:
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
