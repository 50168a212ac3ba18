"""A cache whose objects grow old (client-go tools/cache NewTTLStore)."""

import pytest

from distq.informer import ExpirationCache
from distq.testing.fake_clock import FakeClock
from tests.informer.pods import pod


@pytest.fixture
def clock() -> FakeClock:
    """Give a clock that the test steps."""
    return FakeClock()


@pytest.mark.conformance("EX-01")
def test_an_object_expires_when_it_is_older_than_the_ttl(clock: FakeClock) -> None:
    """At the ttl it is still there, after it a look does not find it."""
    cache = ExpirationCache(10, clock=clock)
    cache.add(pod("a", 1))
    clock.step(10)
    assert cache.get_by_key("prod/a") == cache.get(pod("a")) == pod("a", 1)
    clock.step(0.001)
    assert cache.list_keys() == ["prod/a"]
    assert cache.get_by_key("prod/a") is None
    assert cache.list_keys() == []


@pytest.mark.conformance("EX-01")
def test_an_object_put_in_again_is_young_again(clock: FakeClock) -> None:
    """By an update and a replace, too."""
    cache = ExpirationCache(10, clock=clock)
    cache.add(pod("a", 1))
    cache.add(pod("b", 1))
    clock.step(8)
    cache.update(pod("a", 2))
    clock.step(8)
    assert cache.list() == [pod("a", 2)]
    cache.replace([pod("c", 3)])
    clock.step(8)
    assert cache.list() == [pod("c", 3)]
    cache.delete(pod("c"))
    assert cache.list() == []


@pytest.mark.conformance("EX-01")
@pytest.mark.parametrize("ttl", [0, -1])
def test_without_a_ttl_nothing_expires(clock: FakeClock, ttl: float) -> None:
    """Zero and less mean never."""
    cache = ExpirationCache(ttl, clock=clock)
    cache.add(pod("a", 1))
    clock.step(1e9)
    assert cache.list() == [pod("a", 1)]
