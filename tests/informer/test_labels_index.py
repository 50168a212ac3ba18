"""With an index by labels a lister looks at fewer objects, and shows the same."""

import random
from collections.abc import Mapping
from typing import Any

import pytest

from distq.errors import ConfigError
from distq.informer import NAMESPACE_INDEX, Lister, meta_labels_index_func, meta_namespace_index_func
from distq.informer.indexer import Indexer, IndexFunc
from distq.informer.lister import IndexerLister
from distq.informer.selectors import FEW_PAIRS, label_pairs
from distq.informer.stored_object import StoredObject
from distq.testing import FakeListWatch
from tests.informer import labelled
from tests.informer.pods import Run, Start, names, pod
from tests.support.eventually import eventually

LABELS: Mapping[str, IndexFunc] = {"labels": meta_labels_index_func}
BOTH: Mapping[str, IndexFunc] = {NAMESPACE_INDEX: meta_namespace_index_func, **LABELS}


def keys(lister: Lister, namespace: str | None, selector: Any) -> list[str]:
    """Return the keys of what a list shows."""
    found = [obj["metadata"] for obj in lister.list(namespace, label_selector=selector)]
    return sorted(f"{about.get('namespace', '')}/{about['name']}" for about in found)


@pytest.mark.parametrize("seed", range(20))
def test_a_list_shows_the_same_with_the_index_and_without(seed: int) -> None:
    """For any labels and selector, in all namespaces and in one, after changes and deletions."""
    chance = random.Random(seed)
    indexers = [Indexer(each) for each in ({}, LABELS, BOTH)]
    for step in range(60):
        obj = pod(f"{chance.choice(['prod', 'dev'])}/{chance.randrange(20)}", step)
        obj["metadata"]["labels"] = labelled.labels(chance)
        for indexer in indexers:
            indexer.delete(obj) if step % 5 == 4 else indexer.add(obj)
    scanning, *indexed = map(IndexerLister, indexers)
    for _ in range(50):
        namespace, selector = chance.choice([None, "prod", "dev", "none"]), labelled.selector(chance)
        for lister in indexed:
            assert keys(lister, namespace, selector) == keys(scanning, namespace, selector), selector


@pytest.mark.parametrize("selector", [None, "", {}])
def test_no_selector_selects_all(selector: Any) -> None:
    """With the index and without."""
    for indexers in ({}, LABELS, BOTH):
        indexer = Indexer(indexers)
        indexer.add(pod("a", app="web"))
        indexer.add(pod("dev/b"))
        assert len(keys(IndexerLister(indexer), None, selector)) == 2


@pytest.mark.parametrize(
    ("selector", "pairs"),
    [
        ("app=web", ["app=web"]),
        ("tier!=db,!canary,x.y/app == web", ["x.y/app=web"]),
        ("app in (web, db),tier=", ["tier="]),
        ("app in (web, db),size>2", ["app=db", "app=web"]),
        ({"app": "web", "tier": "db"}, ["app=web"]),
        (f"app in ({','.join(map(str, range(FEW_PAIRS)))}),tier=db", ["tier=db"]),
        ({}, []),
        *((each, []) for each in ("", "app", "!app", "app!=web", "app notin (web)", "size>2")),
        (f"app in ({','.join(map(str, range(FEW_PAIRS + 1)))})", []),
    ],
)
def test_a_selector_says_which_labels_to_look_for(selector: str | dict[str, str], pairs: list[str]) -> None:
    """Those of the requirement with the fewest values; none where it has no such requirement, or too many."""
    assert sorted(label_pairs(selector)) == pairs


def test_a_list_looks_only_at_objects_that_have_a_label_of_the_selector(
    source: FakeListWatch, make: Start, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A SharedInformer's, in all namespaces or in one."""
    for name, app in (("prod/a", "web"), ("dev/b", "web"), ("prod/c", "db"), ("prod/d", "web")):
        source.add(pod(name, app=app, tier="back" if name == "prod/d" else "front"))
    informer = make(indexers=LABELS)
    run(informer, synced=True)
    looked_at: list[str] = []
    metadata = StoredObject.metadata

    def noted(stored: StoredObject) -> object:
        looked_at.append(stored.key)
        return metadata(stored)

    monkeypatch.setattr(StoredObject, "metadata", noted)
    assert names(informer.lister.list(label_selector="app=web,tier=front")) == ["a", "b"]
    assert sorted(looked_at) == ["dev/b", "prod/a", "prod/d"]
    looked_at.clear()
    assert names(informer.lister.list("dev", label_selector={"app": "web"})) == ["b"]
    assert looked_at == ["dev/b"]
    with pytest.raises(ConfigError, match="bad label selector"):
        informer.lister.list(label_selector="app=web,~")


def test_labels_that_change_are_found_anew(source: FakeListWatch, make: Start, run: Run) -> None:
    """Under the new value alone; ``by_index`` has each label as ``key=value``."""
    source.add(pod("a", app="web"))
    informer = make(indexers=LABELS)
    run(informer, synced=True)
    source.modify(pod("a", app="db"))
    eventually(lambda: names(informer.lister.list(label_selector="app=db")) == ["a"])
    assert informer.lister.list(label_selector="app=web") == []
    assert names(informer.lister.by_index("labels", "app=db")) == ["a"]
