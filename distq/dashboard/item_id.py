"""How one item of one list is named in URLs: ``<queue>:<state>:<key>``.

The same key can be in several queues and states, and rq-dashboard's action URLs carry nothing but an id,
so the id says all three. Keys are any text: they are percent-encoded with ``~`` in place of ``%``, because
servers decode ``%2F`` before they route.
"""

from dataclasses import dataclass
from typing import Self
from urllib.parse import quote, unquote

from distq.dashboard.registries import LISTED_STATES


@dataclass(frozen=True, slots=True)
class ItemId:
    """One item as a list shows it; an empty key means the list itself."""

    queue: str
    state: str
    key: str

    def __str__(self) -> str:
        """Return the id: letters, digits, ``-``, ``.``, ``_``, ``~`` and two colons."""
        encoded = quote(self.key, safe="").replace("~", "%7E").replace("%", "~")
        return f"{self.queue}:{self.state}:{encoded}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read an id back; None for anything that no item is named."""
        queue, _, rest = text.partition(":")
        state, _, encoded = rest.partition(":")
        try:
            key = unquote(encoded.replace("~", "%"), errors="strict")
            found = cls(queue, state, key)
            return found if state in LISTED_STATES and str(found) == text else None
        except UnicodeError:
            return None
