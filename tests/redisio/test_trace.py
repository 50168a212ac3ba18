"""The trace: one entry for each call, true, bounded, never in the way of the queue; on every server."""

from typing import Any

import pytest

from distq.redisio import scripts, trace
from distq.redisio.connection import Connection
from distq.redisio.queue_store import QueueStore
from distq.redisio.trace import TracedCall, ends_at, entries, switch_off, switch_on
from tests.support.populated import Populated

QUEUE_SCRIPTS = [name for name in scripts.names() if name != "trace"]


@pytest.fixture
def populated(connection: Connection) -> Populated:
    """Make a queue with something of everything, that is traced."""
    populated = Populated(connection)
    switch_on(populated.store, seconds=3600)
    return populated


@pytest.fixture
def store(connection: Connection) -> QueueStore:
    """Name a queue that is not traced."""
    return QueueStore(connection, "foos")


def add(store: QueueStore, *items: bytes | str) -> None:
    """Add items."""
    store.run("add", items=items, priority=0, max_length="")


def _words(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def called(store: QueueStore) -> list[str]:
    """Return the scripts of which there are entries."""
    return [entry.script for entry in entries(store)]


def test_a_queue_that_is_not_traced_leaves_nothing(store: QueueStore) -> None:
    """No entry, no key."""
    add(store, "a")
    assert store.read(("EXISTS", "trace")) == [0]


@pytest.mark.parametrize("script", QUEUE_SCRIPTS)
def test_each_script_leaves_its_inputs_and_its_reply(populated: Populated, script: str) -> None:
    """In the words that it has for it; the time is that which it went by."""
    inputs = populated.inputs(script)
    reply = populated.run(script, **inputs)
    *_, last = entries(populated.store)
    assert (last.script, last.reply, last.cut) == (script, reply, 0)
    traced = last.inputs
    assert traced.keys() - {"time"} == inputs.keys()
    assert last.at_us == (populated.time if "time" in traced else None)
    for name, value in inputs.items():
        expected = [_words(each) for each in value] if isinstance(value, list) else _words(value)
        if name == "rest":
            expected = expected[: -3 * inputs["n_cached"]]  # cached objects may be secrets
        assert traced[name] == expected, name


def test_a_call_that_changes_nothing_is_traced_too(populated: Populated) -> None:
    """A zombie's turn, a commit of a former leader: a reader looks for refused calls."""
    populated.run("turn", **populated.inputs("turn") | {"session": "1-nobody"})
    populated.run("commit", **populated.inputs("commit") | {"epoch": "1"})
    *_, zombie, former = entries(populated.store)
    assert (zombie.reply, former.reply) == (b"LOST", [b"FENCED", b"7"])


def test_an_entry_has_the_other_effects_of_its_call(populated: Populated) -> None:
    """A turn names the items whose delay ended, and those of sessions that have ended."""
    mine = populated.session
    other = populated.open("other")
    populated.run("close", session=mine, worker="")
    populated.time += 120_000_000
    populated.turn("first", [], want=9, session=other)
    *_, turn = entries(populated.store)
    number = int(mine.partition("-")[0])
    assert set(turn.due) == {b"later", b"backs-off"} - {item for item, _, _ in turn.taken_back}
    assert {(b"held", number, "released"), (b"again", number, "released")} <= set(turn.taken_back)


@pytest.mark.parametrize(
    "item",
    [b"caf\xe9", b"\x00\x1f\x7f", 'quote" back\\slash / \u20ac \U0001f600'.encode(), b"\xed\xa0\x80{}"],
)
def test_bytes_that_are_no_text_come_back_as_they_were(store: QueueStore, item: bytes) -> None:
    """For any bytes of a foreign program."""
    switch_on(store, seconds=60)
    add(store, item)
    *_, last = entries(store)
    assert last.inputs["items"] == [item]


def test_a_trace_ends_by_itself(populated: Populated) -> None:
    """At its time, by the server's clock; its entries stay for a day."""
    switch_on(populated.store, seconds=5)
    populated.run("pause")
    populated.time += 5_000_000
    populated.run("resume")  # which asks for no time
    populated.run("pause")
    populated.run("resume")
    assert called(populated.store)[-3:] == ["trace", "pause", "resume"]
    assert trace.ends_at(populated.store.read(("HGET", "meta", "trace"))[0]) is None
    (left,) = populated.store.read(("PTTL", "trace"))
    assert 0 < left <= (trace.KEPT + 3600) * 1000


def test_a_trace_that_is_switched_off_says_so(store: QueueStore) -> None:
    """Begin and end are entries themselves; switched on again it goes on."""
    switch_on(store, seconds=60)
    switch_off(store)
    add(store, "a")
    switch_on(store, seconds=60)
    assert called(store) == ["trace", "trace", "trace"]


@pytest.mark.bound("TRACE_ENTRIES", "TRACE_ENTRY_BYTES")
def test_a_trace_is_bounded(store: QueueStore) -> None:
    """The oldest entries go; of one that is too long the name stays, and its length."""
    switch_on(store, seconds=60, limit=100, longest=200)
    for _ in range(500):
        add(store, "a")
    add(store, "a" * 300)
    found = list(entries(store))
    assert len(found) <= 250
    assert (found[-1].script, found[-1].args, found[-1].reply) == ("add", [], None)
    assert found[-1].cut > 300
    assert found[-1].at_us


def test_a_trace_that_cannot_be_written_ends(store: QueueStore) -> None:
    """The queue goes on: a foreign program wrote another type in its place."""
    switch_on(store, seconds=60)
    store.connection.execute("SET", store.key("trace"), "by hand")
    add(store, "a", "b")
    assert store.read(("ZCARD", "ready")) == [2]
    store.connection.execute("DEL", store.key("trace"))
    add(store, "c")
    assert not list(entries(store)), "it had ended, and no half of a timeline is shown"


def test_full_memory_ends_no_work(populated: Populated) -> None:
    """Work that is possible then is done, traced or not."""
    inputs = populated.inputs("turn")
    populated.connection.execute("CONFIG", "SET", "maxmemory", 1)
    try:
        assert populated.run("turn", **inputs) != b"LOST"
    finally:
        populated.connection.execute("CONFIG", "SET", "maxmemory", 0)


def test_a_foreign_entry_is_an_entry_of_nothing(store: QueueStore) -> None:
    """It is read without an error."""
    times = [f'{{"call":"add","at":"{time}"}}'.encode() for time in ("9" * 30, "9" * 5000, "²")]
    for text in (b"", b"\xff", b"[]", b'{"call":7,"at":7,"args":{}}', *times):
        assert TracedCall.parse(b"1-1", text).at_us is None


@pytest.mark.parametrize("value", [b"9" * 30, b"9" * 5000, b"-1", b"nan", b"garbage", b""])
def test_a_trace_that_ends_at_no_time_is_none(value: bytes) -> None:
    """No moment that a calendar lacks gets into the numbers of a queue."""
    assert ends_at(value) is None


def test_an_entry_of_another_version_is_an_entry_of_nothing(store: QueueStore) -> None:
    """Its scripts may ask for other things, and a trace outlives the upgrade by a day."""
    switch_on(store, seconds=60)
    add(store, "a")
    _, (entry_id, fields) = store.read(("XRANGE", "trace", "-", "+"))[0]
    assert TracedCall.parse(entry_id, fields[1]).script == "add"
    text = fields[1].replace(scripts.load("add").asks.encode(), b"01234567")
    assert TracedCall.parse(entry_id, text).script == ""
    assert TracedCall.parse(entry_id, b'{"call":"add","args":["0","0","","a"],"reply":[1,1]}').script == ""


@pytest.mark.bound("TRACE_BYTES")
def test_a_trace_takes_at_most_its_bytes(store: QueueStore) -> None:
    """With entries of any sizes: the newest are kept, and at least half of the limit is used."""
    most = 100_000
    switch_on(store, seconds=60, limit=100_000, max_bytes=most)
    for length in (900, 1, 400):
        for _ in range(2000):
            add(store, "a" * length)
        (found,) = store.read(("XRANGE", "trace", "-", "+"))
        slack = 100 * (length + 200)  # Redis drops whole pages of a stream
        assert most / 2 - 2000 < sum(len(fields[1]) for _, fields in found) < most + slack


def test_the_entries_of_an_earlier_trace_give_way_by_and_by(store: QueueStore) -> None:
    """Switched on again, a trace does not begin by dropping what there is."""
    switch_on(store, seconds=60)
    for _ in range(20):
        add(store, "a")
    switch_on(store, seconds=60, max_bytes=1000)
    add(store, "a")
    assert len(list(entries(store))) == 23
    for _ in range(400):
        add(store, "a")
    assert len(list(entries(store))) < 150


@pytest.mark.parametrize(
    ("match", "item", "fits"),
    [
        ("prod/*", "prod/web", True),
        ("prod/*", "prod/", True),
        ("prod/*", "test/prod/web", False),
        ("*/web", "prod/web", True),
        ("*/web", "prod/web-1", False),
        ("prod/*-1", "prod/web-1", True),
        ("ab*ba", "aba", False),
        ("ab*ba", "abba", True),
        ("*a*b*c*", "xaxbxcx", True),
        ("*a*b*c*", "xaxcxbx", False),
        ("*", "prod/web", True),
        ("prod/web", "prod/web", True),
        ("prod/web", "prod/web-1", False),
        ("%a.[x]?", "%a.[x]?", True),
        ("%a.[x]?", "ba!x!", False),
        ("é*", "\u00e9t\u00e9", True),
        ("a" + "*a" * 100 + "b", "a" * 1000, False),
    ],
)
def test_only_calls_that_name_such_an_item_are_noted(
    store: QueueStore, match: str, item: str, fits: bool
) -> None:
    """* * matches any text and nothing else is special; scripts and readers mean the same by it."""
    switch_on(store, seconds=60, match=match)
    add(store, item)
    assert called(store) == (["trace", "add"] if fits else ["trace"])
    assert trace.matches(item.encode(), match.encode()) == fits


def test_the_description_of_a_process_names_no_item(populated: Populated) -> None:
    """A heartbeat comes each second of each worker, whose host may be called as items are."""
    switch_on(populated.store, seconds=3600, match="*web*")
    inputs = populated.inputs("heartbeat") | {"session": populated.session, "worker": '{"host": "web-1"}'}
    for _ in range(2):  # the first may move what matches
        before = len(called(populated.store))
        populated.run("heartbeat", **inputs)
    assert called(populated.store)[before:] == []


def test_items_that_move_beside_the_named_ones_are_noted_too(populated: Populated) -> None:
    """An item that a turn claims, that falls due, or that is taken back; and the queue as a whole."""
    switch_on(populated.store, seconds=3600, match="h*d")
    populated.run("close", session=populated.session, worker="")
    other = populated.open("other")
    before = len(called(populated.store))
    populated.run("heartbeat", **populated.inputs("heartbeat") | {"session": other})
    populated.turn("first", [], want=9, session=other)
    populated.turn("second", [], want=9, session=other)
    populated.run("pause")
    assert called(populated.store)[before:] in (["heartbeat", "turn", "pause"], ["turn", "pause"])
    assert {entry.match for entry in list(entries(populated.store))[-2:]} == {"h*d"}
    *_, turn, _ = entries(populated.store)
    assert turn.tells_of(b"held")
    assert not turn.tells_of(b"again")
