"""How one item of one list is named in URLs: ``<queue>:<state>:<key>``.

The same key can be in several queues and states, and rq-dashboard's action URLs carry nothing but an id,
so the id says all three. Keys are any text: they are percent-encoded with ``~`` in place of ``%``, because
servers decode ``%2F`` before they route.
"""

from dataclasses import dataclass
from typing import Self, get_args
from urllib.parse import quote, unquote

from distq.inspector import Listing


def encoded(key: str) -> str:
    """Return a key as URLs have it: letters, digits, ``-``, ``.``, ``_`` and ``~``."""
    text = quote(key, safe="").replace("~", "%7E")
    if key in {".", ".."}:
        text = text.replace(".", "%2E")  # a browser would take these for folders
    return text.replace("%", "~")


def decoded(text: str) -> str | None:
    """Return the key that was encoded so; None for what no key is encoded to."""
    try:
        key = unquote(text.replace("~", "%"), errors="strict")
        return key if encoded(key) == text else None
    except UnicodeError:
        return None


@dataclass(frozen=True, slots=True)
class ItemId:
    """One item as a list shows it; an empty key means the list itself."""

    queue: str
    state: str
    key: str

    def __str__(self) -> str:
        """Return the id: letters, digits, ``-``, ``.``, ``_``, ``~`` and two colons."""
        return f"{self.queue}:{self.state}:{encoded(self.key)}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read an id back; None for anything that no item is named."""
        queue, _, rest = text.partition(":")
        state, _, rest = rest.partition(":")
        key = decoded(rest)
        found = None if key is None or state not in get_args(Listing) else cls(queue, state, key)
        return found if str(found) == text else None
