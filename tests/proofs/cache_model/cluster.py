"""The API server of the model: objects, their lists and watches, and every state that was ever true."""

import json
import random
from typing import NamedTuple

from distq.redisio.object_cache import CachedObject

NAMES = ("ns/a", "ns/b", "ns/c")
OWNERS = ("x", "y")
FIRST_VERSION = 95
"""So that versions of two digits are compared with those of three."""


class State(NamedTuple):
    """An object at a version: whether it is there, whether the stream selects it, and its owner."""

    version: int
    exists: bool = False
    selected: bool = False
    owners: tuple[str, ...] = ()

    def cached(self, name: str) -> CachedObject:
        """Return the object as it is put into the cache."""
        data = json.dumps(self.owners).encode()
        return CachedObject(name, str(self.version), data, {"owner": self.owners})


class Event(NamedTuple):
    """A change of an object, as its writer has it, or as the stream's watch reports it."""

    name: str
    state: State


class Cluster:
    """Objects, and each state that they had."""

    def __init__(self, draw: random.Random) -> None:
        self.version = self.oldest = FIRST_VERSION
        self._draw = draw
        self._history: dict[tuple[str, int], State] = {}

    def write(self) -> Event:
        """Create, change or delete an object; return what it is now."""
        self.version += 1
        name = self._draw.choice(NAMES)
        state = State(self.version)
        if not self._last(name).exists or self._draw.random() > 0.3:
            owners = tuple(owner for owner in OWNERS if self._draw.random() < 0.6)
            state = State(self.version, True, self._draw.random() < 0.8, owners)
        self._history[name, self.version] = state
        return Event(name, state)

    def state(self, name: str, version: int) -> State:
        """Return what an object was at a version, of which nothing is known unless it was written then."""
        return self._history.get((name, version), State(0))

    def listed(self) -> dict[str, State]:
        """Return what a list shows: all that is selected."""
        states = {name: self._last(name) for name in NAMES}
        return {name: state for name, state in states.items() if state.selected}

    def events_after(self, version: int) -> list[Event]:
        """Return what a watch from a version shows; what is selected no longer is shown as deleted."""
        return [
            Event(name, state)
            for (name, at), state in self._history.items()
            if at > version and (state.selected or self._last(name, at - 1).selected)
        ]

    def was_gone_after(self, name: str, version: int) -> bool:
        """Return whether an object was deleted or selected no longer at a later version."""
        return any(
            each == name and at > version and not s.selected for (each, at), s in self._history.items()
        )

    def restore(self, version: int) -> None:
        """Go back to a version, as from a backup."""
        self._history = {place: state for place, state in self._history.items() if place[1] <= version}
        self.version, self.oldest = version, min(self.oldest, version)

    def _last(self, name: str, version: int | None = None) -> State:
        until = self.version if version is None else version
        found = State(0)
        for (each, at), state in self._history.items():  # in the order of versions
            if each == name and at <= until:
                found = state
        return found
