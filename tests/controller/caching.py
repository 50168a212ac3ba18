"""What tests of cached reads share: a watch that is cached, and readers of its cache."""

from collections.abc import Mapping
from typing import Any

import pytest

from distq.client.objects import Object, encode
from distq.controller.cached.caches import Caches
from distq.controller.cached.caching import Caching
from distq.controller.watches import For
from distq.informer.lister import Lister
from distq.redisio.object_cache import CachedObject, ObjectCache
from distq.redisio.stream_store import stream_records
from distq.workqueue.queue import Queue
from tests.controller.leading import QUEUE, Scene

ON_TWO_SERVERS = pytest.mark.parametrize(
    ("api_server", "redis_server"), [("emulator", "redis7"), ("real", "valkey9")], indirect=True
)
"""Where what does not depend on the kind of Redis is tested; ``tests/redisio`` has the scripts on all."""

EMULATED = pytest.mark.parametrize(("api_server", "redis_server"), [("emulator", "redis7")], indirect=True)

CONFIG_MAPS = "v1/ConfigMap"


def by_color(obj: Object) -> list[str]:
    """Return the color of a ConfigMap, if it has one."""
    return [color] if (color := obj.get("data", {}).get("color")) else []


def by_first_letter(obj: Object) -> list[str]:
    """Return the letter under which an object is filed in a dictionary."""
    return [obj["metadata"]["name"][0]]


def cached(scene: Scene, **options: Any) -> For:
    """Return a watch of the scene's ConfigMaps that is cached, by color unless given otherwise."""
    chosen = {"namespaces": [scene.namespace], "indexers": {"color": by_color}, **options}
    return For(CONFIG_MAPS, cached=True, **chosen)


def caches(scene: Scene, watch: For | None = None, *, timeout: float = 30.0) -> Caches:
    """Return the caches as another process of the fleet reads them."""
    found = Caches([watch or cached(scene)], Queue(QUEUE, scene.connection), timeout=timeout)
    found.bind(scene.leader().client, None)
    return found


def lister(scene: Scene, watch: For | None = None, *, timeout: float = 30.0) -> Lister:
    """Return a lister of another process of the fleet."""
    return caches(scene, watch, timeout=timeout).lister(CONFIG_MAPS)


def names(objects: list[Object]) -> set[str]:
    """Return the names of objects."""
    return {obj["metadata"]["name"] for obj in objects}


def entries(scene: Scene) -> dict[str, str]:
    """Return all that is in the one cache, markers too, with its version."""
    (name,) = stream_records(scene.connection, QUEUE)
    hash_key = f"distq:{{{QUEUE}}}:terms:{name}"
    flat = scene.connection.execute("HGETALL", hash_key)
    return {
        field.decode().rpartition("/")[2]: record.partition(b"\n")[0].decode()
        for field, record in zip(flat[::2], flat[1::2], strict=True)
    }


def kept(scene: Scene, obj: Object) -> CachedObject:
    """Return what the cache keeps of an object that a Client got."""
    caching = Caching.of(cached(scene))
    assert caching is not None
    return caching.keep(caching.raw(encode(obj), scene.leader().client.resolve(CONFIG_MAPS))).object


def object_cache(scene: Scene) -> ObjectCache:
    """Return the one cache."""
    (name,) = stream_records(scene.connection, QUEUE)
    return ObjectCache(scene.connection, QUEUE, name)


def write_through(scene: Scene, *objects: CachedObject, dropped: Mapping[str, str] | None = None) -> None:
    """Put what the fleet itself wrote into the one cache."""
    (record,) = stream_records(scene.connection, QUEUE).values()
    assert object_cache(scene).wrote(objects, dropped, watch=str(record.about["watch"]))
