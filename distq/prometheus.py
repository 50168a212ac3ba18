"""Metrics for Prometheus, under the names that its users know from client-go and controller-runtime.

This module keeps counters and histograms itself. The client library's objects take a lock for each value;
here a turn of hundreds of items is one call. Gauges are read at each scrape.
"""

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from distq.errors import ConfigError
from distq.exposed_gauges import ExposedGauges
from distq.extras import missing_extra
from distq.metrics import METRICS, Labels, Metric, Sample

try:
    from prometheus_client import REGISTRY, CollectorRegistry, make_wsgi_app
    from prometheus_client import Metric as Family
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
    from prometheus_client.registry import Collector
    from prometheus_client.utils import floatToGoString
except ModuleNotFoundError:
    raise missing_extra("no Prometheus client", "metrics") from None

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment


class PrometheusMetrics:
    """A provider of metrics (``MetricsProvider``) in a registry; None is the client library's own.

    Give it to a Manager or to Queues. Any number of them may share a registry: they keep the same metrics.
    Needs the extra ``metrics``.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._registry = REGISTRY if registry is None else registry
        self._store = _store_of(self._registry)

    def count(self, metric: Metric, labels: Labels, amount: float) -> None:
        """Raise a counter; an amount of 0 makes it known."""
        self._store.count(metric, labels, amount)

    def observe(self, metric: Metric, labels: Labels, values: Sequence[float]) -> None:
        """Add values, seconds, to a histogram; no values make it known."""
        self._store.observe(metric, labels, values)

    def expose(self, read: Callable[[], Iterable[Sample]]) -> Callable[[], None]:
        """Call ``read`` for gauges at each scrape; return the function that ends that."""
        return self._store.gauges.expose(read)

    def declare(self, metric: Metric) -> None:
        """Reserve the name of a program's own metric. Raises ConfigError if the registry has it already."""
        self._store.declare(metric, self._registry)

    @property
    def page(self) -> "WSGIApplication":
        """Return the WSGI application that answers scrapes with the whole registry."""
        return _Page(self._registry)


@dataclass(frozen=True)  # with equality, by which Managers find that they can share an HTTP address
class _Page:
    """Answers scrapes."""

    registry: CollectorRegistry

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        return make_wsgi_app(self.registry)(environ, start_response)  # type: ignore[no-any-return]


class _Histogram:
    """The number of values below each bound, and their sum."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, values: Sequence[float]) -> None:
        counts, bounds = self._counts, self._bounds
        for value in values:
            counts[bisect_left(bounds, value)] += 1
        self._sum += sum(values)

    def snapshot(self) -> tuple[list[tuple[str, float]], float]:
        """Return the cumulative counts by their bounds, and the sum."""
        bounds = [*map(floatToGoString, self._bounds), "+Inf"]
        return list(zip(bounds, accumulate(self._counts), strict=True)), self._sum


class _MetricStore(Collector):
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._declared = set[Metric]()
        self._counters: dict[tuple[Metric, Labels], float] = {}
        self._histograms: dict[tuple[Metric, Labels], _Histogram] = {}
        self.gauges = ExposedGauges()

    def count(self, metric: Metric, labels: Labels, amount: float) -> None:
        with self._lock:
            self._counters[metric, labels] = self._counters.get((metric, labels), 0) + amount

    def observe(self, metric: Metric, labels: Labels, values: Sequence[float]) -> None:
        with self._lock:
            histogram = self._histograms.get((metric, labels))
            if histogram is None:
                histogram = self._histograms[metric, labels] = _Histogram(metric.buckets)
            histogram.observe(values)

    def declare(self, metric: Metric, registry: CollectorRegistry) -> None:
        with self._lock:
            if metric in self._declared:
                return
            try:
                registry.register(_ReservedName(metric))
            except ValueError:
                raise ConfigError(
                    f"bad metric {metric.name}: the Prometheus registry has another one of this name. "
                    "Choose another name."
                ) from None
            self._declared.add(metric)

    def describe(self) -> Iterator[Family]:
        """Name the metrics, so that the registry refuses other metrics of these names."""
        return map(_family, METRICS)

    def collect(self) -> Iterator[Family]:
        """Return the values of each metric, without gauges that cannot be read."""
        values: dict[tuple[Metric, Labels], tuple[Any, ...]] = {
            key: (value,) for key, value in self.gauges.read().items()
        }
        with self._lock:
            values |= {key: (value,) for key, value in self._counters.items()}
            values |= {key: histogram.snapshot() for key, histogram in self._histograms.items()}
        families: dict[Metric, Any] = {}
        for (metric, labels), value in values.items():
            if metric not in families:
                families[metric] = _family(metric)
            families[metric].add_metric(labels, *value)
        return iter(families.values())


class _ReservedName(Collector):
    """Reserves the name of one metric in a registry; its store returns the values."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def describe(self) -> Iterator[Family]:
        return iter([_family(self._metric)])

    def collect(self) -> Iterator[Family]:
        return iter(())


def _family(metric: Metric) -> Family:
    if metric.kind == "histogram":
        return HistogramMetricFamily(metric.name, metric.meaning, labels=metric.labels)
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    return kind(metric.name, metric.meaning, labels=metric.labels)


_registries: "WeakKeyDictionary[CollectorRegistry, _MetricStore]" = WeakKeyDictionary()
_registering = threading.Lock()


def _store_of(registry: CollectorRegistry) -> _MetricStore:
    with _registering:
        store = _registries.get(registry)
        if store is None:
            store = _MetricStore()
            registry.register(store)
            _registries[registry] = store
        return store
