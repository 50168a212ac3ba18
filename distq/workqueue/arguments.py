"""What a handle may be given; anything else is refused with its remedy before it changes something."""

import math
import sys
from collections.abc import Sequence

from distq.clock import Clock
from distq.errors import ConfigError
from distq.metrics import MetricsProvider
from distq.redisio.limits import TURN_LIMIT
from distq.spans import SpanProvider
from distq.workqueue.interface import Outcome, Request, Settlement
from distq.workqueue.rate_limiters import TEN_YEARS, is_delay, is_number

LONGEST_WAIT = 4.0
"""Seconds for which an add may wait for replicas; after 5 s no answer has come."""


def require_settings(
    *,
    claim_duration: float,
    max_retries: int | None,
    revive_dead_after: float | None,
    max_length: int | None,
    metrics: MetricsProvider | None,
    spans: SpanProvider | None,
    clock: Clock,
) -> None:
    """Raise ConfigError for settings of a handle that cannot work."""
    if not (is_delay(claim_duration) and 1.0 <= claim_duration <= TEN_YEARS):
        raise ConfigError(
            f"bad claim_duration {claim_duration!r:.80}. Give seconds, 1 or more, ten years at most."
        )
    if max_retries is not None and not (_is_whole(max_retries) and max_retries >= 0):
        raise ConfigError(f"bad max_retries {max_retries!r:.80}. Give 0 or more, or None for ever.")
    if revive_dead_after is not None and not (is_delay(revive_dead_after) and revive_dead_after > 0):
        raise ConfigError(
            f"bad revive_dead_after {revive_dead_after!r:.80}. Give seconds, more than 0, or None for never."
        )
    if max_length is not None and not (_is_whole(max_length) and max_length >= 1):
        raise ConfigError(f"bad max_length {max_length!r:.80}. Give 1 or more, or None.")
    if metrics is not None and not isinstance(metrics, MetricsProvider):
        raise ConfigError(f"bad metrics {metrics!r:.80}. Give a MetricsProvider, or None.")
    if spans is not None and not isinstance(spans, SpanProvider):
        raise ConfigError(f"bad spans {spans!r:.80}. Give a SpanProvider as OpenTelemetrySpans(), or None.")
    if not isinstance(clock, Clock):
        raise ConfigError(f"bad clock {clock!r:.80}. Give a Clock.")


def require_replication(replicas: int, timeout: float) -> None:
    """Raise ConfigError for what Redis' WAIT cannot be asked for."""
    if not (_is_whole(replicas) and replicas >= 0):
        raise ConfigError(f"bad wait_replicas {replicas!r:.80}. Give how many, 0 to wait for none.")
    if not (is_delay(timeout) and 0 < timeout <= LONGEST_WAIT):
        raise ConfigError(
            f"bad wait_timeout {timeout!r:.80}. Give seconds, more than 0, {LONGEST_WAIT:g} at most."
        )


def require_fleet_concurrency(limit: int | None) -> None:
    """Raise ConfigError for a bound of all handles' claims that is none."""
    if limit is not None and not (_is_whole(limit) and limit >= 0):
        raise ConfigError(f"bad fleet_concurrency {limit!r:.80}. Give 0 or more, or None.")


def require_timeout(timeout: float | None) -> None:
    """Raise ConfigError for what is no number of seconds; below 0 is as 0, and infinity as None."""
    if timeout is not None and not (is_number(timeout) and _fits_a_float(timeout)):
        raise ConfigError(f"bad timeout {timeout!r:.80}. Give seconds, or None for ever.")


def require_turn(settlements: Sequence[Settlement], want: int) -> None:
    """Raise ConfigError for what a turn cannot carry, ValueError for too much of it."""
    for settlement in settlements:
        if not isinstance(settlement, Settlement):
            raise ConfigError(f"bad settlement {settlement!r:.80}. Give a Settlement of a Request.")
        if not isinstance(settlement.request, Request):
            raise ConfigError(f"bad request {settlement.request!r:.80}. Give the Request that get returned.")
        if not isinstance(settlement.outcome, Outcome):
            raise ConfigError(f"bad outcome {settlement.outcome!r:.80}. Give an Outcome, such as Success().")
    if not (_is_whole(want) and want >= 0):
        raise ConfigError(f"bad want {want!r:.80}. Give a whole number, 0 or more.")
    if len(settlements) > TURN_LIMIT or want > TURN_LIMIT:
        raise ValueError(
            f"a turn of {len(settlements)} settlements and {want} claims: at most {TURN_LIMIT} each way"
        )


def _fits_a_float(number: float) -> bool:
    """Return whether one may reckon with it: some whole numbers are beyond all floats but infinity."""
    return abs(number) <= sys.float_info.max or abs(number) == math.inf


def _is_whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)
