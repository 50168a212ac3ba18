"""A program's own metrics, on the provider of its Manager, whichever that is."""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import Counter as LibraryCounter

from distq.config import Settings
from distq.controller.controller import Controller
from distq.controller.manager import Manager
from distq.errors import ConfigError
from distq.metrics import MetricsProvider
from distq.opentelemetry import OpenTelemetryMetrics
from distq.workqueue.memory import MemoryQueue
from tests.controller.test_manager import managing
from tests.metrics.test_opentelemetry import Collected
from tests.metrics.test_prometheus import Scraped
from tests.support.eventually import eventually


def manager(metrics: MetricsProvider | None = None, queue: str = "foos") -> Manager:
    """Return a Manager of one controller in memory."""
    return Manager([Controller(MemoryQueue(queue), lambda _: None)], settings=Settings(), metrics=metrics)


def use(one: Manager) -> None:
    """Make one metric of each kind, and give it values; some before the Manager runs."""
    synced = one.counter("own_synced_total", "Foos that were synced.")
    failed = one.counter("own_failed_total", "Foos that failed.", labels=["namespace"])
    size = one.gauge("own_size_bytes", "The size of the store.", labels=["store"])
    took = one.histogram("own_took_seconds", "How long it took.", buckets=[0.1, 1])
    with managing(one):
        eventually(lambda: one._is_working)
        synced.inc()
        synced.inc(2)
        failed.inc(namespace="prod")
        size.set(5, store="a")
        size.set(7, store="a")
        size.set(1, store="b")
        size.remove(store="b")
        took.observe(0.5)
        check(one)


def check(one: Manager) -> None:
    """Look at the values while the Manager runs; each test replaces it."""


def test_prometheus_scrapes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """By their names, beside those of distq; a counter without labels begins at 0."""
    scraped = Scraped()
    one = manager(scraped.metrics)

    def values(_: Manager) -> None:
        assert scraped.value("own_synced_total") == 3
        assert scraped.value("own_failed_total", namespace="prod") == 1
        assert scraped.value("own_size_bytes", store="a") == 7
        assert scraped.value("own_size_bytes", store="b") is None
        assert scraped.value("own_took_seconds_bucket", le="0.1") == 0
        assert scraped.value("own_took_seconds_bucket", le="1.0") == 1
        assert "# HELP own_synced_total Foos that were synced." in scraped.text()

    monkeypatch.setitem(globals(), "check", values)
    use(one)
    later = manager(scraped.metrics, "bars")
    later.counter("own_unused_total", "Nothing yet.")
    with managing(later):
        eventually(lambda: scraped.value("own_unused_total") == 0)


def test_opentelemetry_collects_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the same names, labels as attributes; a gauge from the first collection on."""
    collected = Collected()

    def values(_: Manager) -> None:
        assert collected.values("own_synced_total") == {(): 3}
        assert collected.values("own_failed_total") == {("prod",): 1}
        assert collected.values("own_size_bytes") == {("a",): 7}
        (point,) = collected.collect()["own_took_seconds"].data.data_points
        assert (point.sum, tuple(point.explicit_bounds), tuple(point.bucket_counts)) == (
            0.5,
            (0.1, 1),
            (0, 1, 0),
        )

    monkeypatch.setitem(globals(), "check", values)
    use(manager(collected.metrics))
    collected.provider.shutdown()


def test_without_a_provider_they_keep_nothing() -> None:
    """The same program runs without metrics."""
    use(manager())


class ThreeMethods:
    """A provider of one's own, with the methods that the protocol has."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def count(self, metric: Any, labels: Any, amount: float) -> None:
        """Note it."""
        self.seen.append((metric.name, labels, amount))

    def observe(self, metric: Any, labels: Any, values: Any) -> None:
        """Note it."""
        self.seen.append((metric.name, labels, tuple(values)))

    def expose(self, read: Any) -> Any:
        """Read once at the end."""
        return lambda: self.seen.extend((metric.name, labels, value) for metric, labels, value in read())


def test_a_provider_of_ones_own_needs_no_further_methods_for_them() -> None:
    """The three of the protocol are enough."""
    provider = ThreeMethods()
    use(manager(provider))
    assert ("own_synced_total", (), 2) in provider.seen
    assert ("own_took_seconds", (), (0.5,)) in provider.seen
    assert ("own_size_bytes", ("a",), 7.0) in provider.seen


