"""Mistakes that the checker must find: without them its silence would be no evidence."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from distq.controller.stream.relist import Replacement
from distq.redisio.connection import Connection
from distq.workqueue import claim_deadline
from distq.workqueue.turn_client import TurnClient
from tests.proofs.history import loads
from tests.proofs.history.loads import Load
from tests.proofs.history.records import Violation
from tests.workqueue.mutants import MUTANTS, planted

Plant = Callable[[pytest.MonkeyPatch], AbstractContextManager[None]]


@dataclass(frozen=True)
class Control:
    """A mistake, the load in which it shows, and the invariants one of which it breaks."""

    name: str
    plant: Plant
    load: Load
    breaks: frozenset[str]

    def violations(self, connection: Connection) -> list[Violation]:
        """Run the load with the mistake in place."""
        patch = pytest.MonkeyPatch()
        with self.plant(patch):
            return self.load(connection)

    def is_caught(self, violations: Sequence[Violation]) -> bool:
        """Return whether it was found for what it is."""
        return any(violation.invariant in self.breaks for violation in violations)


def in_scripts(name: str) -> Plant:
    """Return what plants a mutant of the random tests."""
    (mutant,) = [mutant for mutant in MUTANTS if mutant.name == name]
    return lambda patch: planted(mutant, patch)


def in_python(of: object, name: str, instead: object) -> Plant:
    """Return what puts something else in place of a method or a constant."""

    @contextmanager
    def plant(patch: pytest.MonkeyPatch) -> Iterator[None]:
        with patch.context() as inner:
            inner.setattr(of, name, instead)
            yield

    return plant


def _enqueue_all_listed(self: Replacement, obj: Any, before: Any, _: Any) -> Any:
    return self._router.route_listed(obj, before)


CONTROLS = [
    Control("no dirty flag", in_scripts("no dirty flag"), loads.claims_and_delays, frozenset({"S1", "S5"})),
    Control(
        "last in, first out", in_scripts("last in, first out"), loads.claims_and_delays, frozenset({"S5"})
    ),
    Control(
        "promoted 1 ms early", in_scripts("promoted 1 ms early"), loads.claims_and_delays, frozenset({"S6"})
    ),
    Control(
        "failure record leaked",
        in_scripts("failure record leaked"),
        loads.claims_and_delays,
        frozenset({"S7"}),
    ),
    Control(
        "more of a flow than its limit",
        in_scripts("more of a flow than its limit"),
        loads.limited_flows,
        frozenset({"S14"}),
    ),
    Control("fence not checked", in_scripts("fence not checked"), loads.zombie, frozenset({"S2"})),
    Control(
        "no compare-and-set", in_scripts("last batch not compared"), loads.two_leaders, frozenset({"S11"})
    ),
    Control(
        "unchanged relist enqueued",
        in_python(Replacement, "_route", _enqueue_all_listed),
        loads.relist,
        frozenset({"S4"}),
    ),
    Control(
        "heartbeat by count",
        in_python(TurnClient, "knows", lambda self, turn: True),  # noqa: ARG005  # knows() has these
        loads.rollback,
        frozenset({"S1'"}),
    ),
    Control("late fence", in_python(claim_deadline, "_TICK", -10.0), loads.cut_off, frozenset({"S1'"})),
]
