"""An id names one item of one list, for any key."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distq.dashboard.item_id import ItemId

KEYS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=100)
QUEUES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", fullmatch=True)
STATES = st.sampled_from(["ready", "dirty", "delayed", "processing", "dead"])


@given(queue=QUEUES, state=STATES, key=KEYS)
def test_any_key_comes_back_from_its_id(queue: str, state: str, key: str) -> None:
    """An id is read back to exactly what it was made of, and needs no encoding in a URL."""
    text = str(ItemId(queue, state, key))
    assert ItemId.parse(text) == ItemId(queue, state, key)
    assert re.fullmatch(r"[A-Za-z0-9._~:-]+", text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "foos",
        "foos:ready",
        "foos:gone:a",
        "foos:ready:a/b",
        "foos:ready:~zz",
        "foos:ready:~C3",
        "foos:ready:~2f",
    ],
)
def test_a_text_that_is_no_id_is_refused(text: str) -> None:
    """Text that no item would be given as its id is no id, so that each item has one URL."""
    assert ItemId.parse(text) is None
