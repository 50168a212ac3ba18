"""The faults that there are, by their names in the order of the pages that tell of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.redis_servers import KINDS

if TYPE_CHECKING:
    from tests.nemesis.stage import Stage

CANCEL_SHARE = 0.1
"""Of a claim duration handlers have so much to end in, once they are cancelled."""
HEARTBEATS = 3
"""In a claim duration."""


@dataclass(frozen=True)
class Fault:
    """What is done to the fleet, and what is required of it.

    ``forgets``: Redis goes back or loses data, so that plain adds of others may be gone, and runs may
    overlap for a heartbeat and the time to cancel. ``thaws``: a process goes on that was frozen, and then has
    the time to cancel. ``server`` is where the short profile does it, of ``servers`` on which it is
    possible. Nobody may lose a session where it ``spares_sessions``. One that ``spoils`` may leave something
    of the queue behind, so nothing comes after it. ``real`` needs a real API server, ``older`` the code of
    0.1.0.
    """

    name: str
    what: str
    required: str
    inflict: "Callable[[Stage], None]"
    server: str
    servers: tuple[str, ...] = KINDS
    forgets: bool = False
    thaws: bool = False
    spares_sessions: bool = False
    spoils: bool = False
    real: bool = False
    older: bool = False

    def permitted_overlap(self, claim_duration: float) -> float:
        """Return for how many seconds two runs of one key may overlap."""
        heartbeat, cancel = claim_duration / HEARTBEATS, claim_duration * CANCEL_SHARE
        return heartbeat + cancel if self.forgets else cancel if self.thaws else 0.0


FAULTS: dict[str, Fault] = {}


def fault(
    name: str,
    required: str,
    *,
    server: str = "valkey9",
    servers: tuple[str, ...] = KINDS,
    forgets: bool = False,
    thaws: bool = False,
    spares_sessions: bool = False,
    spoils: bool = False,
    real: bool = False,
    older: bool = False,
) -> "Callable[[Callable[[Stage], None]], Callable[[Stage], None]]":
    """Make a function a fault of the catalogue; its docstring says what it does."""

    def register(inflict: "Callable[[Stage], None]") -> "Callable[[Stage], None]":
        what = (inflict.__doc__ or "").partition("\n")[0].rstrip(".")
        FAULTS[name] = Fault(
            name,
            what,
            required,
            inflict,
            server,
            servers,
            forgets,
            thaws,
            spares_sessions,
            spoils,
            real,
            older,
        )
        return inflict

    return register


def faults() -> list[Fault]:
    """Return all, sorted by number, then letter."""
    from tests.nemesis import informer_faults, redis_faults, worker_faults  # noqa: F401  # they register them

    return sorted(FAULTS.values(), key=lambda fault: (int(fault.name.strip("Fabcdef")), fault.name))
