"""The options of a queue, in one place: each with its default, its check, and the remedy for a bad value."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Self, TypedDict

from distq.clock import SYSTEM_CLOCK, Clock
from distq.errors import ConfigError
from distq.metrics import MetricsProvider
from distq.seconds import Duration, in_seconds
from distq.spans import SpanProvider
from distq.workqueue.rate_limiters import (
    TEN_YEARS,
    ItemExponentialFailureRateLimiter,
    RateLimiter,
    is_delay,
    is_whole,
    validate_rate_limiter,
)

LONGEST_REPLICA_WAIT = 4.0
"""Seconds for which an add may wait for replicas; after 5 s no answer has come."""

_DEFAULT_LIMITER = ItemExponentialFailureRateLimiter()


class QueueKeywords(TypedDict, total=False):
    """The options as keyword arguments, as ``Queue`` and ``MemoryQueue`` take them; see ``QueueOptions``."""

    rate_limiter: RateLimiter | None
    max_retries: int | None
    revive_dead_after: Duration | None
    claim_duration: Duration
    max_length: int | None
    fair_by: str | None
    wait_replicas: int
    wait_timeout: Duration
    metrics: MetricsProvider | None
    spans: SpanProvider | None
    clock: Clock


def _option(default: Any, accepts: Callable[[Any], bool], remedy: str) -> Any:
    return field(default=default, metadata={"accepts": accepts, "remedy": remedy})


def _whole_from(least: int) -> Callable[[Any], bool]:
    return lambda value: is_whole(value) and value >= least


def _none_or(accepts: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or accepts(value)


def _a(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """The options of one handle. Raises ConfigError for a value that cannot work.

    :param RateLimiter | None rate_limiter: Delays items that fail. Default: None, client-go's: 5 ms, doubled
        with each failure, 1000 s at most.
    :param int | None max_retries: Failures of an item that are retried, 0 or more; after the next one the
        item is dead. Default: None, all of them.
    :param float | None revive_dead_after: Seconds after which an item that failures or crashes made dead gets
        another attempt. Default: None, never.
    :param float claim_duration: Seconds of silence after which a process loses its claims, 1 or more. Keep it
        well above the pauses of your processes, and the same in all of them. Default: 30.
    :param int | None max_length: Items that may be ready, dirty or delayed; producers get QueueFull beyond.
        Default: None, no limit.
    :param str | None fair_by: Let the namespaces of a priority take turns, with "namespace"; a namespace is
        the text of a key before its first slash. It belongs to the queue, until a user changes it:
        then a handle with another value is refused at its first call. Default: None, as the queue is; a new
        one has client-go's order.
    :param int wait_replicas: Replicas of Redis that must have the items before ``add`` and ``add_after``
        return; else they raise NotReplicated (Redis WAIT). Default: 0.
    :param float wait_timeout: Seconds for which an add waits for the replicas, 4 at most. Default: 1.
    :param MetricsProvider | None metrics: Receives the metrics of this handle. Default: None, no metrics.
    :param SpanProvider | None spans: Receives the adds of this handle; claims then link to the spans that
        made their items pending. Default: None, no spans.
    :param Clock clock: The clock of this process's waits and deadlines; delays in Redis follow the server's
        clock. Default: SYSTEM_CLOCK.
    """

    rate_limiter: RateLimiter | None = None
    max_retries: int | None = _option(None, _none_or(_whole_from(0)), "Give 0 or more, or None for ever.")
    revive_dead_after: float | None = _option(
        None,
        _none_or(lambda value: is_delay(value) and value > 0),
        "Give seconds, more than 0, or None for never.",
    )
    claim_duration: float = _option(
        30.0,
        lambda value: is_delay(value) and 1.0 <= value <= TEN_YEARS,
        "Give seconds, 1 or more, ten years at most.",
    )
    max_length: int | None = _option(None, _none_or(_whole_from(1)), "Give 1 or more, or None.")
    fair_by: str | None = _option(
        None, lambda value: value in (None, "namespace"), "Give namespace, or None for what the queue has."
    )
    wait_replicas: int = _option(0, _whole_from(0), "Give how many, 0 to wait for none.")
    wait_timeout: float = _option(
        1.0,
        lambda value: is_delay(value) and 0 < value <= LONGEST_REPLICA_WAIT,
        f"Give seconds, more than 0, {LONGEST_REPLICA_WAIT:g} at most.",
    )
    metrics: MetricsProvider | None = _option(
        None, _none_or(_a(MetricsProvider)), "Give a MetricsProvider, or None."
    )
    spans: SpanProvider | None = _option(
        None, _none_or(_a(SpanProvider)), "Give a SpanProvider as OpenTelemetrySpans(), or None."
    )
    clock: Clock = _option(SYSTEM_CLOCK, _a(Clock), "Give a Clock.")

    @classmethod
    def of(cls, keywords: QueueKeywords) -> Self:
        """Return the options that keyword arguments name, durations in seconds."""
        plain: dict[str, Any] = {name: in_seconds(value) for name, value in keywords.items()}
        return cls(**plain)

    def __post_init__(self) -> None:
        validate_rate_limiter(self.limiter)
        for option in fields(self):
            value = getattr(self, option.name)
            if option.metadata and not option.metadata["accepts"](value):
                raise ConfigError(f"bad {option.name} {value!r:.80}. {option.metadata['remedy']}")

    @property
    def limiter(self) -> RateLimiter:
        """Return the limiter of failed items, client-go's if none was given."""
        return _DEFAULT_LIMITER if self.rate_limiter is None else self.rate_limiter
