"""The rules of every script: its inputs, its keys, all or nothing, once or twice."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import redis

from distq.errors import ConfigError, LayoutTooNew, RedisRefused
from distq.redisio import scripts
from distq.redisio.connection import Connection
from distq.redisio.queue_store import QueueStore, queue_names
from distq.testing.embedded_valkey import EmbeddedValkey
from tests.redisio import lua_names
from tests.support.eventually import eventually
from tests.support.populated import NAMES, SECOND, Populated, key
from tests.support.ports import free_port
from tests.workqueue.machine import QueueMachine, run

SCRIPTS = [
    *("add", "add_after", "catch_up", "caught_up", "close", "commit", "delete", "fair_by", "forget"),
    *("forgive", "heartbeat", "open", "park", "pause", "requeue", "resume", "share", "trace", "turn"),
]
SCRIPT_KEYS = [
    (name, each)
    for name in SCRIPTS
    for each in scripts.load(name).keys
    if (each != "trace" or name == each)
    and each not in {"history", "links"}
    and (name, each) != ("commit", "workers")
]
"""What a script needs; a trace that cannot be written ends (test_trace), history and links are for people."""


@pytest.fixture
def populated(connection: Connection) -> Populated:
    """Make a queue with something of everything."""
    return Populated(connection)


# How they are written


def test_these_are_all_scripts() -> None:
    """No script escapes the tests below."""
    assert list(scripts.names()) == SCRIPTS


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_has_its_effect_and_reply_before_the_names_of_its_inputs(name: str) -> None:
    """The first lines are its contract."""
    header, _, inputs = scripts.load(name).source.partition("\nlocal ")
    lines = header.splitlines()
    assert re.match(r"-- [A-Z][a-z]+ .*", lines[0])
    assert " Returns " in header
    assert all(line.startswith("-- ") and len(line) <= 120 for line in lines)
    assert "KEYS[1]" in inputs


INCLUDES = sorted(file for file in lua_names.sources() if file.startswith("include/"))


@cache
def shared_names() -> dict[str, tuple[set[str], set[str]]]:
    """Return what each include shares with the scripts around it; each process of a run collects tests."""
    return lua_names.shared_names(lua_names.sources())


def test_every_include_is_in_a_script() -> None:
    """No file is left that is not included; all that a script reads is defined before."""
    assert sorted(shared_names()) == INCLUDES


@pytest.mark.parametrize("include", INCLUDES)
def test_an_include_begins_with_the_names_that_it_shares(include: str) -> None:
    """Those that it reads from the script around it, and those that it leaves for it or sets there."""
    assert lua_names.declared(lua_names.sources()[include]) == shared_names()[include]


@pytest.mark.parametrize(
    ("file", "text", "instead"),
    [
        ("include/due.lua", "-- in: now", "-- in: nothing"),
        (
            "include/put_back.lua",
            "-- in: arrivals, bounded, by_flow, delayed,",
            "-- in: arrivals, by_flow, delayed,",
        ),
        ("include/suspect.lua", "-- out: first_line, is_suspect", "-- out: first_line"),
        ("include/claim.lua", "-- out: alone,", "-- out: alone, prefix,"),
        ("include/settle.lua", "local last_fence, prefix", "local last_fence, prefix = stamp"),
        ("include/settle.lua", "local ended = {}", "local ended = {}\nfence = ended"),
        ("include/check_types.lua", "local ticks =", "local ticks, paused ="),
        ("add_after.lua", "local stamp, paused", "local stamps, paused"),
        ("turn.lua", "local others = 2 * n_ok", "local n_others = 2 * n_ok"),
        ("add.lua", "local stamp, trace_until, fair_by =", "local count, trace_until, fair_by ="),
    ],
)
def test_a_wrong_declaration_of_shared_names_is_noticed(file: str, text: str, instead: str) -> None:
    """Of a name too many or too few, either way; and a name that nothing defines before the include."""
    sources = lua_names.sources()
    assert text in sources[file]
    sources[file] = sources[file].replace(text, instead)
    assert _not_as_declared(sources) == {file}


def _not_as_declared(sources: dict[str, str]) -> set[str]:
    """Return the includes whose declarations are wrong, or the script that uses what nothing defines."""
    try:
        shared = lua_names.shared_names(sources)
    except lua_names.UndefinedName as error:
        return {error.file}
    return {include for include in shared if lua_names.declared(sources[include]) != shared[include]}


@pytest.mark.conformance("RD-15")
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_touches_only_keys_that_it_names(name: str) -> None:
    """Each command's key is a declared one, or a name for one of several of them."""
    script = scripts.load(name)
    assert "redis.call(" not in script.source
    assert "redis.pcall" not in script.source
    body = script.source.partition("local call = redis.call\n")[2]
    keys = re.findall(r"call\('(?!TIME)[A-Z]+', ([\w.]+(?:\[\w+\])?)", body)
    keys += re.findall(r"\{ '(?:Z|H|R|L)[A-Z]+', (\w+)", body)
    assert keys
    assert set(keys) <= {*script.keys, "pending", "key", "in_state[state]"}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_may_do_its_work_where_only_its_keys_are_permitted(
    populated: Populated, redis_server: EmbeddedValkey, name: str
) -> None:
    """The server denies a script the keys that it does not name; none of ours needs one."""
    script = scripts.load(name)
    permitted = [f"~{populated.store.key(each)}" for each in script.keys]
    populated.connection.execute("ACL", "SETUSER", "narrow", "reset", "on", ">secret", "+@all", *permitted)
    narrow = Connection(f"redis://narrow:secret@127.0.0.1:{redis_server.port}/0")
    inputs = populated.inputs(name)
    before = populated.dumps()
    if "time" in script.arguments:
        inputs |= {"time": populated.time + SECOND}
    try:
        narrow.evaluate(script.source, script.sha, script.bind(populated.store.key, inputs))
    finally:
        narrow.close()
        populated.connection.execute("ACL", "DELUSER", "narrow")
    assert populated.dumps() != before