def test_a_name_has_one_meaning() -> None:
    """In one Manager, in several of a process, in distq, and in the registry of the provider."""
    one = manager()
    counter = one.counter("own_meant_total", "Meant.")
    assert one.counter("own_meant_total", "Meant.") is counter
    assert manager().counter("own_meant_total", "Meant.").metric is counter.metric
    for other in (
        lambda: one.counter("own_meant_total", "Another."),
        lambda: one.gauge("own_meant_total", "Meant."),
        lambda: manager().counter("own_meant_total", "Meant.", labels=["a"]),
        lambda: one.counter("workqueue_adds_total", "Items that became pending in the workqueue."),
        lambda: one.gauge("distq_ready", "Mine."),
    ):
        with pytest.raises(ConfigError, match="there is another one of this name"):
            other()
    scraped = Scraped()
    LibraryCounter("own_taken_total", "Taken.", registry=scraped.registry)
    taken = manager(scraped.metrics)
    taken.counter("own_taken_total", "Mine.")
    taken.stop()  # where it is not refused
    with pytest.raises(ConfigError, match="the Prometheus registry has another one"):
        taken.run()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda one: one.counter("own_synced", "x"), "End it with _total"),
        (lambda one: one.counter("own synced_total", "x"), "bad name of a metric"),
        (lambda one: one.gauge("1st", "x"), "bad name of a metric"),
        (lambda one: one.gauge(5, "x"), "bad name of a metric"),
        (lambda one: one.gauge("own_a", 5), "bad meaning of own_a"),
        (lambda one: one.gauge("own_a", "\ud800"), "bad meaning of own_a"),
        (lambda one: one.gauge("own_a", "x", labels="name"), "bad labels of own_a"),
        (lambda one: one.gauge("own_a", "x", labels=["a-b"]), "bad labels of own_a"),
        (lambda one: one.gauge("own_a", "x", labels=["a", "a"]), "bad labels of own_a"),
        (lambda one: one.gauge("own_a", "x", labels=[5]), "bad labels of own_a"),
        (lambda one: one.histogram("own_b", "x", labels=["le"]), "bad labels of own_b"),
        (lambda one: one.histogram("own_b", "x", buckets=[]), "bad buckets of own_b"),
        (lambda one: one.histogram("own_b", "x", buckets=[2, 1]), "bad buckets of own_b"),
        (lambda one: one.histogram("own_b", "x", buckets=[1, math.nan]), "bad buckets of own_b"),
    ],
)
def test_an_impossible_metric_is_refused(make: Any, message: str) -> None:
    """Where it is made."""
    with pytest.raises(ConfigError, match=message):
        make(manager())


def test_a_wrong_value_or_label_is_an_error_where_it_is_given() -> None:
    """With or without a provider, so that a test finds it."""
    one = manager()
    counter = one.counter("own_labelled_total", "x", labels=["namespace"])
    wrong_labels: list[dict[str, Any]] = [{}, {"name": "a"}, {"namespace": "a", "name": "b"}]
    for wrong in wrong_labels:
        with pytest.raises(ValueError, match="Give namespace"):
            counter.inc(**wrong)
    for amount in (-1, math.nan, math.inf):
        with pytest.raises(ValueError, match="only rises"):
            counter.inc(amount, namespace="a")
    with pytest.raises(ValueError, match="Give a number"):
        one.histogram("own_c", "x").observe(math.nan)


def test_no_value_or_label_that_data_has_breaks_the_page_of_all_metrics() -> None:
    """A text of an object may be no Unicode; a number may be of another type."""
    scraped, one = Scraped(), manager()
    counter = one.counter("own_odd_total", "x", labels=["amount", "self"])
    gauge = one.gauge("own_odd_level", "x", labels=["value"])
    histogram = one.histogram("own_odd_seconds", "x", buckets=[1])
    one._instruments.report_to(scraped.metrics)
    scraped.metrics.expose(one._instruments.gauges)
    for amount in (1, Decimal("0.5"), Fraction(1, 2)):
        counter.inc(amount, amount="a\ud800", self="b")  # type: ignore[arg-type]  # a program's mistake
        histogram.observe(amount)  # type: ignore[arg-type]
    with pytest.raises(OverflowError):
        counter.inc(10**400, amount="a", self="b")
    gauge.set(1, value="\udcff")
    assert 'own_odd_total{amount="a?",self="b"} 2.0' in scraped.text()
    assert 'own_odd_level{value="?"} 1.0' in scraped.text()
    assert "own_odd_seconds_sum 2.0" in scraped.text()


def test_two_providers_of_one_meter_provider_share_the_instruments() -> None:
    """As those of distq: OpenTelemetry warns of a second one of a name."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    first, second = OpenTelemetryMetrics(provider), OpenTelemetryMetrics(provider)
    metric = manager().counter("own_shared_total", "Shared.").metric
    for metrics in (first, second):
        metrics.declare(metric)
        metrics.count(metric, (), 1)
    assert first._instruments.counters[metric] is second._instruments.counters[metric]
    provider.shutdown()
