"""The numbers and texts that queues are made of say the same to the scripts and to us."""

import json
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distq.errors import InvalidKey, InvalidQueueName
from distq.redisio.connection import Connection
from distq.redisio.keys import validate_key, validate_queue_name
from distq.redisio.queue_store import QueueStore
from distq.redisio.records import ClaimRecord, FailureRecord, StreamRecord
from distq.redisio.scores import decode_due, decode_order

YEAR_2100 = 4_102_444_800_000_000
priorities = st.integers(-900, 900)
times = st.integers(0, YEAR_2100)


def _order(priority: int, since: int) -> float:
    """Return the order of an item as the scripts make it."""
    return math.ldexp(2**52 + since, -priority)


@given(priorities, times)
def test_an_order_holds_priority_and_time_exactly(priority: int, since: int) -> None:
    """To the µs, at any priority; as a number, and as the text that Redis keeps."""
    score = _order(priority, since)
    assert decode_order(score) == (priority, since)
    assert decode_order(b"%.17g" % score) == (priority, since)


@given(priorities, times, priorities, times)
def test_orders_compare_as_promised(priority: int, since: int, other_priority: int, other_since: int) -> None:
    """Higher priority first, then who waits longer."""
    comes_first = (-priority, since) < (-other_priority, other_since)
    assert (_order(priority, since) < _order(other_priority, other_since)) == comes_first


def test_scripts_write_orders_as_we_read_them(connection: Connection) -> None:
    """For a sample of all priorities and times."""
    store = QueueStore(connection, "foos")
    chosen = random.Random(1)
    for priority in (-900, 900, 0, *[chosen.randint(-900, 900) for _ in range(40)]):
        connection.server_time = since = chosen.randrange(1, YEAR_2100)
        connection.execute("DEL", store.key("meta"), store.key("ready"))
        store.run("add", items=["a"], priority=priority, max_length="")
        ((_, score),) = store.read(("ZRANGE", "ready", 0, -1, "WITHSCORES"))
        assert decode_order(score) == (priority, since)


def test_scripts_write_due_times_as_we_read_them(connection: Connection) -> None:
    """Never early, less than 1 ms late, with the priority."""
    store = QueueStore(connection, "foos")
    chosen = random.Random(2)
    for priority in (-900, 900, 0, *[chosen.randint(-900, 900) for _ in range(40)]):
        connection.server_time = now = chosen.randrange(1, YEAR_2100)
        delay = chosen.choice([1, 999, 1000, chosen.randrange(1, 10**12)])
        connection.execute("DEL", store.key("delayed"))
        store.run("add_after", items=["a"], priority=priority, max_length="", delay=delay)
        ((_, score),) = store.read(("ZRANGE", "delayed", 0, -1, "WITHSCORES"))
        decoded_priority, due = decode_due(score)
        assert decoded_priority == priority
        assert now + delay <= due < now + delay + 1000


def test_scripts_write_claims_as_we_read_them(connection: Connection) -> None:
    """Session, fence, and where the item was."""
    store = QueueStore(connection, "foos")
    connection.server_time = 1_795_000_000_000_001
    store.run("add", items=["a"], priority=-7, max_length="")
    opened = store.run(
        "open", layout=1, nonce="n", claim_duration=30_000_000, max_clock_step=10_000_000, worker="{}"
    )
    policy: dict[str, str | int] = {
        "max_retries": "",
        "revive_after": "",
        "limiter": "",
        "fleet_concurrency": "",
        "fleet_concurrency_per_flow": "",
        "max_clock_step": 10_000_000,
    }
    turn = store.run("turn", session=opened, op=1, after="", want=1, n_ok=0, settlements=[], **policy)
    (text,) = store.read(("HGET", "claims", "a"))
    session = int(opened.partition(b"-")[0])
    assert ClaimRecord.parse(text) == ClaimRecord(session, int(turn[0]), -7, 1_795_000_000_000_001)


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        (b"3 0 1795 - boom: a b", FailureRecord(3, 0, 1795, "", "boom: a b", "")),
        (b"0 2 0 - ", FailureRecord(0, 2, 0, "", "", "")),
        (b"0 2 0 -@17,18 ", FailureRecord(0, 2, 0, "", "", "")),
        (
            b"1 3 5 crashes@17,18,19 its workers died",
            FailureRecord(1, 3, 5, "crashes", "its workers died", ""),
        ),
        (b"1 0 5 a@b@7 no", FailureRecord(1, 0, 5, "a@b", "no", "")),
        (b"9 1 5 terminal no\nline 1\nline 2", FailureRecord(9, 1, 5, "terminal", "no", "line 1\nline 2")),
        (b"1 3 5 crashes its workers died", FailureRecord(1, 3, 5, "crashes", "its workers died", "")),
        (b"1 0 5 - caf\xc3", FailureRecord(1, 0, 5, "", "caf\N{REPLACEMENT CHARACTER}", "")),
    ],
)
def test_failures_are_read(text: bytes, failure: FailureRecord) -> None:
    """With and without reason, text and traceback; a text that was cut within a letter, too."""
    assert FailureRecord.parse(text) == failure


def test_streams_are_read() -> None:
    """With any report of their leaders."""
    about = {"leader": "a b", "lag": None}
    text = f"12 5~r1:3 b-7 {json.dumps(about)}".encode()
    assert StreamRecord.parse(text) == StreamRecord("12", "5~r1:3", "b-7", about)


@given(st.text(max_size=600))
def test_a_key_is_valid_or_refused(key: str) -> None:
    """An accepted key is UTF-8 of 1 to 1024 bytes without control characters, and comes back as it was."""
    try:
        valid = validate_key(key)
    except InvalidKey:
        return
    assert valid.decode() == key
    assert 1 <= len(valid) <= 1024
    assert not any(ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in key)


@pytest.mark.bound("KEY_BYTES")
@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("", "empty"),
        ("a\nb", "control characters"),
        ("a\x9fb", "control characters"),
        ("\ud800", "not valid Unicode"),
        ("x" * 1025, "1025 bytes"),
        ("ü" * 513, "1026 bytes"),
        (b"bytes", "a bytes"),
        (None, "a NoneType"),
    ],
)
def test_the_error_for_a_bad_key_says_why(key: object, says: str) -> None:
    """In one line that names the remedy."""
    with pytest.raises(InvalidKey, match=says) as caught:
        validate_key(key)  # type: ignore[arg-type]  # the point of the test
    assert "Use " in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["a", "ns/name", "with space", "ü" * 512, "{}", "a}b", "__proto__", "1e400"])
def test_any_other_key_comes_back_as_it_was(key: str, connection: Connection) -> None:
    """No text means anything to the scripts."""
    store = QueueStore(connection, "foos")
    store.run("add", items=[validate_key(key)], priority=0, max_length="")
    assert store.read(("ZRANGE", "ready", 0, -1)) == [[key.encode()]]


@pytest.mark.parametrize("name", ["foos", "a", "A.b-c_9", "0", "x" * 63])
def test_good_queue_names(name: str) -> None:
    """Letters, digits, dots, dashes and underscores."""
    assert validate_queue_name(name) == name


@pytest.mark.parametrize("name", ["", "-a", ".a", "a b", "a}b", "{a}", "ü", "x" * 64, "a\n", None])
def test_bad_queue_names(name: object) -> None:
    """Names that could not be a key, a file or a label."""
    with pytest.raises(InvalidQueueName, match="bad queue name"):
        validate_queue_name(name)  # type: ignore[arg-type]  # the point of the test
