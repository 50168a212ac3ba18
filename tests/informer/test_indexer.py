"""The cache with its indices, and how it is read (client-go tools/cache Indexer, listers)."""

import threading
from collections.abc import Callable

import msgspec
import pytest

from distq.client import Object
from distq.client.resources import Resource
from distq.errors import ConfigError
from distq.informer.indexer import NAMESPACE_INDEX, Indexer, meta_namespace_index_func
from distq.informer.lister import IndexerLister
from distq.informer.stored_object import store_raw, strip_managed_fields
from distq.informer.wire import decode_page
from tests.informer.pods import pod


def _by_app(obj: Object) -> list[str]:
    app = obj["metadata"]["labels"].get("app", "")
    return app.split("+") if app else []


@pytest.fixture
def indexer() -> Indexer:
    """Give a cache with an index by the label app, which may name several joined by +."""
    return Indexer({"app": _by_app})


def _names(objects: list[Object]) -> list[str]:
    return sorted(obj["metadata"]["name"] for obj in objects)


@pytest.mark.conformance("IX-01", "IX-10")
def test_an_added_object_is_there_until_it_is_deleted(indexer: Indexer) -> None:
    """Add, update, get, list, replace, delete."""
    indexer.add(pod("a", 1))
    indexer.update(pod("a", 2))
    indexer.add(pod("b", 3))
    assert indexer.get_by_key("prod/a") == indexer.get(pod("a")) == pod("a", 2)
    assert sorted(indexer.list_keys()) == ["prod/a", "prod/b"]
    indexer.delete(pod("a"))
    assert indexer.get_by_key("prod/a") is None
    indexer.replace([pod("c", 7)], "9")
    assert _names(indexer.list()) == ["c"]
    assert len(indexer) == 1


@pytest.mark.conformance("IX-01")
def test_an_object_without_a_name_is_refused(indexer: Indexer) -> None:
    """It has no key; the kept objects stay."""
    indexer.add(pod("a", 1))
    nameless: list[Object] = [{}, *({"metadata": bad} for bad in ({}, {"namespace": "prod"}, {"name": 7}))]
    for obj in nameless:
        with pytest.raises(ValueError, match=r"no metadata\.name"):
            indexer.add(obj)
    assert indexer.list_keys() == ["prod/a"]


@pytest.mark.conformance("IX-02", "IX-03")
def test_an_index_finds_objects_by_each_of_their_values(indexer: Indexer) -> None:
    """Also after an update changed them; a value without objects is gone."""
    indexer.add(pod("a", 1, app="web+db"))
    indexer.add(pod("b", 2, app="web"))
    assert _names(indexer.by_index("app", "web")) == ["a", "b"]
    assert indexer.index_keys("app", "web") == ["prod/a", "prod/b"]
    assert _names(indexer.index("app", pod("new", app="db"))) == ["a"]
    indexer.update(pod("a", 3, app="cache"))
    assert sorted(indexer.list_index_func_values("app")) == ["cache", "web"]
    indexer.delete(pod("b"))
    assert indexer.list_index_func_values("app") == ["cache"]
    assert indexer.by_index("app", "web") == []


@pytest.mark.conformance("IX-02", "IX-06")
def test_a_replace_builds_the_indices_anew(indexer: Indexer) -> None:
    """Nothing of the old objects is found."""
    indexer.add(pod("a", 1, app="web"))
    indexer.replace([pod("b", 2, app="db")], "5")
    assert indexer.list_index_func_values("app") == ["db"]
    assert indexer.last_store_sync_resource_version == "5"


@pytest.mark.conformance("IX-03")
def test_an_unknown_index_is_named(indexer: Indexer) -> None:
    """And those that there are."""
    for ask in (
        lambda: indexer.by_index("node", "n1"),
        lambda: indexer.index_keys("node", "n1"),
        lambda: indexer.list_index_func_values("node"),
        lambda: indexer.index("node", pod("a")),
    ):
        with pytest.raises(ConfigError, match=r'no index "node" \(has: app'):
            ask()


@pytest.mark.conformance("IX-04")
def test_an_index_may_be_added_over_kept_objects(indexer: Indexer) -> None:
    """Its name must be new."""
    indexer.add(pod("a", 1))
    indexer.add(pod("dev/b", 2))
    indexer.add_indexers({NAMESPACE_INDEX: meta_namespace_index_func})
    assert _names(indexer.by_index(NAMESPACE_INDEX, "dev")) == ["b"]
    with pytest.raises(ConfigError, match="indexer conflict: app"):
        indexer.add_indexers({"app": _by_app, "new": _by_app})
    assert sorted(indexer.get_indexers()) == ["app", NAMESPACE_INDEX]


@pytest.mark.conformance("IX-05")
def test_an_index_function_that_fails_changes_nothing(indexer: Indexer) -> None:
    """The caller's error names the index and the object."""
    indexer.add(pod("a", 1, app="web"))
    broken = pod("a", 2)
    broken["metadata"]["labels"] = None
    with pytest.raises(ValueError, match="index app: no values of prod/a"):
        indexer.update(broken)
    with pytest.raises(ValueError, match="index app"):
        indexer.replace([pod("b", 3), broken])
    assert indexer.list() == [pod("a", 1, app="web")]
    assert _names(indexer.by_index("app", "web")) == ["a"]


