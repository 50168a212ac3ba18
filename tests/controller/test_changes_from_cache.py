"""A reconcile that finds everything as it should be asks the API server nothing, on every kind of cache."""

import threading
from typing import Any

import pytest

from distq.client.client import Client
from distq.client.objects import Object
from distq.controller.controller import Controller
from distq.controller.ownership import set_controller_reference
from distq.controller.watches import For, Owns
from distq.errors import CacheNotSynced, ConfigError
from distq.informer.listwatch import ListWatch
from distq.informer.shared_informer import SharedInformer
from distq.informer.stored_object import strip_managed_fields
from distq.testing import FakeListWatch, Sandbox
from distq.workqueue.request import Request
from tests.client.recording_client import RecordingClient
from tests.controller.caching import CONFIG_MAPS, ON_TWO_SERVERS, cached, lister
from tests.controller.leading import Scene
from tests.controller.test_write_through import writing
from tests.support.eventually import eventually
from tests.support.samples import FOO_DEFINITION, config_map

FOO = "example.com/v1/Foo"


def color(text: str) -> Any:
    """Return a change that sets one value."""

    def change(obj: Object) -> None:
        obj.setdefault("data", {})["color"] = text

    return change


@ON_TWO_SERVERS
def test_a_cached_watch_spares_the_read_and_own_writes_spare_the_next(scene: Scene) -> None:
    """Created, left alone, changed and left alone by one process: two requests, with its leader gone."""
    with writing(scene) as (_, reader):
        client = RecordingClient(scene.kubeconfig)
        key = scene.key("web")
        for text in ("red", "red", "blue", "blue"):
            client.create_or_update(config_map(scene.namespace, "web"), color(text), lister=reader)
        client.modify(CONFIG_MAPS, key, color("blue"), lister=reader)
        assert [method for method, _ in client.requests] == ["POST", "PUT"]
        assert client.get_or_raise(CONFIG_MAPS, key)["data"] == {"color": "blue"}


@ON_TWO_SERVERS
@pytest.mark.parametrize("options", [{"transform": lambda obj: obj}, {"metadata_only": True, "indexers": {}}])
def test_a_cache_that_leaves_out_fields_is_not_written_from(scene: Scene, options: dict[str, Any]) -> None:
    """Or the fields that it leaves out would be gone from the cluster: the stored object stays as it was."""
    client = RecordingClient(scene.kubeconfig)
    client.create(config_map(scene.namespace, "web", color="red"))
    watch = cached(scene, **options)
    with scene.leading(watch):
        eventually(lambda: scene.has("web"))
        client.requests.clear()
        with pytest.raises(ConfigError, match="its cache lacks fields"):
            client.modify(CONFIG_MAPS, scene.key("web"), color("blue"), lister=lister(scene, watch))
    assert client.requests == []
    assert client.get_or_raise(CONFIG_MAPS, scene.key("web"))["data"] == {"color": "red"}


def without_data(obj: Object) -> Object:
    """Return an object as a release kept it that needed no data."""
    obj.pop("data", None)
    return obj


@ON_TWO_SERVERS
@pytest.mark.parametrize("options", [{"transform": without_data}, {"metadata_only": True}])
def test_fields_that_a_leader_of_another_release_leaves_out_stay(
    scene: Scene, options: dict[str, Any]
) -> None:
    """A worker whose own watch is whole waits for a leader whose watch is, too, before it writes from it."""
    client = RecordingClient(scene.kubeconfig)
    client.create(config_map(scene.namespace, "web", color="red"))
    watch = cached(scene, indexers={})
    reader = lister(scene, watch, timeout=0.2)

    def label(obj: Object) -> None:
        obj["metadata"].setdefault("labels", {})["release"] = "new"

    with scene.leading(cached(scene, indexers={}, **options)):
        eventually(lambda: scene.has("web"))
        with pytest.raises(CacheNotSynced, match=r"leader-1 keeps .*Run one version everywhere"):
            client.modify(CONFIG_MAPS, scene.key("web"), label, lister=reader)
    with scene.leading(watch, epoch="2"):
        assert client.modify(CONFIG_MAPS, scene.key("web"), label, lister=reader)["data"] == {"color": "red"}


@pytest.mark.parametrize(
    ("options", "metadata_only", "is_whole"),
    [
        ({}, False, True),
        ({"transform": strip_managed_fields}, False, True),
        ({"transform": lambda obj: obj}, False, False),
        ({}, True, False),
    ],
)
def test_an_informers_lister_is_whole_unless_fields_are_left_out(
    options: dict[str, Any], metadata_only: bool, is_whole: bool
) -> None:
    """By a transform of one's own, or by its ListWatch."""
    watch = ListWatch(Client("nowhere"), CONFIG_MAPS, metadata_only=metadata_only)
    assert SharedInformer(watch, **options).lister.is_whole is is_whole


def test_the_request_of_another_lister_watcher_is_not_known() -> None:
    """One in front of a ListWatch may ask for metadata alone, and a write would remove all else."""

    class Logged:
        def __init__(self, behind: ListWatch) -> None:
            self.version, self.page, self.watch, self.decode = (
                behind.version,
                behind.page,
                behind.watch,
                behind.decode,
            )

    watch = ListWatch(Client("nowhere"), CONFIG_MAPS, metadata_only=True)
    assert not SharedInformer(Logged(watch)).lister.is_whole
    assert SharedInformer(FakeListWatch(CONFIG_MAPS)).lister.is_whole


@pytest.mark.parametrize("server", ["emulated", pytest.param("kube-apiserver", marks=pytest.mark.slow)])
def test_a_reconcile_that_has_nothing_to_do_asks_nothing(server: Any) -> None:
    """With cached watches of all that it reads; one that has something to do writes it alone."""
    with Sandbox(manifests=[FOO_DEFINITION], server=server) as sandbox:
        client = RecordingClient(sandbox.environment["KUBECONFIG"])
        runs: list[list[str]] = []
        lock = threading.Lock()

        def reconcile(request: Request) -> None:
            with lock:
                client.requests.clear()
                foo = controller.lister(FOO).get(request.key)
                if foo is None:
                    return

                def change(obj: Object) -> None:
                    set_controller_reference(foo, obj)
                    color(foo["spec"]["color"])(obj)

                wanted = config_map(str(request.namespace), request.name)
                client.create_or_update(wanted, change, lister=controller.lister(CONFIG_MAPS))
                runs.append([method for method, _ in client.requests])

        controller = Controller(
            "unasked", reconcile, watches=[For(FOO, cached=True), Owns(CONFIG_MAPS, cached=True)]
        )
        about = {"name": "web", "namespace": "default"}
        sandbox.client.create(
            {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": about, "spec": {"color": "red"}}
        )
        sandbox.run_until_idle(controller)
        assert runs[0] == ["POST"]
        assert set(map(tuple, runs[1:])) == {()}
        runs.clear()
        sandbox.client.patch(CONFIG_MAPS, "default/web", {"data": {"color": "blue"}})
        sandbox.run_until_idle(controller)
        assert runs[0] == ["PUT"]
        assert sandbox.client.get_or_raise(CONFIG_MAPS, "default/web")["data"] == {"color": "red"}
