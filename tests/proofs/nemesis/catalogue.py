"""The faults that there are, by their names in the order of the pages that describe them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tests.support.redis_servers import KINDS

if TYPE_CHECKING:
    from tests.proofs.nemesis.stage import Stage

CANCEL_SHARE = 0.1
"""Of a claim duration handlers have so much to end in, once they are cancelled."""
HEARTBEATS = 3
"""In a claim duration."""

Topology = Literal["one server", "sentinels", "cluster"]


@dataclass(frozen=True)
class Fault:
    """What is done to the fleet, and what is required of it.

    ``forgets``: Redis goes back or loses data, so that plain adds of others may be gone, and runs may overlap
    for a heartbeat and the time to cancel. ``thaws``: a process goes on that was frozen, and then has the
    time to cancel. ``cuts_off``: workers have to end their reconciles before others take them over.
    ``server`` is where the short profile does it, of ``servers`` on which it is possible, and ``topology``
    how these are connected. No process may lose a session where it ``spares_sessions``. One that ``spoils``
    may leave something of the queue behind, so nothing comes after it. Of one that is ``untraced`` the trace
    is incomplete: a client other than distq's scripts changes a queue, or two servers are written to for a
    while. ``real`` needs a real API server, ``older`` the code of 0.1.0, which knows no limit of a namespace;
    one that is ``limited`` needs such a limit.
    """

    name: str
    what: str
    required: str
    inflict: "Callable[[Stage], None]"
    server: str = "valkey9"
    servers: tuple[str, ...] = KINDS
    topology: Topology = "one server"
    forgets: bool = False
    thaws: bool = False
    cuts_off: bool = False
    spares_sessions: bool = False
    spoils: bool = False
    untraced: bool = False
    real: bool = False
    older: bool = False
    limited: bool = False

    def permitted_overlap(self, claim_duration: float, slack: float) -> float:
        """Return for how many seconds two runs of one key may overlap, on a machine that is so much late."""
        heartbeat, cancel = claim_duration / HEARTBEATS, claim_duration * CANCEL_SHARE
        if not (self.forgets or self.thaws or self.cuts_off):
            return 0.0
        return (heartbeat + cancel if self.forgets else cancel if self.thaws else 0.0) + slack


FAULTS: dict[str, Fault] = {}


def fault(
    name: str, required: str, **properties: Any
) -> "Callable[[Callable[[Stage], None]], Callable[[Stage], None]]":
    """Make a function a fault of the catalogue; its docstring says what it does."""

    def register(inflict: "Callable[[Stage], None]") -> "Callable[[Stage], None]":
        what = (inflict.__doc__ or "").partition("\n")[0].rstrip(".")
        FAULTS[name] = Fault(name, what, required, inflict, **properties)
        return inflict

    return register


def faults() -> list[Fault]:
    """Return all, sorted by number, then letter."""
    from tests.proofs.nemesis import (  # they register them
        handler_faults,  # noqa: F401
        informer_faults,  # noqa: F401
        limit_faults,  # noqa: F401
        outside_faults,  # noqa: F401
        redis_faults,  # noqa: F401
        topology_faults,  # noqa: F401
        worker_faults,  # noqa: F401
    )

    return sorted(FAULTS.values(), key=lambda fault: (int(fault.name.strip("Fabcdef")), fault.name))
