"""How a leader reads its streams when they hold any bytes."""

import pytest

from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.keys import queue_key
from distq.redisio.stream_store import Committed, Mismatch, StreamStore
from tests.proofs.contents.garbage import MEMBERS, TEXTS

STREAM = "v1/Pod"


@pytest.fixture
def store(connection: Connection) -> StreamStore:
    """Make a stream whose position is version 100."""
    store = StreamStore(connection, "foos", STREAM)
    store.commit(Commit(epoch="7", after="", new="100", batch="b0", keys=["ns/pod"], known={"ns/pod": "100"}))
    return store


@pytest.mark.parametrize(
    "text",
    [
        *(b"garbage", b"", b"\xff\x00\xfe", b"three words here", b"9" * 400, b"null"),
        # as many words as a record has: no such epoch, position or batch
        *(
            b"some other program's words",
            b"7 5\xc2\xa05 b0 {}",
            b"7 100 b\xe2\x80\x830 {}",
            b"7 \xff \xff {}",
        ),
    ],
)
def test_a_record_that_cannot_be_read_counts_as_none(
    store: StreamStore, connection: Connection, text: bytes
) -> None:
    """The leader notices at its next commit, finds nothing, and begins anew with a list."""
    connection.execute("HSET", queue_key("foos", "streams"), STREAM, text)
    assert store.commit(Commit(epoch="7", after="b0", new="101", batch="b1")) == Mismatch("")
    assert store.load() is None
    assert isinstance(
        store.commit(Commit(epoch="7", after="", new="101", batch="b1", keys=["ns/pod"])), Committed
    )
    record = store.load()
    assert record is not None
    assert (record.epoch, record.position) == ("7", "101")


@pytest.mark.parametrize("text", TEXTS)
def test_a_known_set_of_any_bytes_is_read_and_forgotten(
    store: StreamStore, connection: Connection, text: bytes
) -> None:
    """Names and values come back as they are, so that a list can drop them."""
    for name in MEMBERS:
        connection.execute("HSET", queue_key("foos", f"known:{STREAM}"), name, text)
    known = dict(store.known())
    assert len(known) == 1 + len(MEMBERS)
    odd = [name for name in known if name != "ns/pod"]
    assert {*store.known_of(odd)} == {known[odd[0]]}
    store.commit(Commit(epoch="7", after="b0", new="101", batch="b1", gone=odd))
    assert dict(store.known()) == {"ns/pod": "100"}
