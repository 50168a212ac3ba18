"""Informers that are shared and run together, and callers that wait for their caches."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from distq.client import Client, Object
from distq.errors import ConfigError, ShutDown
from distq.informer import ListWatch, SharedInformer, SharedInformerFactory, wait_for_cache_sync
from distq.testing import FakeClock, FakeListWatch
from tests.informer.pods import Notes, pod
from tests.support.api_servers import ApiServer
from tests.support.eventually import eventually

Make = Callable[..., SharedInformerFactory]


@pytest.fixture
def make(source: FakeListWatch) -> Iterator[Make]:
    """Give a maker of factories whose informers follow the source; they are shut down at the end."""
    factories = []

    def factory(**options: Any) -> SharedInformerFactory:
        options.setdefault("new_list_watch", lambda *_, **__: source)
        factories.append(SharedInformerFactory(Client("/nowhere"), **options))
        return factories[-1]

    yield factory
    for each in factories:
        each.shut_down()


def _name(obj: Object) -> list[str]:
    return [obj["metadata"]["name"]]


def _labelled(obj: Object) -> Object:
    obj["metadata"]["labels"] = {"seen": "yes"}
    return obj


def _unlabelled(obj: Object) -> Object:
    obj["metadata"]["labels"] = {}
    return obj


def test_a_factory_follows_an_api_server(api_server: ApiServer) -> None:
    """The one informer of a resource shows what is there, and ends with the factory."""
    factory = SharedInformerFactory(api_server.client())
    namespaces = factory.for_resource("v1/Namespace")
    assert factory.for_resource("v1/Namespace") is namespaces
    assert factory.for_resource("v1/Namespace", metadata_only=True) is not namespaces
    factory.start()
    assert factory.wait_for_cache_sync(timeout=30)
    assert namespaces.lister.get("default") is not None
    factory.shut_down()
    assert namespaces.stopped


def test_a_factory_needs_no_api_server_in_tests(make: Make, source: FakeListWatch) -> None:
    """A function of the test makes what its informers follow, and receives resource and selectors."""
    asked: list[dict[str, Any]] = []

    def fake(client: Client, resource: str, **narrowing: Any) -> FakeListWatch:
        asked.append({"resource": resource, **narrowing})
        return source

    source.add(pod("a"))
    factory = make(namespace="prod", new_list_watch=fake)
    informer = factory.for_resource("v1/Pod", label_selector="app=web")
    assert factory.for_resource("v1/Pod", label_selector="app=web") is informer
    factory.start()
    assert factory.wait_for_cache_sync()
    assert informer.lister.get("prod/a") is not None
    assert asked == [
        {
            "resource": "v1/Pod",
            "namespace": "prod",
            "label_selector": "app=web",
            "field_selector": "",
            "metadata_only": False,
        }
    ]


def test_a_factory_refuses_a_text_that_is_no_resource(make: Make) -> None:
    """When it is asked for, and not in a hidden thread."""
    with pytest.raises(ConfigError, match='bad resource "Pod"'):
        make(new_list_watch=ListWatch).for_resource("Pod")


def test_an_informer_that_was_refused_does_not_run(make: Make, source: FakeListWatch) -> None:
    """A caller that got an error has no informer, and the API server is not asked for one."""
    factory = make()
    with pytest.raises(ConfigError, match="indexer conflict: namespace"):
        factory.for_resource("v1/Pod", indexers={"namespace": lambda _: []})
    factory.start()
    assert factory.wait_for_cache_sync(timeout=30)
    factory.shut_down()
    assert source.asked == []


@pytest.mark.conformance("IX-04")
def test_a_later_caller_may_add_indices(make: Make, source: FakeListWatch) -> None:
    """Also when the informer runs; the same one again is no conflict, another of its name is."""
    source.add(pod("a"))
    factory = make()
    informer = factory.for_resource("v1/Pod", indexers={"name": _name})
    factory.start()
    assert factory.wait_for_cache_sync()
    factory.for_resource("v1/Pod", indexers={"name": _name, "upper": lambda obj: [_name(obj)[0].upper()]})
    for index, value in ("name", "a"), ("upper", "A"):
        assert [_name(found) for found in informer.lister.by_index(index, value)] == [["a"]]
    with pytest.raises(ConfigError, match="indexer conflict: name"):
        factory.for_resource("v1/Pod", indexers={"name": lambda _: []})
    factory.shut_down()
    assert factory.for_resource("v1/Pod", indexers={"name": _name}) is informer
    with pytest.raises(ShutDown, match="indices not added"):
        informer.add_indexers({"more": _name})


def test_an_informer_has_one_transform_and_one_error_handler(make: Make, source: FakeListWatch) -> None:
    """The first caller's, or the factory's; a caller with another is refused, and one without takes it."""
    source.add(pod("a"))
    factory = make(transform=_unlabelled)
    informer = factory.for_resource("v1/Pod", transform=_labelled, on_watch_error=print)
    assert factory.for_resource("v1/Pod") is informer
    assert factory.for_resource("v1/Pod", transform=_labelled, on_watch_error=print) is informer
    for other in {"transform": _unlabelled}, {"on_watch_error": repr}:
        with pytest.raises(ConfigError, match=rf"bad {next(iter(other))} of v1/Pod: .* made with another"):
            factory.for_resource("v1/Pod", **other)
    plain = factory.for_resource("v1/Pod", label_selector="app")
    assert factory.for_resource("v1/Pod", label_selector="app", transform=_unlabelled) is plain
    factory.start()
    assert factory.wait_for_cache_sync()
    for each, labels in (informer, {"seen": "yes"}), (plain, {}):
        assert [obj["metadata"]["labels"] for obj in each.lister.list()] == [labels]


def test_only_started_informers_are_waited_for(make: Make) -> None:
    """An informer that is asked for later runs, and is waited for, after the next start."""
    factory = make()
    factory.for_resource("v1/Pod")
    factory.start()
    late = factory.for_resource("v1/Pod", label_selector="app=web")
    assert factory.wait_for_cache_sync()
    assert not late.has_synced()
    factory.start()
    assert factory.wait_for_cache_sync()
    assert late.has_synced()


def test_waiting_for_caches_ends_at_a_stop(make: Make, source: FakeListWatch) -> None:
    """So that a SIGTERM before the first list ends the program."""
    source.unreachable = True
    factory = make()
    informer = factory.for_resource("v1/Pod")
    factory.start()
    eventually(lambda: source.asked)
    stop = threading.Event()
    threading.Timer(0.1, stop.set).start()
    assert not factory.wait_for_cache_sync(stop)
    assert not wait_for_cache_sync(informer.has_synced, stop=stop)
    assert not wait_for_cache_sync(lambda: False, stop=stop)


def test_waiting_for_the_cache_of_an_informer_that_has_ended_ends(make: Make, source: FakeListWatch) -> None:
    """However it ended, and however it was asked; so for its handlers, and those that were removed."""
    source.unreachable = True
    factory = make()
    informer = factory.for_resource("v1/Pod")
    handler, removed = informer.add_event_handler(Notes()), informer.add_event_handler(Notes())
    factory.start()
    informer.remove_event_handler(removed)
    assert not wait_for_cache_sync(removed)
    factory.shut_down()
    assert not factory.wait_for_cache_sync()
    for one in informer, informer.has_synced, handler, handler.has_synced:
        assert not wait_for_cache_sync(one)


def test_an_error_that_ends_an_informer_of_a_factory_is_logged_in_a_line(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """No caller can catch it in a thread of the factory's, and a traceback would add nothing."""
    factory = make(new_list_watch=ListWatch)
    factory.for_resource("v1/Pod")
    factory.start()
    assert not factory.wait_for_cache_sync(timeout=30)
    factory.shut_down()
    (said,) = caplog.records
    assert said.getMessage().startswith("v1/Pod: its informer has ended: no cluster: kubeconfig /nowhere")
    assert said.exc_info is None


def test_waiting_for_caches_takes_informers_handlers_and_functions(make: Make, source: FakeListWatch) -> None:
    """Whichever is at hand; a cache that has synced has synced, though its informer has ended."""
    factory = make()
    informer = factory.for_resource("v1/Pod")
    handler = informer.add_event_handler(Notes())
    assert not wait_for_cache_sync(informer, timeout=0)
    factory.start()
    assert wait_for_cache_sync(informer, handler, informer.has_synced, lambda: True)
    factory.shut_down()
    assert wait_for_cache_sync(informer)
    for wrong in True, factory, None:
        with pytest.raises(ConfigError, match=r"cannot wait for .*: it has no has_synced\. Give an informer"):
            wait_for_cache_sync(wrong)  # type: ignore[arg-type]  # what is tested


def test_a_bad_resync_period_is_refused(source: FakeListWatch) -> None:
    """Of the informer, and of a handler."""
    for bad in -1, float("nan"):
        with pytest.raises(ConfigError, match=r"bad resync_period: .* Give seconds"):
            SharedInformer(source, resync_period=bad)
        with pytest.raises(ConfigError, match=r"bad resync_period: .* Give seconds"):
            SharedInformer(source, clock=FakeClock()).add_event_handler(Notes(), resync_period=bad)