def test_a_wrong_input_is_no_call(connection: Connection) -> None:
    """Missing and unknown inputs are named, before Redis is asked."""
    store = QueueStore(connection, "foos")
    with pytest.raises(TypeError, match="script add: missing or unknown inputs item, items"):
        store.run("add", item=["a"], priority=0, max_length="")


@pytest.fixture
def cluster(redis_server: EmbeddedValkey) -> Iterator[Connection]:
    """Start a cluster of one node."""
    options = ("--cluster-enabled", "yes")
    with EmbeddedValkey(server=redis_server._server, options=options, port=free_port()) as server:
        with redis.Redis.from_url(server.url) as admin:
            for first in range(0, 16384, 4096):
                admin.execute_command("CLUSTER", "ADDSLOTS", *range(first, first + 4096))
            eventually(lambda: admin.cluster("info")["cluster_state"] == "ok")
        connection = Connection(server.url)
        yield connection
        connection.close()


@pytest.mark.conformance("RD-15")
@pytest.mark.conformance("RD-15")
def test_each_script_runs_in_a_cluster(cluster: Connection) -> None:
    """Its keys are in one slot, and it touches no key that it did not declare there."""
    for script in SCRIPTS:
        cluster.execute("FLUSHALL")
        populated = Populated(cluster)
        inputs = populated.inputs(script)
        before = populated.dumps()
        populated.run(script, **inputs)
        assert populated.dumps() != before, script


@pytest.mark.conformance("RD-15")
def test_a_queue_lives_in_one_slot_of_a_cluster(cluster: Connection) -> None:
    """A cluster refuses scripts whose keys are in several slots, or not where they were declared."""
    slots = {cluster.execute("CLUSTER", "KEYSLOT", key(name)) for name in NAMES}
    assert len(slots) == 1
    run(lambda: QueueMachine(cluster, Counter()), examples=3, steps=200, number=1, database=None)


