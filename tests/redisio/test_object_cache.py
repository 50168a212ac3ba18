"""The cache of a stream: what commits and the fleet's own writes put there, and what is read of it."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from distq.errors import InvalidKey, RedisRefused
from distq.redisio import contents, object_cache
from distq.redisio.checkpoints import MARK, step_of
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.keys import queue_key
from distq.redisio.limits import CACHED_BYTES, CACHED_LIMIT
from distq.redisio.object_cache import CachedObject, CacheIncomplete, ObjectCache
from distq.redisio.stream_store import Committed, StreamStore
from distq.testing.embedded_valkey import EmbeddedValkey
from tests.proofs.contents.garbage import MEMBERS, TEXTS
from tests.support.counting_connection import CountingConnection

CACHED = {"cached": ["owner"]}


class Scene:
    """A stream whose leader keeps a cache with one index, and that cache."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.store = StreamStore(connection, "foos", "pods")
        self.cache = ObjectCache(connection, "foos", "pods")
        self.batch = ""
        self._batches = itertools.count()

    def commit(self, new: str, *objects: CachedObject, about: Any = CACHED, **more: Any) -> None:
        """Commit the next batch."""
        after, self.batch = self.batch, f"b{next(self._batches)}"
        committed = self.store.commit(
            Commit(epoch="7", after=after, new=new, batch=self.batch, objects=objects, about=about, **more)
        )
        assert isinstance(committed, Committed)

    def versions(self) -> dict[str, str]:
        """Return all that is cached."""
        return {obj.name: obj.version for page in self.cache.pages() for obj in page}

    def owned_by(self, owner: str) -> list[str]:
        """Return what the index finds."""
        return [obj.name for obj in self.cache.by_index("owner", owner)]

    def raw(self, command: str, structure: str, *words: Any) -> Any:
        """Run a command on a structure of the stream."""
        return self.connection.execute(command, self.key(structure), *words)

    def key(self, structure: str) -> str:
        """Return the Redis key of a structure of the stream."""
        return queue_key("foos", f"{structure}:pods")

    def is_empty(self) -> bool:
        """Return whether nothing at all is left of the cache."""
        return not self.connection.execute("EXISTS", *map(self.key, ("cache", "terms", "index")))


@pytest.fixture
def scene(connection: Connection) -> Scene:
    """Make a stream at version 100 with three cached objects."""
    scene = Scene(connection)
    scene.commit("100", pod("a/one", 7, "web"), pod("a/two", 8, "web"), pod("b/one", 9, "db"))
    return scene


def pod(name: str, version: int | str, *owners: str) -> CachedObject:
    """Return an object of a version, that owners own."""
    return CachedObject(name, str(version), f'{{"version":{version}}}'.encode(), {"owner": owners})


# Reading


