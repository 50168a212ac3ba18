"""One's own writes over a cache that does not have them yet (client-go tools/cache MutationCache)."""

from typing import Any

import pytest

from distq.client import Object
from distq.informer import DeletedFinalStateUnknown, Indexer, MutationCache
from distq.informer.mutation_cache import CAPACITY
from distq.testing.fake_clock import FakeClock
from tests.informer.pods import pod


def _app(obj: Object) -> list[str]:
    return [obj["metadata"]["labels"].get("app", "")]


@pytest.fixture
def indexer() -> Indexer:
    """Give the cache below."""
    return Indexer({"app": _app})


@pytest.fixture
def clock() -> FakeClock:
    """Give a clock that the test steps."""
    return FakeClock()


def _cache(indexer: Indexer, clock: FakeClock, **options: Any) -> MutationCache:
    return MutationCache(indexer, clock=clock, **options)


def _pod(name: str, version: int, uid: str = "u1", **labels: str) -> Object:
    obj = pod(name, version, **labels)
    obj["metadata"]["uid"] = uid
    return obj


@pytest.mark.conformance("MU-01")
def test_the_newer_of_cache_and_write_is_read(indexer: Indexer, clock: FakeClock) -> None:
    """Whichever it is; versions compare as numbers."""
    cache = _cache(indexer, clock)
    indexer.add(_pod("a", 9))
    cache.mutation(_pod("a", 10))
    assert cache.get_by_key("prod/a") == _pod("a", 10)
    cache.mutation(_pod("a", 8))
    assert cache.get_by_key("prod/a") == _pod("a", 10)
    indexer.update(_pod("a", 11))
    assert cache.get_by_key("prod/a") == _pod("a", 11)


@pytest.mark.conformance("MU-01")
def test_an_index_shows_a_write(indexer: Indexer, clock: FakeClock) -> None:
    """Also that an object left a value; the index is the cache's own, and need not be given again."""
    cache = _cache(indexer, clock, include_adds=True)
    indexer.add(_pod("a", 1, app="web"))
    cache.mutation(_pod("a", 2, app="db"))
    cache.mutation(_pod("new", 3, app="web"))
    assert cache.by_index("app", "web") == [_pod("new", 3, app="web")]
    assert cache.by_index("app", "db") == [_pod("a", 2, app="db")]


def test_an_index_shows_a_write_to_a_cached_object_without_include_adds(
    indexer: Indexer, clock: FakeClock
) -> None:
    """Under its new value, and no longer under the old one."""
    cache = _cache(indexer, clock)
    indexer.add(_pod("a", 1, app="web"))
    cache.mutation(_pod("a", 2, app="db"))
    assert cache.by_index("app", "db") == [_pod("a", 2, app="db")]
    assert cache.by_index("app", "web") == []


@pytest.mark.conformance("MU-01")
def test_created_objects_are_there_only_if_asked_for(indexer: Indexer, clock: FakeClock) -> None:
    """Without, an object that the cache does not have may have been deleted."""
    for include_adds in (False, True):
        cache = _cache(indexer, clock, include_adds=include_adds)
        cache.mutation(_pod("new", 3, app="web"))
        assert (cache.get_by_key("prod/new") is not None) is include_adds
        assert (cache.by_index("app", "web") != []) is include_adds


@pytest.mark.conformance("MU-01")
@pytest.mark.parametrize(("heard", "stays"), [(9, True), (10, False), (11, False)])
def test_a_write_is_forgotten_once_the_cache_has_it(
    indexer: Indexer, clock: FakeClock, heard: int, stays: bool
) -> None:
    """Or something newer; older news leaves it."""
    cache = _cache(indexer, clock, include_adds=True)
    cache.mutation(_pod("a", 10))
    cache.on_add_or_update(_pod("a", heard))
    assert (cache.get_by_key("prod/a") is not None) is stays


@pytest.mark.conformance("MU-01")
def test_a_write_that_is_answered_after_the_deletion_is_ignored(indexer: Indexer, clock: FakeClock) -> None:
    """The object does not come to life again; one of the same name that is created later does."""
    cache = _cache(indexer, clock, include_adds=True)
    cache.mutation(_pod("a", 10))
    cache.on_delete(_pod("a", 12))
    cache.mutation(_pod("a", 11))
    assert cache.get_by_key("prod/a") is None
    cache.mutation(_pod("a", 13, uid="u2"))
    cache.on_delete(_pod("a", 12))
    assert cache.get_by_key("prod/a") == _pod("a", 13, uid="u2")


@pytest.mark.conformance("MU-01")
def test_a_missed_deletion_counts_though_its_state_is_old(indexer: Indexer, clock: FakeClock) -> None:
    """The uid shows that it is the object that was written, also by a write whose answer comes later."""
    cache = _cache(indexer, clock, include_adds=True)
    cache.mutation(_pod("a", 10))
    cache.on_delete(DeletedFinalStateUnknown("prod/a", _pod("a", 5)))
    assert cache.get_by_key("prod/a") is None
    cache.mutation(_pod("a", 11))
    assert cache.get_by_key("prod/a") is None
    cache.mutation(_pod("a", 14, uid="u2"))
    assert cache.get_by_key("prod/a") == _pod("a", 14, uid="u2")


@pytest.mark.conformance("MU-01")
def test_a_write_is_remembered_for_a_while_and_not_too_many(indexer: Indexer, clock: FakeClock) -> None:
    """The ttl passes, or others push it out."""
    cache = _cache(indexer, clock, include_adds=True, ttl=10)
    cache.mutation(_pod("a", 1))
    clock.step(10.1)
    assert cache.get_by_key("prod/a") is None
    for number in range(CAPACITY + 1):
        cache.mutation(_pod(f"p{number}", number))
    assert cache.get_by_key("prod/p0") is None
    assert cache.get_by_key("prod/p1") is not None


def test_deletions_of_the_objects_of_others_push_no_write_out(indexer: Indexer, clock: FakeClock) -> None:
    """Also many of them: as when a node is drained."""
    cache = _cache(indexer, clock)
    indexer.add(_pod("a", 1))
    cache.mutation(_pod("a", 2))
    for number in range(2 * CAPACITY):
        cache.on_delete(_pod(f"p{number}", 10 + number, uid=f"p{number}"))
    assert cache.get_by_key("prod/a") == _pod("a", 2)