# All or nothing


@pytest.mark.conformance("RD-15")
@pytest.mark.parametrize(("script", "name"), SCRIPT_KEYS)
def test_a_key_of_a_wrong_type_changes_nothing(populated: Populated, script: str, name: str) -> None:
    """Of any writer: the script stops before its first write."""
    inputs = populated.inputs(script)
    populated.connection.execute("SET", key(name), "by hand")
    before = populated.dumps()
    where = re.escape(f"WRONGTYPE {key(name)} is a string, where distq keeps a ")
    with pytest.raises(RedisRefused, match=f"{where}.* Was its data changed by hand"):
        populated.run(script, **inputs)
    assert populated.dumps() == before


@pytest.mark.parametrize("script", SCRIPTS)
def test_each_call_of_these_tests_changes_something(populated: Populated, script: str) -> None:
    """The tests above and below are worth something."""
    before = populated.dumps()
    populated.run(script, **populated.inputs(script))
    assert populated.dumps() != before


@pytest.fixture
def full(populated: Populated) -> Iterator[Populated]:
    """Fill the memory of the server."""
    populated.connection.execute("CONFIG", "SET", "maxmemory", 1)
    yield populated
    populated.connection.execute("CONFIG", "SET", "maxmemory", 0)


@pytest.mark.parametrize("script", ["add", "add_after", "commit", "trace"])
def test_full_memory_refuses_more_work(full: Populated, script: str) -> None:
    """Producers get an error, and nothing has changed."""
    before = full.dumps()
    with pytest.raises(RedisRefused, match="is full"):
        full.run(script, **full.inputs(script))
    assert full.dumps() == before


@pytest.mark.parametrize("script", sorted({*SCRIPTS} - {"add", "add_after", "commit", "trace"}))
def test_full_memory_lets_work_be_done(full: Populated, script: str) -> None:
    """Every script that drains the queue still works, also from a new handle."""
    inputs = full.inputs(script)
    before = full.dumps()
    full.store = type(full.store)(full.connection, "foos", "pods")
    reply = full.run(script, **inputs)
    assert reply != b"LOST"
    assert full.dumps() != before


@pytest.mark.parametrize("script", ["requeue", "park", "delete"])
def test_full_memory_lets_items_be_repaired_that_never_failed(full: Populated, script: str) -> None:
    """The first thing that is removed opens the way, whichever there is."""
    full.connection.execute("DEL", key("failures"))
    full.run(script, **full.inputs(script) | {"items": ["later"]})
    assert full.store.read(("ZSCORE", "delayed", "later")) == [None]


@pytest.mark.parametrize(
    ("script", "state"), [("requeue", "nonsense"), ("delete", "nonsense"), ("delete", "processing")]
)
def test_an_unknown_state_is_an_error_that_names_the_states(
    populated: Populated, script: str, state: str
) -> None:
    """It is no failure within Redis, and changes nothing."""
    before = populated.dumps()
    with pytest.raises(ConfigError, match=f"bad state '{state}': .* Use ready, dirty, .*delayed, dead."):
        getattr(populated.store, script)(["ready", "later"], state=state)
    assert populated.dumps() == before


# Once or twice


@pytest.mark.parametrize("script", [name for name in SCRIPTS if name != "open"])
def test_a_call_whose_reply_was_lost_has_one_effect(populated: Populated, script: str) -> None:
    """Asked again, at the same time or later, it changes nothing but clocks."""
    inputs = populated.inputs(script)
    first = populated.run(script, **inputs)
    after = populated.dumps()
    populated.time -= 1_000_000
    again = populated.run(script, **inputs)
    _same_but_for_clocks(populated.dumps(), after)
    if script == "turn":
        assert _answer(again) == _answer(first)
    if script == "commit":
        assert (first, again) == ([b"OK", 2], [b"OK", 0])
    if script != "add_after":  # a second later its delay is another
        populated.run(script, **inputs)
        _same_but_for_clocks(populated.dumps(), after)


