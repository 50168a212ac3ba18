"""Which fleet plays which faults: several fleets at the same time, since most of a fault is waiting."""

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.proofs.nemesis.catalogue import Fault, Topology


class Planned(NamedTuple):
    """A fault, the kind of Redis, and the limit of each namespace, None where there is none."""

    fault: Fault
    kind: str
    limit: int | None = None


FLEETS = 4
"""At the same time; two cores have time for as many."""

WORTH_A_FLEET = 4
"""Faults that must be left for another fleet to help: a fleet takes as long to start as a fault lasts."""


@dataclass
class Group:
    """Faults that the same fleet can play; ``begun`` counts the fleets so far, ``playing`` those at it."""

    kind: str
    topology: Topology
    limit: int | None = None
    left: deque[Fault] = field(default_factory=deque)
    begun: int = 0
    playing: int = 0

    def pop(self) -> Fault | None:
        """Return the next fault, None where all are taken."""
        try:
            return self.left.popleft()
        except IndexError:
            return None

    def wants_real_server(self) -> bool:
        """Return whether one of those left needs a real API server."""
        return any(fault.real for fault in list(self.left))


class Lanes:
    """Hands groups to fleets: first those that no fleet plays, then the one with most faults left."""

    def __init__(self, plan: Iterable[Planned]) -> None:
        self._lock = threading.Lock()
        self._groups = _groups(plan)

    def next_group(self) -> Group | None:
        """Return what a fleet plays next, None where there is nothing, or too little to help with."""
        with self._lock:
            waiting = [group for group in self._groups if group.left and not group.playing]
            shared = [group for group in self._groups if len(group.left) >= WORTH_A_FLEET]
            group = max(waiting or shared, key=lambda group: len(group.left), default=None)
            if group is not None:
                group.begun += 1
                group.playing += 1
            return group

    def leave(self, group: Group) -> None:
        """Note that a fleet has ended; it may have left something, where a fault was too much for it."""
        with self._lock:
            group.playing -= 1


def _groups(plan: Iterable[Planned]) -> Sequence[Group]:
    """Sort the faults by where they are played: those of a real API server first, those that spoil last."""
    groups: dict[tuple[str, Topology, int | None], Group] = {}
    for fault, kind, limit in sorted(plan, key=lambda each: (each.fault.spoils, not each.fault.real)):
        where = (kind, fault.topology, limit)
        group = groups.setdefault(where, Group(*where))
        group.left.append(fault)
    return list(groups.values())
