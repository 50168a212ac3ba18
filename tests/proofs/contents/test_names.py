"""How people see and name what is in a queue and is no key."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distq.errors import InvalidKey, TerminalError
from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.redisio.keys import bytes_of, is_key, named, queue_key, shown, text_of, validate_key
from distq.workqueue.queue import Queue
from tests.proofs.contents.garbage import MEMBERS

NAME = "odd"


def plant(connection: Connection, structure: str, *items: bytes) -> None:
    """Add items to a queue as no handle of ours would."""
    connection.execute("HSET", "distq:queues", NAME, 1)
    for item in items:
        connection.execute("ZADD", queue_key(NAME, structure), 1, item)


@given(st.binary(max_size=40))
def test_every_item_becomes_text_and_comes_back(item: bytes) -> None:
    """Any bytes, and the text is printable in front of people."""
    assert bytes_of(text_of(item)) == item
    shown(item).encode()
    if item:
        assert item in named(shown(item))


@given(st.binary(max_size=40) | st.text(max_size=10).map(lambda text: text.encode(errors="replace")))
def test_a_worker_and_an_add_agree_on_which_names_are_keys(item: bytes) -> None:
    """No other item reaches a handler."""
    try:
        is_accepted = validate_key(item.decode()) == item
    except (InvalidKey, UnicodeDecodeError):
        is_accepted = False
    assert is_key(text_of(item), len(item)) == is_accepted


def test_a_key_that_looks_like_an_escape_is_still_that_key() -> None:
    """Backslashes are letters; only what is no key at all is named by escapes."""
    assert named(r"ns/a\x41") == [rb"ns/a\x41"]
    assert named(r"caf\xe9") == [b"caf\xe9", rb"caf\xe9"]
    assert named("café") == ["café".encode()]
    with pytest.raises(InvalidKey):
        named("caf\xe9\n")


@pytest.mark.parametrize("item", [member for member in MEMBERS if 0 < len(member) <= 1024])
def test_people_see_and_repair_a_name_that_is_no_key(connection: Connection, item: bytes) -> None:
    """By the name that is shown: look, park, requeue, delete."""
    inspector, name = Inspector(connection), shown(item)
    plant(connection, "ready", item)
    assert [found.key for found in inspector.items(NAME)] == [name]
    assert [found.key for found in inspector.items(NAME, match="*?*")] == [name]
    found = inspector.item(NAME, name)
    assert found is not None
    assert (found.key, found.state) == (name, "ready")
    assert inspector.park(NAME, name) == 1
    assert inspector.requeue(NAME, name) == 1
    assert inspector.delete(NAME, name) == 1
    assert inspector.items(NAME) == []


def test_all_of_a_state_are_repaired_with_any_names(connection: Connection) -> None:
    """Names that a scan returns are taken as they are: the empty and the far too long ones, too."""
    inspector = Inspector(connection)
    plant(connection, "dead", *MEMBERS)
    assert inspector.requeue(NAME, state="dead") == len(MEMBERS)
    assert inspector.park(NAME, state="ready") == len(MEMBERS)
    assert inspector.delete(NAME, state="dead", match="*") == len(MEMBERS)
    assert inspector.queues()[0].dead == 0


@pytest.mark.parametrize("state", ["ready", "dead"])
def test_a_claim_that_a_foreign_program_wrote_hides_no_state(connection: Connection, state: str) -> None:
    """An item is processed where its claim and its place among the claimed say so."""
    queue, inspector = Queue(NAME, connection), Inspector(connection)
    queue.add("a")
    if state == "dead":
        queue.settle(queue.get(0), TerminalError("no"))
    connection.execute("HSET", queue_key(NAME, "claims"), "a", "three words here")
    (item,) = inspector.items(NAME)
    assert item.state == state
    assert item.reason == ("terminal" if state == "dead" else None)
