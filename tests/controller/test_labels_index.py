"""With an index by labels a cached read asks Redis for fewer objects, and shows the same."""

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from distq.client.objects import Object
from distq.informer import meta_labels_index_func
from distq.redisio import limits, object_cache, scripts
from distq.workqueue.queue import Queue
from tests.controller.caching import CONFIG_MAPS, EMULATED, ON_TWO_SERVERS, cached, lister, names
from tests.controller.leading import QUEUE, Scene
from tests.controller.test_cache_lister import controller_of, managing
from tests.informer import labelled
from tests.support.eventually import eventually
from tests.support.samples import config_map

INDEXED: dict[str, Any] = {"indexers": {"labels": meta_labels_index_func}}
PLAIN: dict[str, Any] = {"indexers": {}}


def write(scene: Scene, name: str, labels: dict[str, str] | None, namespace: str = "", **data: str) -> None:
    """Create a ConfigMap with labels."""
    obj = config_map(namespace or scene.namespace, name, **data)
    obj["metadata"]["labels"] = labels
    scene.leader().client.create(obj)


@contextmanager
def rows_read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Note the names of the objects that come from Redis."""
    found, rows = object_cache.object_of, list[str]()

    def noted(name: bytes, record: bytes | None) -> Any:
        rows.append(name.decode().rpartition("/")[2])
        return found(name, record)

    with monkeypatch.context() as patch:
        patch.setattr(object_cache, "object_of", noted)
        yield rows


@ON_TWO_SERVERS
def test_a_list_shows_the_same_with_the_index_and_without(scene: Scene) -> None:
    """For any labels and selector, in all namespaces and in one, also for ``async def``."""
    chance, other = random.Random(1), f"{scene.namespace}-other"
    scene.leader().client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}})
    namespaces = [scene.namespace, other]
    for number in range(40):
        write(scene, f"{number}", labelled.labels(chance), chance.choice(namespaces))
    watch = cached(scene, namespaces=namespaces, **INDEXED)
    scanning, indexed = (
        lister(scene, cached(scene, namespaces=namespaces, **each)) for each in (PLAIN, INDEXED)
    )
    controller = controller_of(watch, queue=Queue(QUEUE, scene.connection))
    with managing(scene, controller, workers=False):
        for _ in range(150):
            namespace, selector = chance.choice([None, *namespaces]), labelled.selector(chance)
            expected = names(scanning.list(namespace, label_selector=selector))
            assert names(indexed.list(namespace, label_selector=selector)) == expected, selector
            awaited = asyncio.run(indexed.aio.list(namespace, label_selector=selector))
            assert names(awaited) == expected


@EMULATED
def test_a_list_by_labels_asks_redis_for_no_other_objects(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one round trip, of a namespace its own alone; a selector that requires no label reads all."""
    for name, app in (("a", "web"), ("b", "db"), ("c", "api"), ("d", "web")):
        write(scene, name, {"app": app, "tier": "back" if name == "d" else "front"})
    reader = lister(scene, cached(scene, **INDEXED))
    with scene.leading(cached(scene, **INDEXED)):
        reader.list()
        evaluate, reads, sha = scene.connection.evaluate, list[str](), scripts.load("cache/read").sha

        def counted(
            source: str, its_sha: str, arguments: Any, *meanwhile: Any
        ) -> Any:  # the leader has the connection, too
            reads.extend([its_sha] if its_sha == sha else [])
            return evaluate(source, its_sha, arguments, *meanwhile)

        with rows_read(monkeypatch) as rows, monkeypatch.context() as patch:
            patch.setattr(scene.connection, "evaluate", counted)
            for selector, namespace, found, read in (
                ("app=web,tier!=back", None, {"a"}, {"a", "d"}),
                ("app in (db,api)", scene.namespace, {"b", "c"}, {"b", "c"}),
                ({"app": "web"}, None, {"a", "d"}, {"a", "d"}),
                ("app=none", None, set(), set()),
                ("app!=web", scene.namespace, {"b", "c"}, set("abcd")),
            ):
                assert names(reader.list(namespace, label_selector=selector)) == found
                assert set(rows) == read
                assert len(reads) == 1
                rows.clear()
                reads.clear()


def unless_bad(obj: Object) -> Object:
    """Fail on an object of that name."""
    assert obj["metadata"]["name"] != "bad"
    return obj


@EMULATED
def test_an_object_whose_labels_no_index_can_have_is_listed(scene: Scene) -> None:
    """Too many labels, a transform that fails, an object too large, another index that takes too much."""

    def by_text(obj: Object) -> list[str]:
        return [f"{number:01100}" for number in range(limits.INDEX_VALUES)] if "text" in obj["data"] else []

    many = {f"label-{number}": "x" for number in range(limits.INDEX_VALUES)}
    write(scene, "many", {**many, "app": "web"})
    write(scene, "bad", {"app": "web"})
    write(scene, "large", {"app": "web"}, large="x" * (limits.CACHED_LIMIT + 1))
    write(scene, "texts", {"app": "web"}, text="x")
    write(scene, "good", {"app": "web"})
    write(scene, "other", {"app": "db"})
    write(scene, "none", None)
    watch = cached(scene, transform=unless_bad, indexers={**INDEXED["indexers"], "text": by_text})
    reader = lister(scene, watch)
    with scene.leading(watch):
        whole = {"many", "bad", "large", "texts", "good"}
        assert names(reader.list(label_selector="app=web")) == whole
        assert names(reader.list(scene.namespace, label_selector="app in (db,web)")) == whole | {"other"}
        assert names(reader.by_index("labels", "app=web")) == {"large", "good"}


@EMULATED
@pytest.mark.parametrize("before", [PLAIN, {"indexers": {"labels": lambda _: []}}])
def test_a_list_reads_all_while_the_leader_has_no_such_index(scene: Scene, before: Any) -> None:
    """The leader is of another release: the list is the same, and waits for nothing."""
    write(scene, "a", {"app": "web"})
    write(scene, "b", {"app": "db"})
    reader = lister(scene, cached(scene, **INDEXED), timeout=0.1)
    with scene.leading(cached(scene, **before)):
        assert names(reader.list(label_selector="app=web")) == {"a"}
    with scene.leading(cached(scene, **INDEXED), epoch="2"):
        assert names(reader.list(label_selector="app=web")) == {"a"}


@EMULATED
def test_labels_that_change_are_found_anew(scene: Scene) -> None:
    """Under the new value alone, as soon as the event is in the cache."""
    watch = cached(scene, **INDEXED)
    reader = lister(scene, watch)
    write(scene, "a", {"app": "web"})
    with scene.leading(watch):
        assert names(reader.list(label_selector="app=web")) == {"a"}
        scene.leader().client.patch(CONFIG_MAPS, scene.key("a"), {"metadata": {"labels": {"app": "db"}}})
        eventually(lambda: names(reader.list(label_selector="app=db")) == {"a"})
        assert reader.list(label_selector="app=web") == []