def test_a_read_by_key_is_not_torn_by_the_end_of_a_list(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An object that the list brought is not missing where the cache is already complete."""
    scene.commit(step_of("100", "list"), clear_cache=True, about={})
    pipeline, left = Connection.pipeline, [pod("a/one", 7)]

    def one_by_one(connection: Connection, commands: Any, **more: Any) -> list[Any]:
        replies = []
        for command in commands:
            replies += pipeline(connection, [command], **more)
            if left:
                scene.commit("110", left.pop())
        return replies

    monkeypatch.setattr(Connection, "pipeline", one_by_one)
    try:
        found = scene.cache.get("a/one")
    except CacheIncomplete:
        return
    assert found is not None


def test_an_object_is_read_as_it_was_put(scene: Scene) -> None:
    """With its version and bytes; None where there is none."""
    assert scene.cache.get("a/one") == CachedObject("a/one", "7", b'{"version":7}')
    assert scene.cache.get("a/none") is None


def test_lists_come_in_the_order_of_names(scene: Scene) -> None:
    """All, or a namespace's, which is no other whose name begins alike."""
    scene.commit("101", pod("a0/x", 101), pod("a-b/x", 101), pod("a.c/x", 101), pod("node", 101))
    assert list(scene.versions()) == ["a-b/x", "a.c/x", "a/one", "a/two", "a0/x", "b/one", "node"]
    assert [obj.name for page in scene.cache.pages("a") for obj in page] == ["a/one", "a/two"]
    assert list(scene.cache.pages("none")) == [[]]


def test_an_index_finds_objects_under_each_of_their_values(scene: Scene) -> None:
    """And under the new ones alone once these change."""
    assert (scene.owned_by("web"), scene.owned_by("db")) == (["a/one", "a/two"], ["b/one"])
    scene.commit("101", pod("a/one", 101, "db", "api", "db"))
    assert (scene.owned_by("web"), scene.owned_by("db"), scene.owned_by("api")) == (
        ["a/two"],
        ["a/one", "b/one"],
        ["a/one"],
    )


def test_an_index_finds_objects_under_any_of_some_values(scene: Scene) -> None:
    """Each once, of all namespaces or of one."""
    scene.commit("101", pod("a/both", 101, "web", "db"), pod("a0/x", 101, "db"))
    found = scene.cache.by_index("owner", "web", "db", "none")
    assert sorted(obj.name for obj in found) == ["a/both", "a/one", "a/two", "a0/x", "b/one"]
    found = scene.cache.by_index("owner", "db", "web", namespace="a")
    assert sorted(obj.name for obj in found) == ["a/both", "a/one", "a/two"]


@pytest.mark.parametrize("goes", [("web", "db"), ("db", "web")])
def test_an_object_that_goes_from_one_value_to_another_is_found_under_either(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, goes: tuple[str, str]
) -> None:
    """Though they are so many that they come in several pages, and it goes between these."""
    monkeypatch.setattr(object_cache, "BATCH_LIMIT", 6)
    before, after = goes
    for owner in goes:
        scene.commit("101", *(pod(f"{owner}/{n:02}", 101, owner) for n in range(10)))
    for name in ("a/goes", "ddd/goes", "z/goes"):
        scene.commit("101", pod(name, 101, before))
        seen = list[str]()
        version = 102
        for page in scene.cache._pages(
            [object_cache._term("owner", each) for each in goes], (b"", None), "owner"
        ):
            seen += [obj.name for obj in page]
            scene.commit(str(version), pod(name, version, after if version % 2 else before))
            version += 1
        assert seen.count(name) == 1
        assert len(seen) == len(set(seen))


@pytest.mark.parametrize("value", ["", "\0", "a\nb", "a\n\nb", '"]', "\ud800", "é€\U0001f600", "x" * 5000])
def test_any_text_may_be_a_value(scene: Scene, value: str) -> None:
    """None is taken for another one, or for the end of a record."""
    scene.commit("101", pod("a/odd", 101, value), pod("a/odder", 101, value + "\0a/odd"))
    assert scene.owned_by(value) == ["a/odd"]
    assert scene.cache.get("a/odd") == CachedObject("a/odd", "101", b'{"version":101}')


def test_get_and_an_index_take_one_round_trip(scene: Scene, redis_server: EmbeddedValkey) -> None:
    """Once the queue is known to be there; a list takes one for each page."""
    counting = CountingConnection(redis_server.url)
    cache = ObjectCache(counting, "foos", "pods")
    cache.by_index("owner", "web")
    for read in (
        lambda: cache.get("a/one"),
        lambda: cache.by_index("owner", "web"),
        lambda: cache.by_index("owner", "web", "db", namespace="a"),
        lambda: [*cache.pages()],
    ):
        counting.round_trips = 0
        assert read()
        assert counting.round_trips == 1
    counting.close()


@pytest.mark.bound("BATCH_LIMIT", "CACHED_BYTES")
def test_a_page_has_a_bound(scene: Scene) -> None:
    """In objects and in bytes; all pages together have each object once."""
    many = [CachedObject(f"big/{n}", "101", b"x" * CACHED_LIMIT) for n in range(6)]
    for part in (many[:3], many[3:]):
        scene.commit("101", *part)
    for first in range(0, 2500, 500):
        scene.commit("101", *(pod(f"small/{n:04}", 101) for n in range(first, first + 500)))
    pages = list(scene.cache.pages())
    assert max(len(page) for page in pages) == 1000
    assert max(sum(len(obj.data) for obj in page) for page in pages) < CACHED_BYTES + CACHED_LIMIT
    names = [obj.name for page in pages for obj in page]
    assert names == sorted({*names})
    assert len(names) == 3 + 6 + 2500


def test_an_object_that_stays_is_listed_once_while_others_come_and_go(scene: Scene) -> None:
    """A page goes on behind the last name of the one before."""
    stay = [f"stay/{n:04}" for n in range(1500)]
    for first in range(0, 1500, 500):
        scene.commit("101", *(pod(name, 101) for name in stay[first : first + 500]))
    pages = scene.cache.pages("stay")
    begun = next(pages)
    scene.commit("102", pod("stay/", 102), pod("stay/0500-new", 102), dropped={"stay/0999": "102"})
    listed = [obj.name for page in [begun, *pages] for obj in page]
    assert len(listed) == len({*listed})
    assert {*stay} <= {*listed} | {"stay/0999"}


# Commits


def test_a_newer_version_stays(scene: Scene) -> None:
    """By length, then by digits, also of long versions; of the same version the later one counts."""
    scene.commit("101", pod("a/one", "100000000000000000000001", "web"))
    scene.commit("102", pod("a/one", "100000000000000000000000", "db"), pod("a/two", "6", "db"))
    assert scene.versions()["a/one"] == "100000000000000000000001"
    scene.commit("103", dropped={"a/one": "99", "a/two": "7"})
    assert scene.versions()["a/two"] == "8"
    scene.commit("104", pod("a/two", "8", "api"))
    assert (scene.owned_by("web"), scene.owned_by("api")) == (["a/one"], ["a/two"])


def test_an_object_that_is_dropped_leaves_nothing(scene: Scene) -> None:
    """Neither the object nor what found it."""
    scene.commit("101", dropped={"a/one": "101", "a/two": "101", "b/one": "9", "a/none": "101"})
    assert scene.is_empty()


def test_an_object_that_is_dropped_within_a_chain_leaves_a_marker(scene: Scene) -> None:
    """Until the stream has passed it: an older write of the object may come before."""
    position = step_of("100", "me:1")
    scene.commit(position, dropped={"a/one": "105", "a/none": "105"})
    scene.cache.wrote([pod("a/one", 104, "web"), pod("a/none", 104, "web")])
    assert list(scene.versions()) == ["a/two", "b/one"]
    assert scene.owned_by("web") == ["a/two"]
    scene.commit("105")
    scene.cache.wrote([pod("a/one", 104, "web"), pod("a/none", 104, "web")])
    assert list(scene.versions()) == ["a/two", "b/one"]
    assert scene.raw("HLEN", "cache") == scene.raw("HLEN", "terms") == 2


def test_a_refused_batch_changes_nothing(scene: Scene) -> None:
    """Of a former leader, or after another batch; and one that comes twice counts once."""
    before = scene.versions()
    for epoch, after in (("6", scene.batch), ("7", "b77")):
        scene.store.commit(
            Commit(
                epoch=epoch, after=after, new="101", batch="x", objects=[pod("a/one", 101)], clear_cache=True
            )
        )
    assert scene.versions() == before
    scene.commit("101", pod("a/one", 101))
    scene.store.commit(Commit(epoch="7", after="b0", new="101", batch=scene.batch, dropped={"a/one": "101"}))
    assert scene.versions()["a/one"] == "101"


def test_a_list_of_everything_may_begin_with_an_empty_cache(scene: Scene) -> None:
    """What it held may be of a later history than that of a cluster that was restored."""
    scene.commit("5~me:1", pod("a/one", 4, "web"), clear_cache=True)
    assert scene.versions() == {"a/one": "4"}
    assert scene.owned_by("web") == ["a/one"]


def test_a_stream_that_ends_takes_its_cache_along(scene: Scene) -> None:
    """Nothing is left of it."""
    scene.commit("")
    assert scene.is_empty()


@pytest.mark.parametrize("version", ["", "x", "1 2", "-1", "٣"])
def test_a_version_that_is_no_number_is_refused(scene: Scene, version: str) -> None:
    """Before Redis is asked."""
    with pytest.raises(ValueError, match=f"bad version '{version}'"):
        scene.cache.wrote([pod("a/one", version)])
    with pytest.raises(ValueError, match="bad version"):
        scene.cache.wrote(dropped={"a/one": version})


@pytest.mark.bound("CACHED_BYTES")
def test_bad_names_and_batches_are_refused(scene: Scene) -> None:
    """A name that is no key, one that comes twice, and more bytes than a commit takes."""
    with pytest.raises(InvalidKey):
        scene.cache.wrote([pod("a\nb", 101)])
    with pytest.raises(ValueError, match="comes twice"):
        scene.cache.wrote([pod("a/one", 101)], {"a/one": "102"})
    big = [CachedObject(f"big/{n}", "101", b"x" * CACHED_LIMIT) for n in range(5)]
    with pytest.raises(ValueError, match="bytes of cached objects"):
        scene.commit("101", *big)
    assert sum(obj.size for obj in big) > CACHED_BYTES


def test_deletions_fit_beside_as_many_bytes_as_objects_may_have(scene: Scene) -> None:
    """A commit counts the bytes of its objects: one that is full of them takes deletions, too."""
    full = [CachedObject(f"o/{n}", "105", b"x" * (CACHED_LIMIT - 30)) for n in range(4)]
    left = CACHED_BYTES - sum(obj.size for obj in full)
    full += [CachedObject("o/last", "105", b"x" * (left - len("o/last") - len("105\nall105\n")))]
    assert sum(obj.size for obj in full) == CACHED_BYTES
    scene.commit("105", *full, dropped={f"gone/{n}": "104" for n in range(900)})
    assert set(scene.versions()) >= {obj.name for obj in full}


@pytest.mark.bound("CACHED_LIMIT")
def test_a_large_object_is_only_known_to_be_there(scene: Scene) -> None:
    """Its indices find it; its bytes are the API server's to give."""
    scene.commit("101", CachedObject("a/big", "101", b"x" * (CACHED_LIMIT + 1), {"owner": ["web"]}))
    assert scene.cache.get("a/big") == CachedObject("a/big", "101", b"")
    assert scene.owned_by("web") == ["a/big", "a/one", "a/two"]


# The fleet's own writes


def test_an_own_write_is_there_before_its_event(scene: Scene) -> None:
    """And its event, which comes later, changes nothing more."""
    scene.cache.wrote([pod("a/new", 105, "web"), pod("a/one", 106, "db")])
    assert scene.versions() == {"a/new": "105", "a/one": "106", "a/two": "8", "b/one": "9"}
    scene.commit("104", pod("a/one", 104, "web"))
    assert scene.owned_by("web") == ["a/new", "a/two"]


def test_an_own_write_that_the_stream_has_passed_is_left_out(scene: Scene) -> None:
    """What the stream has passed may have been deleted since."""
    scene.cache.wrote([pod("a/late", 100)], {"a/one": "99"})
    assert list(scene.versions()) == ["a/one", "a/two", "b/one"]


@pytest.mark.parametrize(
    "record",
    [
        b'7 100 b1 {"watch": "v1/Pod"}',
        b'7 100 b1 {"watch": {"v1": "Pod"}}',
        b'7 100 b1 ["v1/Secret"]',
        b"7 100 b1 {",
        b"7 100 b1",
        b"\xff\x00",
    ],
)
def test_an_own_write_does_not_go_to_the_stream_of_another_watch(scene: Scene, record: bytes) -> None:
    """No leader would take it away there."""
    scene.connection.execute("HSET", queue_key("foos", "streams"), "pods", record)
    before = scene.raw("HGETALL", "cache")
    assert not scene.cache.wrote([pod("a/new", 105)], watch="v1/Secret")
    assert scene.raw("HGETALL", "cache") == before


def test_an_own_write_goes_to_the_stream_of_its_watch(scene: Scene) -> None:
    """Other texts in its leader's report do not matter."""
    scene.commit("101", about=CACHED | {"watch": "v1/Secret", "error": 'a "watch": "v1/Pod"'})
    assert scene.cache.wrote([pod("a/new", 105)], watch="v1/Secret")
    assert "a/new" in scene.versions()


def test_an_own_write_brings_back_no_stream_that_ended(scene: Scene) -> None:
    """It would never be deleted; a stream that begins anew begins with an empty cache, too."""
    scene.commit("")
    scene.cache.wrote([pod("a/late", 105)], {"a/one": "106"})
    assert scene.is_empty()


def test_own_writes_of_any_number_go_in_steps(scene: Scene) -> None:
    """Bounded by number and by bytes, as a commit is."""
    scene.cache.wrote([pod(f"many/{n}", 105) for n in range(1500)])
    scene.cache.wrote([CachedObject(f"big/{n}", "105", b"x" * CACHED_LIMIT) for n in range(5)])
    assert len(scene.versions()) == 1508


def test_an_own_deletion_stays_until_the_stream_has_passed_it(scene: Scene) -> None:
    """An older event does not bring the object back; then nothing is left of it."""
    scene.cache.wrote(dropped={"a/one": "105", "a/two": "105", "b/one": "105"})
    scene.commit("104", pod("a/one", 104, "web"))
    assert scene.cache.get("a/one") is None
    assert (scene.versions(), scene.owned_by("web")) == ({}, [])
    scene.commit("105", dropped={"a/one": "105"})
    assert scene.is_empty()


def test_an_object_that_was_created_again_is_there(scene: Scene) -> None:
    """A marker gives way to a newer version than its own."""
    scene.cache.wrote(dropped={"a/one": "105"})
    scene.cache.wrote([pod("a/one", 106, "db")])
    assert scene.owned_by("db") == ["a/one", "b/one"]
    scene.commit("106", pod("a/one", 106, "db"))
    assert scene.versions()["a/one"] == "106"


def test_many_markers_go_in_steps(scene: Scene) -> None:
    """A hundred with each commit that finds them passed."""
    scene.cache.wrote(dropped={f"many/{n}": "105" for n in range(250)})
    left = []
    for _ in range(3):
        scene.commit("105")
        left.append(scene.raw("HLEN", "terms") - scene.raw("HLEN", "cache"))
    assert left == [150, 50, 0]
    assert scene.raw("ZCARD", "index") == 6


# The end of a list


def test_the_end_of_a_list_drops_objects_that_it_did_not_show(scene: Scene) -> None:
    """Unless it is newer; no late write of a dropped object comes back, and nothing of it is left."""
    listing = step_of("100", "me:1", listed="110")
    scene.commit(listing)
    scene.cache.wrote([pod("a/late", 109), pod("a/ahead", 111, "web")])
    assert list(itertools.chain(*scene.store.cached_names())) == ["a/ahead", "a/one", "a/two", "b/one"]
    scene.commit(step_of("100", "me:2", listed="110"), dropped={"a/ahead": "110", "a/two": "110"})
    scene.cache.wrote([pod("a/late", 109), pod("a/two", 109)])
    scene.commit("110")
    assert scene.versions() == {"a/ahead": "111", "a/one": "7", "b/one": "9"}
    assert scene.raw("HLEN", "cache") == scene.raw("HLEN", "terms") == 3


def test_an_object_that_a_list_did_not_show_may_be_replaced_until_it_goes(scene: Scene) -> None:
    """Else a read would show less than an own write; but what is gone already does not come back."""
    scene.cache.wrote(dropped={"b/one": "105"})
    scene.commit(step_of("100", "me:1", listed="110"))
    scene.cache.wrote([pod("a/one", 109, "db"), pod("b/one", 109, "db"), pod("a/none", 109, "db")])
    assert (scene.versions(), scene.owned_by("db")) == ({"a/one": "109", "a/two": "8"}, ["a/one"])
    scene.cache.wrote(dropped={"a/two": "109"})
    assert scene.versions() == {"a/one": "109"}
    scene.commit(step_of("100", "me:2", listed="110"), dropped={"a/one": "110"})
    scene.commit("110")
    assert scene.is_empty()


def test_the_names_of_all_that_is_cached_come_in_pages(scene: Scene) -> None:
    """Markers are none of them."""
    for first in range(0, 1500, 500):
        scene.commit("101", *(pod(f"many/{n:04}", 101) for n in range(first, first + 500)))
    scene.cache.wrote(dropped={"a/one": "105"})
    pages = list(scene.store.cached_names())
    assert [len(page) for page in pages] == [1000, 502]


# Whether it is complete


@pytest.mark.parametrize(
    ("new", "about"),
    [("101", {}), ("101", {"cached": "owner"}), (MARK, CACHED), (f"{MARK}~me:1", CACHED), ("~me:1", CACHED)],
)
def test_a_cache_that_is_not_complete_is_not_read(scene: Scene, new: str, about: Any) -> None:
    """Its leader keeps none, as one of 0.1.0, or is to list anew: a reader gets the stream's position."""
    scene.commit(new, about=about)
    for read in (lambda: scene.cache.get("a/one"), scene.versions, lambda: scene.owned_by("web")):
        with pytest.raises(CacheIncomplete) as caught:
            read()
        assert caught.value.record is not None
        assert caught.value.record.position == new
        assert caught.value.record.cached_indices() is None


def test_a_cache_is_read_while_its_leader_lists_again(scene: Scene) -> None:
    """It holds what it held, and page by page what is newer."""
    scene.commit(step_of("100", "me:1"), pod("a/one", 105, "db"))
    assert scene.owned_by("db") == ["a/one", "b/one"]


def test_a_cache_that_no_leader_keeps_is_not_read(connection: Connection) -> None:
    """Nor does an index that its leader does not keep find anything."""
    scene = Scene(connection)
    with pytest.raises(CacheIncomplete) as caught:
        scene.cache.get("a/one")
    assert caught.value.record is None
    scene.commit("100", pod("a/one", 100), about={"cached": []})
    assert scene.cache.get("a/one") == CachedObject("a/one", "100", b'{"version":100}')
    with pytest.raises(CacheIncomplete):
        scene.owned_by("web")


# Disasters


@pytest.fixture
def full(scene: Scene) -> Iterator[Scene]:
    """Fill the memory of the server."""
    scene.connection.execute("CONFIG", "SET", "maxmemory", 1)
    yield scene
    scene.connection.execute("CONFIG", "SET", "maxmemory", 0)


def test_full_memory_refuses_objects_together_with_their_keys(full: Scene) -> None:
    """Never one without the other; deletions go on, and cached objects can be read."""
    for more in ({"keys": ["a/one"]}, {"known": {"a/one": "101"}}, {}):
        with pytest.raises(RedisRefused, match="is full"):
            full.store.commit(
                Commit(
                    epoch="7",
                    after="b0",
                    new="101",
                    batch="b1",
                    objects=[pod("a/one", 101, "db")],
                    about=CACHED,
                    **more,
                )
            )
    with pytest.raises(RedisRefused, match="is full"):
        full.cache.wrote([pod("a/one", 101)])
    assert (full.versions()["a/one"], full.owned_by("web")) == ("7", ["a/one", "a/two"])
    full.commit("102", dropped={"a/one": "102"}, gone=["a/one"])
    assert full.owned_by("web") == ["a/two"]


@pytest.mark.parametrize("structure", ["cache", "terms", "index", "streams"])
def test_a_key_of_a_wrong_type_is_named_and_nothing_is_written(scene: Scene, structure: str) -> None:
    """By commits, own writes and reads alike."""
    key = scene.key(structure) if structure != "streams" else queue_key("foos", "streams")
    scene.connection.execute("SET", key, "by hand")
    before = {name: scene.raw("DUMP", name) for name in ("cache", "terms", "index", "known")}
    calls: list[Callable[[], object]] = [
        lambda: scene.commit("101", pod("a/one", 101, "db"), keys=["a/one"], known={"a/one": "101"}),
        lambda: scene.cache.wrote([pod("a/one", 101, "db")]),
        lambda: scene.owned_by("web"),
        *([lambda: scene.cache.get("a/one")] if structure in {"cache", "streams"} else []),
    ]
    for call in calls:
        with pytest.raises(RedisRefused, match=f"WRONGTYPE {key} is a string".replace("{", r"\{")):
            call()
    assert {name: scene.raw("DUMP", name) for name in before} == before
    assert [line[:4] for line in contents.findings(scene.connection)] == ["FAIL"]


@pytest.mark.parametrize("text", TEXTS)
def test_an_unreadable_object_is_left_to_the_api_server(scene: Scene, text: bytes) -> None:
    """It is there without its bytes; the next event of the object fixes it, and nothing else suffers."""
    scene.raw("HSET", "cache", "a/one", text)
    found = scene.cache.get("a/one")
    assert found is not None
    assert found.data == b""
    assert [*contents.findings(scene.connection)] == [
        f'WARN  1 value of {scene.key("cache")} cannot be read, say "a/one". The next event of each fixes it.'
    ]
    assert scene.versions().keys() == {"a/one", "a/two", "b/one"}
    assert scene.owned_by("db") == ["b/one"]
    scene.commit("101", pod("a/one", 101, "db"))
    assert scene.owned_by("db") == ["a/one", "b/one"]
    assert scene.owned_by("web") == ["a/two"]


@pytest.mark.parametrize("text", TEXTS)
def test_terms_that_cannot_be_read_hide_no_object(scene: Scene, text: bytes) -> None:
    """The index finds it as before; the next event of the object fixes them."""
    scene.raw("HSET", "terms", "a/one", text)
    assert (scene.versions()["a/one"], scene.owned_by("web")) == ("7", ["a/one", "a/two"])
    assert [*contents.findings(scene.connection)] == [
        f'WARN  1 value of {scene.key("terms")} cannot be read, say "a/one". The next event of each fixes it.'
    ]
    scene.commit("101", pod("a/one", 101, "db"))
    assert scene.owned_by("db") == ["a/one", "b/one"]
    assert scene.owned_by("web") == ["a/two"]
    assert [*contents.findings(scene.connection)] == []


def test_odd_members_and_names_stop_no_reader(scene: Scene) -> None:
    """A foreign program may have written any bytes into the structures."""
    for place, member in enumerate(MEMBERS):
        scene.raw("HSET", "cache", member, TEXTS[place])
        for term in (b"all", b"gone", b'["owner","web"]'):
            scene.raw("ZADD", "index", 0, term + b"\0" + member)
        scene.raw("ZADD", "index", 0, member)
    assert {"a/one", "a/two", "b/one"} <= scene.versions().keys()
    assert {"a/one", "a/two"} <= {*scene.owned_by("web")}
    scene.commit("101", pod("a/one", 101, "db"))
    assert "a/one" in scene.owned_by("db")
    scene.commit("102", clear_cache=True)
    assert scene.is_empty()
