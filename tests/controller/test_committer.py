"""A stream's commits in several steps leave what one would, and a long scan shows that it goes on."""

import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from distq.controller.stream.committer import Committer
from distq.errors import LeaseLost, RedisRefused
from distq.redisio import commit as commit_module
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.object_cache import CachedObject, ObjectCache
from distq.redisio.stream_store import StreamStore
from distq.testing import FakeClock

pytestmark = pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True)


class Leading:
    """A term that lasts, until it does not."""

    identity, epoch, began = "leader", "1", 0.0
    lasts = True

    def may_act(self) -> bool:
        """Return whether it does."""
        return self.lasts


class Hurried(FakeClock):
    """A clock by which each wait takes a second, in no time."""

    def wait(self, event: threading.Event, timeout: float) -> bool:  # noqa: ARG002 - it is a second
        """Let the second pass."""
        self.step(1.0)
        return event.is_set()


def committer_of(connection: Connection, clock: FakeClock, term: Leading | None = None) -> Committer:
    """Return the committer of a stream that begins."""
    committer = Committer(
        StreamStore(connection, "foos", "pods"),
        term or Leading(),
        clock,
        threading.Event(),
        about=dict[str, Any],
        present_version=str,
        committed=lambda _: None,
        span=lambda _: nullcontext(""),
        parked_as="Pod of: ",
    )
    committer.load()
    return committer


def pod(name: str) -> CachedObject:
    """Return a Pod that is found by 20 values."""
    return CachedObject(name, "7", b"{}", {"word": [f"{name}-{number}" for number in range(20)]})


def test_a_commit_that_is_halved_empties_the_cache_before_its_first_half(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The objects that it puts there stay, and no older one."""
    monkeypatch.setattr(commit_module, "TERMS_LIMIT", 1000)
    committer = committer_of(connection, FakeClock())
    committer.commit(Commit(new="5", objects=[pod("prod/old")]))
    names = [f"prod/pod-{number}" for number in range(9)]
    committer.commit(Commit(new="6", objects=[pod(name) for name in names], clear_cache=True))
    cache = ObjectCache(connection, "foos", "pods", partly=True)
    assert [obj.name for page in cache.pages() for obj in page] == names


@pytest.mark.parametrize("scan", [Committer.known_pages, Committer.cached_names, Committer.parked_names])
def test_each_page_of_a_scan_is_a_try_to_reach_redis(
    scan: Callable[[Committer], Any], connection: Connection
) -> None:
    """So a scan of many pages is no standstill, also where none of them has what is looked for."""
    clock = FakeClock()
    committer = committer_of(connection, clock)
    everything = [f"prod/pod-{number}" for number in range(3000)]
    for start in range(0, 3000, 500):
        names = everything[start : start + 500]
        objects = [CachedObject(name, "7", b"{}") for name in names]
        committer.commit(Commit(new=str(start + 1), known=dict.fromkeys(names, "7"), objects=objects))
    failed = [text for name in everything for text in (name, "1 0 0 -")]
    connection.execute("HSET", "distq:{foos}:failures", *failed)
    pages = 0
    for _ in scan(committer):
        pages += 1
        assert committer.tried_at == clock.monotonic()
        clock.step(100)
    assert pages > 1


def test_a_redis_that_refuses_is_logged_seldom_and_so_is_that_it_works_again(
    connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """A log that ends with a warning reads as if the stream still stood still."""
    committer = committer_of(connection, Hurried())
    refusals = [RedisRefused("Redis is full.")] * 3

    def question() -> str:
        if refusals:
            raise refusals.pop()
        return "answer"

    with caplog.at_level("INFO"):
        assert committer._ask(question) == "answer"
    assert [record.getMessage() for record in caplog.records] == [
        "pods: Redis is full. Trying again.",
        "pods: works again after 3 s",
    ]


def test_a_leader_reports_while_a_full_redis_refuses_its_commit(connection: Connection) -> None:
    """People would take it for gone, and look at the API server instead of at Redis."""
    seen: list[object] = []

    class Memory(FakeClock):
        """A clock by which the memory of the server suffices after the first wait."""

        def wait(self, event: threading.Event, timeout: float) -> bool:  # noqa: ARG002
            """Note what people see, and let the memory suffice."""
            record = committer.store.load()
            seen.append(record and record.about)
            connection.execute("CONFIG", "SET", "maxmemory", 0)
            return event.is_set()

    committer = committer_of(connection, Memory())
    committer.commit(Commit(new="5"))
    committer.about = lambda: {"error": "is full"}
    connection.execute("CONFIG", "SET", "maxmemory", 1)
    committer.commit(Commit(new="6", keys=["a"]))
    assert seen == [{"error": "is full"}]
    assert committer.position == "6"


def test_a_leader_whose_term_ended_during_a_refused_commit_reports_nothing(connection: Connection) -> None:
    """Another process may lead by then, and has perhaps not committed yet."""
    term = Leading()
    committer = committer_of(connection, Hurried(), term)
    committer.commit(Commit(new="5"))
    committer.about = lambda: {"error": "is full"}

    def refuse() -> None:
        term.lasts = False
        raise RedisRefused("Redis is full.")

    with pytest.raises(LeaseLost):
        committer._ask(refuse)
    record = committer.store.load()
    assert record is not None
    assert record.about == {}


def test_a_leader_reports_nothing_before_it_has_read_what_the_last_one_left(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record would lack the revision, and that the cache is whole: everything would be listed again."""
    committer_of(connection, FakeClock()).commit(Commit(new="5", about={"revision": "7"}))
    now, refusals = StreamStore.now, [RedisRefused("Redis denied TIME.")]

    def refuse_once(store: StreamStore) -> float:
        if refusals:
            raise refusals.pop()
        return now(store)

    monkeypatch.setattr(StreamStore, "now", refuse_once)
    record = committer_of(connection, Hurried()).store.load()
    assert record is not None
    assert record.about == {"revision": "7"}


@pytest.mark.parametrize(
    "ask",
    [
        Committer.load,
        Committer.confirm,
        Committer.known_count,
        lambda committer: committer.known_of(["prod/web"]),
        lambda committer: committer.cached_of(["prod/web"]),
    ],
)
def test_a_leader_whose_term_is_over_asks_redis_nothing(
    ask: Callable[[Committer], Any], connection: Connection
) -> None:
    """It ends at once, before any request: another may lead already."""
    term = Leading()
    committer = committer_of(connection, FakeClock(), term)
    committer.commit(Commit(new="5", keys=["prod/web"]))
    tried_at, term.lasts = committer.tried_at, False
    with pytest.raises(LeaseLost):
        ask(committer)
    assert committer.tried_at == tried_at
