"""Programs for several clusters on one queue, ``shared=True``: each reads the cache of its own cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from distq.client.client import Client
from distq.controller.cached.caches import Caches
from distq.controller.cached.write_through import writing_through
from distq.controller.controller import Controller, purpose_of
from distq.errors import ApiError, CacheNotSynced
from distq.testing import EmulatedApiServer
from distq.workqueue.queue import Queue
from distq.workqueue.queue_ownership import PresentPurpose
from tests.controller.caching import CONFIG_MAPS, EMULATED, cached, lister, names
from tests.controller.leading import QUEUE, Scene
from tests.controller.test_stream import create
from tests.support.recording import RecordingClient
from tests.support.samples import config_map


@contextmanager
def another_cluster(scene: Scene) -> Iterator[RecordingClient]:
    """Give a client of a second cluster, which has the namespace of the scene."""
    with EmulatedApiServer() as server:
        client = RecordingClient(server.kubeconfig(scene.kubeconfig.with_name("elsewhere")))
        client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": scene.namespace}})
        yield client


def shared_caches(scene: Scene, client: Client, *, shared: bool = True) -> Caches:
    """Return the caches as a program of a shared queue reads them that reaches its cluster by this client."""
    queue = Queue(QUEUE, scene.connection)
    controller = Controller(queue, print, watches=[cached(scene)], shared=shared, cache_sync_timeout=0.3)
    if (purpose := purpose_of(controller, "default/distq-foos")) is not None:
        queue.purpose = PresentPurpose(purpose, client.authorities)
    found = controller.caches
    assert found is not None
    found.bind(client, None)
    return found


@EMULATED
def test_the_only_cache_of_a_shared_queue_may_be_of_another_cluster(scene: Scene) -> None:
    """A read waits for the own cluster's leader; afterwards it finds that one's cache."""
    create(scene, "a")
    with another_cluster(scene) as client, scene.leading(cached(scene)):
        there = shared_caches(scene, client).lister(CONFIG_MAPS)
        with pytest.raises(CacheNotSynced, match="does not watch it so, or in another cluster"):
            there.list()
        client.create(config_map(scene.namespace, "b"))
        with scene.leading(cached(scene), client=client):
            assert names(there.list()) == {"b"}
            here = shared_caches(scene, scene.leader().client).lister(CONFIG_MAPS)
            assert names(here.list()) == {"a"}


@EMULATED
def test_the_one_program_that_is_not_shared_reads_the_cache_of_its_own_cluster(scene: Scene) -> None:
    """The leaders of the others do not say what they work for, so its own purpose excludes none of them."""
    create(scene, "a")
    with another_cluster(scene) as client, scene.leading(cached(scene)):
        own = shared_caches(scene, client, shared=False).lister(CONFIG_MAPS)
        with pytest.raises(CacheNotSynced, match="does not watch it so, or in another cluster"):
            own.list()


@EMULATED
def test_a_write_stays_out_of_the_cache_of_another_cluster(scene: Scene) -> None:
    """Where that is the only one of the watch: its readers would see objects that they do not have."""
    create(scene, "a")
    with another_cluster(scene) as client, scene.leading(cached(scene)):
        for number in range(40):  # the caches take no version that their stream has passed
            client.create(config_map("default", f"filler-{number}"))
        with writing_through([shared_caches(scene, client)], client, None):
            client.create(config_map(scene.namespace, "b"))
        assert names(lister(scene).list()) == {"a"}


@EMULATED
def test_a_cluster_that_does_not_answer_has_no_other_ones_objects(scene: Scene) -> None:
    """A read of a shared queue raises until it is known which cluster it is."""
    create(scene, "a")
    with another_cluster(scene) as gone:
        pass
    with scene.leading(cached(scene)), pytest.raises(ApiError, match="no answer"):
        shared_caches(scene, gone).lister(CONFIG_MAPS).list()


@EMULATED
def test_a_worker_without_a_cluster_reads_the_only_cache(scene: Scene, tmp_path: Path) -> None:
    """It cannot know which cluster it is, and needs none."""
    create(scene, "a")
    with scene.leading(cached(scene)):
        assert names(shared_caches(scene, Client(tmp_path / "none")).lister(CONFIG_MAPS).list()) == {"a"}
