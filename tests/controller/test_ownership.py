"""Owner references and finalizers, as controller-runtime's controllerutil has them."""

from typing import Any

import pytest

from distq.controller.ownership import (
    add_finalizer,
    controller_of,
    owned_by,
    remove_finalizer,
    set_controller_reference,
)
from distq.errors import ConfigError


def thing(kind: str, name: str, namespace: str | None = "default", **metadata: Any) -> dict[str, Any]:
    """Return a plain object."""
    where = {"namespace": namespace} if namespace else {}
    about = {"name": name, "uid": f"uid-{name}", **where, **metadata}
    return {"apiVersion": "example.com/v1", "kind": kind, "metadata": about}


def test_the_owner_becomes_the_controller() -> None:
    """The reference names the owner by version, kind, name and uid, and blocks its deletion."""
    pod = thing("Pod", "web-0")
    set_controller_reference(thing("Foo", "web"), pod)
    assert pod["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "example.com/v1",
            "kind": "Foo",
            "name": "web",
            "uid": "uid-web",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def test_setting_it_again_changes_nothing_but_the_version() -> None:
    """A second call with another version of the same owner replaces the reference in its place."""
    pod, foo = thing("Pod", "web-0"), thing("Foo", "web")
    pod["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "a"}]
    set_controller_reference(foo, pod)
    set_controller_reference({**foo, "apiVersion": "example.com/v2"}, pod)
    references = pod["metadata"]["ownerReferences"]
    assert [reference["apiVersion"] for reference in references] == ["v1", "example.com/v2"]


def test_a_second_controller_is_refused() -> None:
    """An object has one controller; the object stays as it was."""
    pod = thing("Pod", "web-0")
    set_controller_reference(thing("Foo", "web"), pod)
    with pytest.raises(ConfigError, match="Foo web controls it already"):
        set_controller_reference(thing("Foo", "other"), pod)
    assert [reference["name"] for reference in pod["metadata"]["ownerReferences"]] == ["web"]


@pytest.mark.parametrize("namespace", ["other", None])
def test_an_owner_in_another_namespace_is_refused(namespace: str | None) -> None:
    """The garbage collector would delete an object whose owner it cannot find."""
    pod = thing("Pod", "web-0", namespace)
    with pytest.raises(ConfigError, match="its owner in default"):
        set_controller_reference(thing("Foo", "web"), pod)
    assert "ownerReferences" not in pod["metadata"]


def test_a_cluster_scoped_owner_may_own_anything() -> None:
    """An owner without a namespace reaches everywhere."""
    pod = thing("Pod", "web-0")
    set_controller_reference(thing("Cluster", "web", None), pod)
    assert pod["metadata"]["ownerReferences"][0]["kind"] == "Cluster"


def test_an_owner_that_was_never_created_is_refused() -> None:
    """Without a uid the reference would be void."""
    foo = thing("Foo", "web")
    del foo["metadata"]["uid"]
    with pytest.raises(ConfigError, match="bad owner: it has no uid"):
        set_controller_reference(foo, thing("Pod", "web-0"))


def test_the_controller_of_an_object_is_the_one_reference_that_says_so() -> None:
    """As a copy; an owner that is no controller is none, nor is any of an object without owners."""
    pod, foo = thing("Pod", "web-0"), thing("Foo", "web")
    assert controller_of(pod) is None
    pod["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "a"}]
    assert controller_of(pod) is None
    set_controller_reference(foo, pod)
    found = controller_of(pod)
    assert found is not None
    assert found == pod["metadata"]["ownerReferences"][1]
    assert found["uid"] == "uid-web"
    found["uid"] = "another"
    assert owned_by(pod, foo)
    assert controller_of({"metadata": {"ownerReferences": None}}) is None
    assert controller_of({}) is None


def test_finalizers_are_added_and_removed_once() -> None:
    """Both say whether they changed anything, and leave the others alone."""
    foo = thing("Foo", "web", finalizers=["other"])
    assert [add_finalizer(foo, "mine"), add_finalizer(foo, "mine")] == [True, False]
    assert foo["metadata"]["finalizers"] == ["other", "mine"]
    assert [remove_finalizer(foo, "mine"), remove_finalizer(foo, "mine")] == [True, False]
    assert foo["metadata"]["finalizers"] == ["other"]


def test_an_object_is_owned_by_its_controller_alone() -> None:
    """Neither by an owner that does not control it, nor by an earlier one of the same name."""
    foo, other, pod = thing("Foo", "web"), thing("Foo", "other"), thing("Pod", "web-0")
    assert not owned_by(pod, foo)
    set_controller_reference(foo, pod)
    assert owned_by(pod, foo)
    pod["metadata"]["ownerReferences"].append(
        {"apiVersion": "example.com/v1", "kind": "Foo", "name": "other", "uid": "uid-other"}
    )
    assert not owned_by(pod, other)
    assert not owned_by(pod, thing("Foo", "web", uid="uid-anew"))


def test_an_owner_without_a_uid_owns_nothing() -> None:
    """It was never created: to ask is a mistake, and an error."""
    foo = thing("Foo", "web")
    del foo["metadata"]["uid"]
    with pytest.raises(ConfigError, match="bad owner: it has no uid"):
        owned_by(thing("Pod", "web-0"), foo)
