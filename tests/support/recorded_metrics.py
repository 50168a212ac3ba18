"""A provider of metrics that remembers all values."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

from distq.metrics import Labels, Metric, Sample


class RecordedMetrics:
    """Remembers counters, all observed values, and the readers of gauges."""

    def __init__(self) -> None:
        self.counters: Counter[tuple[Metric, Labels]] = Counter()
        self.observed: defaultdict[tuple[Metric, Labels], list[float]] = defaultdict(list)
        self.reads: list[Callable[[], Iterable[Sample]]] = []
        self.calls = 0

    def count(self, metric: Metric, labels: Labels, amount: float) -> None:
        """Raise a counter."""
        assert metric.kind == "counter"
        assert len(labels) == len(metric.labels)
        self.calls += 1
        self.counters[metric, labels] += amount  # type: ignore[assignment]  # all amounts are whole

    def observe(self, metric: Metric, labels: Labels, values: Sequence[float]) -> None:
        """Add values."""
        assert metric.kind == "histogram"
        assert len(labels) == len(metric.labels)
        self.calls += 1
        self.observed[metric, labels] += values

    def expose(self, read: Callable[[], Iterable[Sample]]) -> Callable[[], None]:
        """Remember a reader."""
        self.reads.append(read)
        return lambda: self.reads.remove(read)

    def gauges(self) -> dict[tuple[Metric, Labels], float]:
        """Return the gauges of all readers."""
        found = [sample for read in self.reads for sample in read()]
        values = {(metric, labels): value for metric, labels, value in found}
        assert len(values) == len(found), "a gauge was reported twice"
        assert all(len(labels) == len(metric.labels) for metric, labels in values)
        return values
