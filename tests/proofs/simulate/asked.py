"""What happened to the Redis of a simulation, one thing after the other."""

from dataclasses import dataclass
from typing import Any

Inputs = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """A script was called at a time of the server, in µs, and answered."""

    script: str
    inputs: Inputs
    time: int
    reply: Any


@dataclass(frozen=True)
class Saved:
    """All that there was, as bytes, was put aside by a name."""

    name: str
    state: bytes


@dataclass(frozen=True)
class Restored:
    """Everything became what had been saved by that name, nothing where nothing had been."""

    name: str


@dataclass(frozen=True)
class Look:
    """This was all that there was, as bytes."""

    state: bytes


Asked = Call | Saved | Restored | Look
