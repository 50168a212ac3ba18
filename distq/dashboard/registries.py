"""RQ's registries and the states of a queue that stand behind them."""

from typing import Literal

from distq.inspector import QueueInfo, State

Listed = State | Literal["dirty"]

REGISTRIES: dict[str, Listed | None] = {
    "queued": "ready",
    "deferred": "dirty",
    "scheduled": "delayed",
    "started": "processing",
    "finished": None,  # a settled item is forgotten
    "failed": "dead",
    "canceled": None,  # a deleted one too
}
LISTED_STATES: dict[str, str] = {state: registry for registry, state in REGISTRIES.items() if state}


def count(queue: QueueInfo, registry: str) -> int:
    """Return how many items the registry lists."""
    state = REGISTRIES[registry]
    return int(getattr(queue, state)) if state else 0
