"""Objects' keys (client-go tools/cache keyfuncs)."""

import pytest

from distq.errors import InvalidKey
from distq.informer import DeletedFinalStateUnknown, meta_namespace_key_func, split_meta_namespace_key
from tests.informer.pods import pod


@pytest.mark.conformance("KF-01", "KF-02")
def test_the_key_is_namespace_and_name() -> None:
    """A cluster-scoped object's is its name; a missed deletion's is the object's."""
    assert meta_namespace_key_func(pod("dev/a")) == "dev/a"
    assert meta_namespace_key_func({"metadata": {"name": "node-1"}}) == "node-1"
    assert meta_namespace_key_func(DeletedFinalStateUnknown("dev/b", pod("dev/b"))) == "dev/b"


@pytest.mark.conformance("KF-03")
def test_a_key_is_split_into_namespace_and_name() -> None:
    """A key that no informer makes is refused."""
    assert split_meta_namespace_key("dev/a") == ("dev", "a")
    assert split_meta_namespace_key("node-1") == ("", "node-1")
    for bad in ("", "a/b/c", "/a", "a/"):
        with pytest.raises(InvalidKey, match="not namespace/name"):
            split_meta_namespace_key(bad)
