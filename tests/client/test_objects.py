"""What an object is called, and how others refer to it."""

import pytest

from distq.client import Client, Object
from distq.client.objects import encode, is_same, key_of, reference
from distq.errors import ConfigError
from tests.support.samples import config_map


def test_a_key_is_namespace_and_name() -> None:
    """As in a Request; of a cluster-scoped object the name alone."""
    assert key_of(config_map("default", "web")) == "default/web"
    assert key_of({"kind": "Node", "metadata": {"name": "n1"}}) == "n1"


@pytest.mark.parametrize(
    "obj", [{}, {"metadata": None}, {"kind": "Foo", "metadata": {"namespace": "default"}}]
)
def test_an_object_without_a_name_has_no_key(obj: Object) -> None:
    """It is a ConfigError that says what to set."""
    with pytest.raises(ConfigError, match=r"no key of .*: no name\. Set metadata\.name"):
        key_of(obj)


def test_a_key_reads_the_object_again(client: Client, namespace: str) -> None:
    """What ``key_of`` returns is what ``get`` takes."""
    created = client.create(config_map(namespace, "web"))
    assert client.get("v1/ConfigMap", key_of(created)) == created


def test_a_reference_has_the_fields_of_the_object(client: Client, namespace: str) -> None:
    """Kind, place, uid and version, as client-go's GetReference; nothing empty."""
    created = client.create(config_map(namespace, "web"))
    about = created["metadata"]
    assert reference(created) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "namespace": namespace,
        "name": "web",
        "uid": about["uid"],
        "resourceVersion": about["resourceVersion"],
    }
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    assert reference(node) == {"apiVersion": "v1", "kind": "Node", "name": "n1"}


def test_a_reference_needs_kind_and_name() -> None:
    """An object that could not be found by it is refused."""
    with pytest.raises(ConfigError, match="no apiVersion or kind"):
        reference({"metadata": {"name": "web"}})
    with pytest.raises(ConfigError, match="no name"):
        reference({"apiVersion": "v1", "kind": "Pod"})


def test_objects_are_the_same_if_their_json_is() -> None:
    """The order of fields does not matter, the type of values does."""
    assert is_same({"a": 1, "b": [1, 2]}, {"b": (1, 2), "a": 1})
    assert not is_same({"a": True}, {"a": 1})
    assert not is_same([1, 2], [2, 1])
    assert not is_same({"a": None}, {})
    with pytest.raises(ConfigError, match="Use what JSON has"):
        encode({"a": object()})
