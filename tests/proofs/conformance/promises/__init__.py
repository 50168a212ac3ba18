"""What client-go and controller-runtime promise, id by id, and what distq makes of it.

Each module here holds the rows of some ids in ``ROWS``; a test covers an id by the marker
``conformance``. ``python -m tests.proofs.conformance`` prints the table with the tests.
"""

import importlib
import pkgutil
from dataclasses import dataclass
from typing import Literal

REDIS = ("redis7", "redis6", "valkey9")
API_SERVERS = ("emulator", "real")
SERVERS = (*REDIS, "memory", "oracle", *API_SERVERS)
"""Where tests run: on a server of this kind, on a queue in memory, or beside the original in Go."""

Kind = Literal["same", "different", "not applicable"]


@dataclass(frozen=True)
class Row:
    """One promise: what holds in distq, and on which servers a test has to show it.

    A difference is documented by the row of docs/coming-from/client-go.md that begins with ``documented``;
    what does not apply says ``why``.
    """

    id: str
    kind: Kind
    rule: str
    on: tuple[str, ...] = REDIS
    documented: str = ""
    why: str = ""


def same(identity: str, rule: str, *, on: tuple[str, ...] = REDIS) -> Row:
    """Describe what holds in distq as in the original."""
    return Row(identity, "same", rule, on)


def different(identity: str, rule: str, documented: str, *, on: tuple[str, ...] = REDIS) -> Row:
    """Describe what holds in distq instead of the original's rule, which a row of the table names."""
    return Row(identity, "different", rule, on, documented)


def not_applicable(identity: str, rule: str, why: str) -> Row:
    """Name a rule of the original that has no meaning here."""
    return Row(identity, "not applicable", rule, (), why=why)


def load() -> dict[str, Row]:
    """Return all rows by id, the queue's first. Raises ValueError for an id twice."""
    first = ("queue", "limiters", "priority", "sharing")
    others = sorted({module.name for module in pkgutil.iter_modules(__path__)} - set(first))
    rows: dict[str, Row] = {}
    for name in (*first, *others):
        for row in importlib.import_module(f"{__name__}.{name}").ROWS:
            if row.id in rows:
                raise ValueError(f"two rows of {row.id}")
            rows[row.id] = row
    return rows