def test_an_open_whose_reply_was_lost_leaves_an_empty_session(populated: Populated) -> None:
    """It holds nothing, so it may lapse."""
    inputs = populated.inputs("open")
    first, again = populated.run("open", **inputs), populated.run("open", **inputs)
    assert first != again
    number = again.partition(b"-")[0]
    assert populated.store.read(("ZCOUNT", "processing", number, number)) == [0]


def _same_but_for_clocks(now: dict[str, Any], then: dict[str, Any]) -> None:
    ignored = {"meta", "sessions", "trace", "history", "links"}
    assert {name: now[name] for name in now.keys() - ignored} == {
        name: then[name] for name in then.keys() - ignored
    }


def _answer(reply: list[Any]) -> tuple[Any, ...]:
    """Return what of a turn's reply must be the same; its claims come in another order."""
    fence, _, alone, refused, dispositions, popped, records, *_ = reply
    claimed = dict(
        zip(popped[::2], zip(popped[1::2], records or [None] * len(popped), strict=False), strict=True)
    )
    return fence, alone, refused, dispositions, claimed


def test_scripts_that_the_server_forgot_are_loaded_again(populated: Populated) -> None:
    """A restart or a flush between any two calls is not noticed."""
    for script in SCRIPTS:
        populated.connection.execute("SCRIPT", "FLUSH")
        populated.run(script, **populated.inputs(script))


# The layout


def test_a_queue_of_a_newer_layout_is_refused(connection: Connection) -> None:
    """For every call, one line reports this and nothing is written."""
    connection.execute("HSET", key("meta"), "layout", 2)
    store = QueueStore(connection, "foos")
    with pytest.raises(LayoutTooNew, match=r'queue "foos" has layout 2: .* Upgrade distq here') as caught:
        store.run("add", items=["a"], priority=0, max_length="")
    assert not caught.value.retryable
    assert connection.execute("DBSIZE") == 1


def test_a_queue_that_became_newer_is_refused(populated: Populated) -> None:
    """A handle from before the upgrade opens no session after it."""
    populated.connection.execute("HSET", key("meta"), "layout", 2)
    before = populated.dumps()
    with pytest.raises(LayoutTooNew):
        populated.run("open", **populated.inputs("open"))
    assert populated.dumps() == before


def test_queues_are_known_by_name_also_after_a_wipe(populated: Populated) -> None:
    """The first use of a handle says that the queue exists, and so does each new session."""
    assert queue_names(populated.connection) == ["foos"]
    populated.connection.execute("FLUSHALL")
    assert queue_names(populated.connection) == []
    populated.open("anew")
    assert queue_names(populated.connection) == ["foos"]


# Limiters, evaluated where the failures are counted


class Delays:
    """Asks the queue for the delays of failures, all at one time unless given otherwise."""

    def __init__(self, populated: Populated, program: str) -> None:
        self.queue = populated
        self.program = program
        self.now = populated.time

    def __call__(self, item: str, times: int = 1, after: int = 0) -> list[int]:
        """Count failures, ``after`` µs later; return the delays in ms."""
        self.now += after
        self.queue.connection.server_time = self.now
        return [self._one(item) for _ in range(times)]

    def _one(self, item: str) -> int:
        due = self.queue.back_off(item, self.program)
        for name in ("delayed", "ready"):  # or the earliest would count
            self.queue.connection.execute("ZREM", key(name), item)
        return due - self.now // 1000 if due else 0


def test_item_exponential_failure(populated: Populated) -> None:
    """1, 2, 4, 8, 16 ms an item; forgotten, it begins again; it never exceeds the most."""
    delays = Delays(populated, "exp 1000 1000000")
    assert delays("one", 5) == [1, 2, 4, 8, 16]
    assert delays("two", 2) == [1, 2]
    populated.run("forget", items=["one"])
    assert delays("one") == [1]
    populated.connection.execute("HSET", key("failures"), "one", "1000 0 0 - ")
    assert delays("one") == [1000]


