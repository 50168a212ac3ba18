"""Providers of metrics and spans whose errors end nothing: threads that keep promises call them.

A provider must not raise. If it raises anyway, its value is lost, and the log has the error: the first at
once, later ones every five minutes, with their number.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from distq.clock import SYSTEM_CLOCK, Clock
from distq.errors import ConfigError
from distq.metrics import Labels, Metric, MetricsProvider, Sample
from distq.spans import NO_ATTRIBUTES, Attributes, Kind, OpenSpan, SpanFailure, SpanProvider
from distq.wording import counted

LOGGED_EVERY = 300.0
"""Seconds between two log lines about errors of one provider."""

Value = TypeVar("Value")

_logger = logging.getLogger("distq")


class _Calls:
    """Calls the functions of one provider, and logs their errors, which may happen for each item."""

    def __init__(self, provider: object, clock: Clock) -> None:
        self._name = type(provider).__qualname__
        self._clock = clock
        self._lock = threading.Lock()
        self._silent_until = clock.monotonic()
        self._unlogged = 0

    def make(self, owner: object, method: str, otherwise: Value, *args: Any, **named: Any) -> Value:
        """Return the result of a method; ``otherwise`` if it raises, or there is no ``owner``."""
        if owner is None:
            return otherwise
        try:
            value: Value = getattr(owner, method)(*args, **named)  # a provider may lack the method
            return value
        except Exception as error:  # noqa: BLE001 - it is logged
            self.log(error)
            return otherwise

    def log(self, error: Exception) -> None:
        """Log an error; only count it if one was logged lately."""
        with self._lock:
            now = self._clock.monotonic()
            if now < self._silent_until:
                self._unlogged += 1
                return
            self._silent_until = now + LOGGED_EVERY
            unlogged, self._unlogged = self._unlogged, 0
        more = f" So were {counted(unlogged, 'value')} before it." if unlogged else ""
        _logger.error("%s raised an error: a value is lost.%s", self._name, more, exc_info=error)


class SafeMetrics:
    """A provider of metrics that does not raise."""

    def __init__(self, provider: MetricsProvider, clock: Clock) -> None:
        self._provider = provider
        self._calls = _Calls(provider, clock)

    def count(self, metric: Metric, labels: Labels, amount: float) -> None:
        """Raise a counter."""
        self._calls.make(self._provider, "count", None, metric, labels, amount)

    def observe(self, metric: Metric, labels: Labels, values: Sequence[float]) -> None:
        """Add values to a histogram."""
        self._calls.make(self._provider, "observe", None, metric, labels, values)

    def expose(self, read: Callable[[], Iterable[Sample]]) -> Callable[[], None]:
        """Call ``read`` for gauges until the returned function is called."""
        end = self._calls.make(self._provider, "expose", lambda: None, read)
        return lambda: self._calls.make(end, "__call__", None)

    def declare(self, metric: Metric) -> None:
        """Register a program's own metric. Raises ConfigError if the provider has the name already."""
        declare = getattr(self._provider, "declare", None)
        if declare is None:
            return
        try:
            declare(metric)
        except ConfigError:  # an error of the program, not of the provider
            raise
        except Exception as error:  # noqa: BLE001 - it is logged
            self._calls.log(error)

    @property
    def page(self) -> Any:
        """Return the WSGI application that answers scrapes; None if the provider has none."""
        return getattr(self._provider, "page", None)


class SafeSpans:
    """A provider of spans that does not raise; its spans do not raise either."""

    def __init__(self, provider: SpanProvider) -> None:
        self._provider = provider
        self._calls = _Calls(provider, SYSTEM_CLOCK)

    def begin(
        self, name: str, kind: Kind, attributes: Attributes, *, since: float | None = None, link: str = ""
    ) -> OpenSpan:
        """Begin a span; if that fails, one that keeps nothing."""
        span = self._calls.make(self._provider, "begin", None, name, kind, attributes, since=since, link=link)
        return _SafeSpan(span, self._calls)


class _SafeSpan:
    """A span that does not raise; one that keeps nothing if the provider could not begin it."""

    def __init__(self, span: OpenSpan | None, calls: _Calls) -> None:
        self._span = span
        self._calls = calls

    def headers(self) -> Mapping[str, str]:
        headers: Mapping[str, str] | None = self._calls.make(self._span, "headers", None)
        return headers or {}

    def link(self) -> str:
        return self._calls.make(self._span, "link", "") or ""

    def end(self, attributes: Attributes = NO_ATTRIBUTES, failure: SpanFailure | None = None) -> None:
        self._calls.make(self._span, "end", None, attributes, failure)


def safe_metrics(provider: MetricsProvider, clock: Clock = SYSTEM_CLOCK) -> SafeMetrics:
    """Return a provider that hands on all calls, and raises nothing; a safe one is returned as it is."""
    return provider if isinstance(provider, SafeMetrics) else SafeMetrics(provider, clock)


def safe_spans(provider: SpanProvider) -> SafeSpans:
    """Return a provider that hands on all calls, and raises nothing; a safe one is returned as it is."""
    return provider if isinstance(provider, SafeSpans) else SafeSpans(provider)
