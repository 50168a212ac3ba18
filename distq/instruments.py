"""The metrics of a program itself: counters, gauges and histograms, on the provider of its Manager.

An instrument is made before the provider is known, because a module is imported before its Manager runs.
Counts without a provider are dropped.
"""

import math
import re
import threading
from collections.abc import Iterator, Sequence
from typing import Literal, TypeVar

from distq.errors import ConfigError
from distq.metrics import METRICS, Labels, Metric, MetricsProvider, Sample

DEFAULT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The default bounds of a histogram, in seconds (Prometheus DefBuckets)."""

_METRIC_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL_NAME = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")


class Instrument:
    """One metric of the program; ``counter``, ``gauge`` and ``histogram`` of a Manager make it."""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self._provider: MetricsProvider | None = None

    def report_to(self, provider: MetricsProvider) -> None:
        """Use this provider from now on; it raises if its registry has another metric of this name."""
        declare = getattr(provider, "declare", None)
        if declare is not None:
            declare(self.metric)
        self._provider = provider

    def _values_of(self, labels: dict[str, object]) -> Labels:
        if labels.keys() != set(self.metric.labels):
            given, wanted = ", ".join(labels) or "none", ", ".join(self.metric.labels) or "none"
            raise ValueError(f"bad labels of {self.metric.name}: {given}. Give {wanted}.")
        texts = [str(labels[name]) for name in self.metric.labels]
        return tuple(text.encode(errors="replace").decode() for text in texts)  # a page of metrics is UTF-8


class Counter(Instrument):
    """A number of this process that only rises."""

    def report_to(self, provider: MetricsProvider) -> None:
        """Use this provider from now on; a counter without labels begins at 0 there."""
        super().report_to(provider)
        if not self.metric.labels:
            provider.count(self.metric, (), 0)

    def inc(self, amount: float = 1, /, **labels: object) -> None:
        """Raise the counter. Raises ValueError for an amount below 0, and for labels that it lacks."""
        values = self._values_of(labels)
        if not 0 <= amount < math.inf:
            raise ValueError(f"bad amount of {self.metric.name}: {amount!r}. A counter only rises.")
        if self._provider is not None:
            self._provider.count(self.metric, values, float(amount))


class Gauge(Instrument):
    """A number of this process that rises and falls; its last value counts."""

    def __init__(self, metric: Metric) -> None:
        super().__init__(metric)
        self._values: dict[Labels, float] = {}

    def set(self, value: float, /, **labels: object) -> None:
        """Set it. Raises ValueError for labels that it does not have."""
        self._values[self._values_of(labels)] = float(value)

    def remove(self, /, **labels: object) -> None:
        """Remove the value of these labels, for example after an object was deleted."""
        self._values.pop(self._values_of(labels), None)

    def samples(self) -> Iterator[Sample]:
        """Yield the present values."""
        for labels, value in self._values.copy().items():  # other threads set values meanwhile
            yield self.metric, labels, value


class Histogram(Instrument):
    """The number of values below each bound, in this process."""

    def report_to(self, provider: MetricsProvider) -> None:
        """Use this provider from now on; a histogram without labels is known there."""
        super().report_to(provider)
        if not self.metric.labels:
            provider.observe(self.metric, (), ())

    def observe(self, value: float, /, **labels: object) -> None:
        """Add a value. Raises ValueError for one that is no number, and for labels that it does not have."""
        values = self._values_of(labels)
        if math.isnan(value):
            raise ValueError(f"bad value of {self.metric.name}: {value!r}. Give a number.")
        if self._provider is not None:
            self._provider.observe(self.metric, values, (float(value),))


class Instruments:
    """All instruments of one Manager. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: dict[str, Instrument] = {}
        self._provider: MetricsProvider | None = None

    def counter(self, name: str, meaning: str, labels: Sequence[str]) -> Counter:
        """Return the counter of this name; create it if there is none. Raises ConfigError."""
        if not str(name).endswith("_total"):
            raise ConfigError(f"bad name of a counter: {name!r:.80}. End it with _total.")
        return self._add(Counter(_metric("counter", name, meaning, labels)))

    def gauge(self, name: str, meaning: str, labels: Sequence[str]) -> Gauge:
        """Return the gauge of this name; create it if there is none. Raises ConfigError."""
        return self._add(Gauge(_metric("gauge", name, meaning, labels)))

    def histogram(
        self, name: str, meaning: str, labels: Sequence[str], buckets: Sequence[float]
    ) -> Histogram:
        """Return the histogram of this name; create it if there is none. Raises ConfigError."""
        bounds = tuple(map(float, buckets))
        if not bounds or any(math.isnan(bound) for bound in bounds) or list(bounds) != sorted(set(bounds)):
            raise ConfigError(f"bad buckets of {name}: {buckets!r:.80}. Give bounds that rise.")
        return self._add(Histogram(_metric("histogram", name, meaning, labels, bounds)))

    def report_to(self, provider: MetricsProvider) -> None:
        """Let all instruments report to this provider. Raises ConfigError for a name that it has already."""
        with self._lock:
            self._provider = provider
            for instrument in self._all.values():
                instrument.report_to(provider)

    def gauges(self) -> Iterator[Sample]:
        """Yield the values of all gauges."""
        with self._lock:
            gauges = [each for each in self._all.values() if isinstance(each, Gauge)]
        for gauge in gauges:
            yield from gauge.samples()

    def _add(self, new: "Made") -> "Made":
        with self._lock:
            known = self._all.get(new.metric.name)
            if known is not None:
                assert isinstance(known, type(new))  # noqa: S101  # _metric refuses another kind
                return known
            if self._provider is not None:
                new.report_to(self._provider)  # first: it may refuse the name
            self._all[new.metric.name] = new
            return new


Made = TypeVar("Made", bound=Instrument)

_known = {metric.name: metric for metric in METRICS}
"""All metrics of this process by name: Managers that name the same one share it."""
_knowing = threading.Lock()


def _metric(
    kind: Literal["counter", "gauge", "histogram"],
    name: str,
    meaning: str,
    labels: Sequence[str],
    buckets: tuple[float, ...] = (),
) -> Metric:
    """Return the metric of this name, the known one if it is the same; raise ConfigError if it differs."""
    if not _METRIC_NAME.fullmatch(str(name)):
        raise ConfigError(f"bad name of a metric: {name!r:.80}. Use letters, digits and underscores.")
    if not isinstance(meaning, str) or not meaning.isprintable():
        raise ConfigError(f"bad meaning of {name}: {meaning!r:.80}. Give a line that can be printed.")
    # "le" is Prometheus' label for the bounds of a histogram
    are_names = all(_LABEL_NAME.fullmatch(str(name)) for name in labels)
    if isinstance(labels, str) or not are_names or len({"le", *labels}) != len(labels) + 1:
        raise ConfigError(f"bad labels of {name}: {labels!r:.80}. Give a list of names, each once, not le.")
    new = Metric(name, kind, meaning, tuple(labels), buckets)
    with _knowing:
        known = _known.setdefault(name, new)
    if known in METRICS or _described(known) != _described(new):
        raise ConfigError(f"bad metric {name}: there is another one of this name. Choose another name.")
    return known


def _described(metric: Metric) -> tuple[object, ...]:
    return metric.kind, metric.meaning, metric.labels, metric.buckets