def test_an_index_function_that_returns_one_text_fails(indexer: Indexer) -> None:
    """Its letters would be the values, and nothing would be found."""
    indexer.add_indexers({"name": lambda obj: obj["metadata"]["name"]})
    with pytest.raises(ValueError, match=r"no values of prod/ab: TypeError: .* the text 'ab'; return a list"):
        indexer.add(pod("ab", 1))
    assert indexer.list() == []
    with pytest.raises(TypeError, match="return a list of values"):
        indexer.index("name", pod("ab", 1))


def test_an_index_function_may_change_its_mind() -> None:
    """A deleted object is found nowhere, also if the function no longer returns its old values."""
    values = ["old"]
    indexer = Indexer({"mood": lambda _: values})
    indexer.add(pod("a", 1))
    indexer.add(pod("b", 1))
    values = ["new"]
    indexer.delete(pod("a", 2))
    assert _names(indexer.by_index("mood", "old")) == ["b"]
    values = ["old"]
    assert _names(indexer.index("mood", pod("c", 1))) == ["b"]


@pytest.mark.conformance("IX-07")
def test_the_cache_has_the_version_applied_last(indexer: Indexer) -> None:
    """Of the last change, not the highest; a deletion without a version leaves it."""
    versions = [indexer.last_store_sync_resource_version]
    changes: list[Callable[[], None]] = [
        lambda: indexer.add(pod("a", 7)),
        lambda: indexer.update(pod("a", 5)),
        lambda: indexer.delete(pod("a", 9)),
        lambda: indexer.delete(pod("b")),
        lambda: indexer.replace([pod("a", 3)], "11"),
    ]
    for change in changes:
        change()
        versions.append(indexer.last_store_sync_resource_version)
    assert versions == ["", "7", "5", "9", "9", "11"]


@pytest.mark.conformance("IX-09", "SI-16")
def test_a_caller_cannot_change_the_cache_through_its_objects(indexer: Indexer) -> None:
    """Each look decodes anew."""
    mine = pod("a", 1, app="web")
    indexer.add(mine)
    mine["metadata"]["labels"]["app"] = "changed"
    indexer.list()[0]["metadata"]["labels"]["app"] = "changed"
    assert indexer.get_by_key("prod/a") == pod("a", 1, app="web")


@pytest.mark.conformance("IX-08")
def test_threads_may_change_and_read_at_once(indexer: Indexer) -> None:
    """Index and objects fit together at every moment."""
    stop = threading.Event()

    def write(name: str) -> None:
        for version in range(300):
            indexer.update(pod(name, version, app=f"app{version % 3}"))
            if version % 5 == 0:
                indexer.delete(pod(name))
        stop.set()

    threads = [threading.Thread(target=write, args=(f"pod-{n}",)) for n in range(3)]
    for thread in threads:
        thread.start()
    while not stop.is_set():
        for value in indexer.list_index_func_values("app"):
            assert all(obj["metadata"]["labels"]["app"] in value for obj in indexer.by_index("app", value))
    for thread in threads:
        thread.join()


@pytest.mark.conformance("LI-01")
@pytest.mark.parametrize("indexers", [{}, {NAMESPACE_INDEX: meta_namespace_index_func}])
def test_a_lister_lists_by_namespace_and_labels(indexers: dict[str, object]) -> None:
    """With the index by namespace or without."""
    indexer = Indexer(indexers)  # type: ignore[arg-type]  # a parameter of both kinds
    for each in (pod("a", 1, app="web"), pod("b", 2, app="db"), pod("dev/a", 3, app="web")):
        indexer.add(each)
    lister = IndexerLister(indexer)
    assert lister.get("dev/a") == pod("dev/a", 3, app="web")
    assert lister.get("dev/b") is None
    assert len(lister.list()) == 3
    assert _names(lister.list("prod")) == ["a", "b"]
    assert _names(lister.list("prod", label_selector="app in (web),!canary")) == ["a"]
    assert _names(lister.list(label_selector={"app": "db"})) == ["b"]
    assert lister.list("absent") == []
    with pytest.raises(ConfigError, match="bad label selector"):
        lister.list(label_selector="app ~ web")


def _raw(items: str) -> bytes:
    return b'{"metadata":{"resourceVersion":"9"},"items":[' + items.encode() + b"]}"


@pytest.mark.parametrize(
    "metadata",
    [
        '{"managedFields":[{"manager":"x"}],"name":"a","resourceVersion":"7"}',
        '{"name":"a","managedFields":[{"manager":"x"}],"resourceVersion":"7"}',
        '{"name":"a","resourceVersion":"7","managedFields":[{"manager":"x"}]}',
        '{"name":"a","resourceVersion":"7"}',
        '{"annotations":{"last":"{\\"managedFields\\":[{\\"manager\\":\\"x\\"}]}"},"name":"a",'
        '"resourceVersion":"7","managedFields":[{"manager":"x"}]}',
    ],
)
def test_managed_fields_are_cut_out_and_nothing_else(metadata: str) -> None:
    """In any place among the metadata; equal names elsewhere stay."""
    whole = f'{{"spec":{{"managedFields":[{{"manager":"x"}}]}},"metadata":{metadata}}}'
    (obj,) = decode_page(_raw(whole), Resource("v1", "Pod", "pods", namespaced=True)).objects
    kept = store_raw(obj, strip_managed_fields).decode()
    expected = msgspec.json.decode(whole)
    expected["metadata"].pop("managedFields", None)
    assert kept == {"apiVersion": "v1", "kind": "Pod", **expected}
    assert store_raw(obj, None).decode()["metadata"] == msgspec.json.decode(metadata)
