"""Checks of the arguments of a handle. A bad one is refused with a remedy, and changes nothing."""

import math
import sys
from collections.abc import Sequence
from typing import get_args, overload

from distq.errors import ConfigError
from distq.redisio.limits import TURN_LIMIT
from distq.seconds import Duration, in_seconds
from distq.workqueue.interface import Outcome, Settlement
from distq.workqueue.rate_limiters import is_number, is_whole
from distq.workqueue.request import Request


def require_fleet_concurrency(limit: int | None) -> None:
    """Raise ConfigError unless the limit is None or a whole number, 0 or more."""
    if limit is not None and not (is_whole(limit) and limit >= 0):
        raise ConfigError(f"bad fleet_concurrency {limit!r:.80}. Give 0 or more, or None.")


def require_fleet_concurrency_per_flow(limit: int | None, fair_by: str | None) -> None:
    """Raise ConfigError unless the limit is None, or a whole number, 1 or more, of a fair queue."""
    if limit is None:
        return
    if not (is_whole(limit) and limit >= 1):
        raise ConfigError(f"bad fleet_concurrency_per_flow {limit!r:.80}. Give 1 or more, or None.")
    if fair_by is None:
        raise ConfigError(
            f"bad fleet_concurrency_per_flow {limit}: the queue has no flows without fair_by. "
            'Give fair_by="namespace", too.'
        )


@overload
def validate_timeout(timeout: Duration) -> float: ...
@overload
def validate_timeout(timeout: Duration | None) -> float | None: ...
def validate_timeout(timeout: Duration | None) -> float | None:
    """Return a timeout in seconds, None for no end; raise ConfigError unless it is a number."""
    if timeout is None:
        return None
    timeout = in_seconds(timeout)
    # some whole numbers exceed every finite float: to add one to a time would raise
    if not (is_number(timeout) and (abs(timeout) <= sys.float_info.max or abs(timeout) == math.inf)):
        raise ConfigError(f"bad timeout {timeout!r:.80}. Give seconds, or None for ever.")
    return timeout


def require_turn(settlements: Sequence[Settlement], want: int, most: int = TURN_LIMIT) -> None:
    """Raise ConfigError for an argument of a wrong type, ValueError for more than a turn can carry.

    ``most`` is the largest ``want``: with claims that a turn left spare it is more than one turn claims.
    """
    # a turn without entries checks no types: an idle worker makes many
    for settlement in settlements if settlements and _has_odd(settlements) else ():
        if settlement.__class__ is not Settlement:
            raise ConfigError(f"bad settlement {settlement!r:.80}. Give a Settlement of a Request.")
        if not isinstance(settlement.request, Request):
            raise ConfigError(f"bad request {settlement.request!r:.80}. Give the Request that get returned.")
        if not isinstance(settlement.outcome, Outcome):
            raise ConfigError(f"bad outcome {settlement.outcome!r:.80}. Give an Outcome, such as Success().")
    if not (is_whole(want) and want >= 0):
        raise ConfigError(f"bad want {want!r:.80}. Give a whole number, 0 or more.")
    if len(settlements) > TURN_LIMIT or want > most:
        raise ValueError(
            f"a turn of {len(settlements)} settlements and {want} claims: at most {TURN_LIMIT} each way"
        )


def _has_odd(settlements: Sequence[Settlement]) -> bool:
    # a set at a time: each turn pays for this, and nearly always a worker made all of them
    if not {*map(type, settlements)} <= {Settlement}:
        return True
    requests, outcomes = (
        {type(settlement.request) for settlement in settlements},
        {type(settlement.outcome) for settlement in settlements},
    )
    return not (requests <= {Request} and outcomes <= _OUTCOMES)


_OUTCOMES = set(get_args(Outcome))
