"""What a repair is about: checks of its arguments, and its items in batches."""

from collections.abc import Iterator, Sequence

from distq.errors import ConfigError
from distq.inspector import reading
from distq.inspector.info import Repair
from distq.redisio.keys import named, validate_key
from distq.redisio.limits import REASON_BYTES
from distq.redisio.queue_reads import State
from distq.redisio.queue_store import QueueStore

STATES: tuple[State, ...] = ("processing", "ready", "delayed", "dead")
BY_HAND = "parked by hand"
"""The reason of a dead item for which an operator gave none."""


def chosen_items(
    store: QueueStore, keys: tuple[str, ...], state: str | None, match: str | None
) -> Iterator[Sequence[bytes]]:
    """Yield the members of a repair, in batches."""
    if keys:
        yield [item for key in keys for item in named(key)]  # a key may show an invalid item, too
    elif state:
        yield from reading.scan(store, state, match or "*")


def require_choice(keys: tuple[str, ...], state: str | None, match: str | None) -> None:
    """Raise unless keys are given (a state may restrict them), or a state and perhaps a match."""
    require_state(state)
    for key in keys:
        validate_key(key)
    if (keys and match is not None) or not (keys or state):
        raise ConfigError("no items chosen: give keys, or a state and perhaps a match.")


def require_state(state: str | None) -> None:
    """Raise ConfigError for a text that is no state."""
    if state is not None and state not in {*STATES, "dirty"}:
        raise ConfigError(f'no state "{state}": use {", ".join(sorted(STATES))} or dirty.')


def require_repairable(repair: Repair, state: str | None, reason: str) -> None:
    """Raise ConfigError for a repair that the state does not allow, and for a bad reason."""
    if repair == "delete" and state == "processing":
        raise ConfigError("cannot delete processing items: their workers hold them. Stop the workers first.")
    if not reason or not reason.isprintable() or len(reason.encode()) > REASON_BYTES:
        raise ConfigError(
            f"bad reason {reason!r:.80}. Use one line of 1 to {REASON_BYTES} bytes of printable text."
        )


def repaired(
    store: QueueStore, repair: Repair, batch: Sequence[bytes], state: str | None, reason: str
) -> int:
    """Repair these items, in steps that do not hold up Redis; return how many changed."""
    if repair == "park":
        return store.park(batch, reason)
    return (store.requeue if repair == "requeue" else store.delete)(batch, state=state)