def test_item_exponential_failure_overflow(populated: Populated) -> None:
    """No count is too high: a minute's 2^1000 is a thousand hours."""
    delays = Delays(populated, "exp 60000000 3600000000000")
    assert delays("one", 3) == [60_000, 120_000, 240_000]
    populated.connection.execute("HSET", key("failures"), "one", "100000 0 0 - ")
    assert delays("one") == [3_600_000_000]


def test_no_delay_stays_none_after_many_failures(populated: Populated) -> None:
    """Twice nothing is nothing, also the two thousandth time."""
    delays = Delays(populated, "exp 0 1000000000")
    populated.connection.execute("HSET", key("failures"), "one", "2000 0 0 - ")
    assert delays("one") == [0]


def test_item_fast_slow(populated: Populated) -> None:
    """Fast thrice, then slow; each item for itself."""
    delays = Delays(populated, "fastslow 5000 10000000 3")
    assert delays("one", 5) == [5, 5, 5, 10_000, 10_000]
    assert delays("two", 2) == [5, 5]
    populated.run("forget", items=["one"])
    assert delays("one") == [5]


def test_max_of(populated: Populated) -> None:
    """The slowest counts."""
    delays = Delays(populated, "fastslow 5000 3000000 3 exp 1000 1000000 maxof 2")
    assert delays("one", 5) == [5, 5, 5, 3000, 3000]
    assert delays("two", 2) == [5, 5]


def test_max_of_charges_each(populated: Populated) -> None:
    """A bucket that is not the slowest loses its token nevertheless."""
    delays = Delays(populated, "fixed 500000 bucket 1 2 maxof 2")
    assert delays("one", 3) == [500, 500, 1000]


def test_max_wait(populated: Populated) -> None:
    """Never longer than the most."""
    delays = Delays(populated, "fastslow 5000 1000000000 100 maxwait 500000000")
    assert delays("one", 100) == [5] * 100
    assert delays("one", 3) == [500_000] * 3


def test_bucket_begins_full_and_goes_into_debt(populated: Populated) -> None:
    """Its burst is free; then each failure waits for its token, without bound."""
    delays = Delays(populated, "bucket 10 3")
    assert delays("one", 3) == [0, 0, 0]
    assert delays("two", 4) == [100, 200, 300, 400]
    assert delays("three", after=250_000) == [250]


def test_bucket_fills_up_to_its_burst(populated: Populated) -> None:
    """A long pause does not raise the limit."""
    delays = Delays(populated, "bucket 10 2")
    assert delays("one", 3) == [0, 0, 100]
    assert delays("one", 3, after=3_600_000_000) == [0, 0, 100]


def test_bucket_gains_nothing_from_a_clock_that_goes_back(populated: Populated) -> None:
    """Nor does it lose."""
    delays = Delays(populated, "bucket 10 1")
    assert delays("one", 2) == [0, 100]
    assert delays("one", after=-3_600_000_000) == [200]
    assert delays("one", after=1_000_000) == [0]


def test_buckets_are_named_by_rate_and_burst(populated: Populated) -> None:
    """Handles that mean the same bucket share it; others do not."""
    assert Delays(populated, "bucket 10 1")("one", 2) == [0, 100]
    assert Delays(populated, "bucket 10 2")("one", 2) == [0, 0]


@pytest.mark.parametrize(
    ("program", "delays"),
    [
        ("bucket inf 1", [0, 0, 0]),
        ("bucket inf 0", [0, 0, 0]),
        ("bucket 10 0", [315_576_000_000] * 3),
        ("bucket 0 2", [0, 0, 315_576_000_000]),
        ("fixed 1e30", [315_576_000_000] * 3),
        ("fixed 0", [0, 0, 0]),
    ],
)
def test_delays_have_bounds(populated: Populated, program: str, delays: list[int]) -> None:
    """An endless rate is no limit, no rate and no burst are for ever, and ever is ten years."""
    assert Delays(populated, program)("one", 3) == delays
