"""What OpenTelemetry's collectors get: the metrics that Prometheus gets, gauges read once a collection."""

import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from distq.controller.controller import Controller
from distq.metrics import ADDS, DELAYED, DEPTH, METRICS, QUEUE_DURATION, READY, RECONCILE_TIME, Sample
from distq.opentelemetry import OpenTelemetryMetrics
from distq.redisio.connection import Connection
from distq.workqueue.gauges import QueueGauges
from distq.workqueue.queue import Queue
from tests.support.dispatchers import running
from tests.support.eventually import eventually

BOTH = ("foos", "foos")


class Collected:
    """A meter provider of one's own, and what a collection of it says."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.provider = MeterProvider([self.reader])
        self.metrics = OpenTelemetryMetrics(self.provider)

    def collect(self) -> dict[str, Any]:
        """Return the metrics of a collection, by their names."""
        data = self.reader.get_metrics_data()
        scopes = (
            [scope for resource in data.resource_metrics for scope in resource.scope_metrics] if data else []
        )
        found = [metric for scope in scopes for metric in scope.metrics]
        assert len({metric.name for metric in found}) == len(found)
        return {metric.name: metric for metric in found}

    def values(self, name: str) -> dict[tuple[Any, ...], float]:
        """Return a counter's or gauge's values by their attributes'."""
        metric = self.collect().get(name)
        points = metric.data.data_points if metric else []
        return {tuple(point.attributes.values()): point.value for point in points}


@pytest.fixture
def collected() -> Iterator[Collected]:
    """Give an empty provider."""
    collected = Collected()
    yield collected
    collected.provider.shutdown()


def test_names_kinds_attributes_and_units_are_those_of_prometheus(collected: Collected) -> None:
    """Each metric there is arrives, and no exporter for Prometheus will rename it."""
    gauges: list[Sample] = []
    for metric in METRICS:
        labels = tuple(f"a {label}" for label in metric.labels)
        if metric.kind == "gauge":
            gauges.append((metric, labels, 1.0))
        elif metric.kind == "counter":
            collected.metrics.count(metric, labels, 1)
        else:
            collected.metrics.observe(metric, labels, [0.5])
    collected.metrics.expose(lambda: gauges)
    found = collected.collect()
    assert found.keys() == {metric.name for metric in METRICS}
    for metric in METRICS:
        (point,) = found[metric.name].data.data_points
        assert point.attributes == {label: f"a {label}" for label in metric.labels}
        assert found[metric.name].description == metric.meaning
        assert found[metric.name].unit == ("s" if metric.name.endswith("_seconds") else "")
        assert found[metric.name].data.to_json().count("is_monotonic") == (metric.kind == "counter")


def test_values_are_counted_in_controller_runtimes_buckets(collected: Collected) -> None:
    """Bounds are the metric's own instead of the SDK's; a value on a bound is in its bucket."""
    collected.metrics.observe(RECONCILE_TIME, ("foos",), [0.005, 0.0051, 61.0])
    collected.metrics.observe(RECONCILE_TIME, ("foos",), [])
    (point,) = collected.collect()[RECONCILE_TIME.name].data.data_points
    assert point.explicit_bounds == RECONCILE_TIME.buckets
    assert (point.bucket_counts[0], point.bucket_counts[1], point.bucket_counts[-1]) == (1, 1, 1)
    assert (point.count, point.sum) == (3, pytest.approx(61.0101))


def test_several_of_one_provider_keep_the_same_metrics(collected: Collected) -> None:
    """A second Manager of a process, or a Queue beside it, makes no instrument twice."""
    another = OpenTelemetryMetrics(collected.provider)
    collected.metrics.count(ADDS, BOTH, 1)
    another.count(ADDS, BOTH, 2)
    another.count(ADDS, ("bars", "bars"), 0)
    assert collected.values(ADDS.name) == {BOTH: 3, ("bars", "bars"): 0}
    collected.metrics.expose(lambda: [(READY, ("foos",), 7.0)])
    another.expose(lambda: [(READY, ("bars",), 8.0)])
    assert collected.values(READY.name) == {("foos",): 7, ("bars",): 8}


def test_gauges_are_read_once_a_collection_until_their_owner_ends(collected: Collected) -> None:
    """An owner with many gauges that asks Redis asks it once; afterwards not at all."""
    looks = []

    def read() -> Iterator[Sample]:
        looks.append(1)
        yield READY, ("foos",), float(len(looks))
        yield DELAYED, ("foos",), float(len(looks))
        yield DEPTH, (*BOTH, "-100"), 3.0

    end = collected.metrics.expose(read)
    assert looks == []
    for collection in (1, 2, 3):
        found = collected.collect()
        assert [found[name].data.data_points[0].value for name in ("distq_ready", "distq_delayed")] == (
            [collection] * 2
        )
    assert len(looks) == 3
    end()
    end()
    assert collected.values("distq_ready") == {}
    assert len(looks) == 3


def test_a_gauge_that_fails_costs_no_collection(
    collected: Collected, caplog: pytest.LogCaptureFixture
) -> None:
    """The rest is exported, and the failure is logged, once a collection."""

    def broken() -> Iterable[Sample]:
        raise RuntimeError("no")

    collected.metrics.expose(broken)
    collected.metrics.expose(lambda: [(READY, ("foos",), 7.0)])
    assert collected.values("distq_ready") == {("foos",): 7}
    assert caplog.text.count("could not be read") == 1


def test_a_queue_and_its_reconciles_are_measured(connection: Connection, collected: Collected) -> None:
    """The work of a dispatcher on a queue in Redis, and the contents of the queue, arrive."""
    queue = Queue("foos", connection, metrics=collected.metrics)
    gauges = QueueGauges(queue)
    collected.metrics.expose(gauges)
    queue.add("a", "b")
    queue.add("later", after=60)
    assert collected.values("distq_ready") == {("foos",): 2}
    done = list[str]()
    controller = Controller(queue, lambda request: done.append(request.key))
    with running(controller, metrics=collected.metrics):
        eventually(lambda: len(done) == 2)
    found = collected.collect()
    assert found[QUEUE_DURATION.name].data.data_points[0].count == 2
    assert found[RECONCILE_TIME.name].data.data_points[0].count == 2
    assert found["distq_ready"].data.data_points[0].value == 0
    assert found["distq_delayed"].data.data_points[0].value == 1
    gauges.close()


def test_without_the_extra_the_error_names_it() -> None:
    """Importing the provider says what to install."""
    program = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from distq.errors import ConfigError\n"
        "try:\n    import distq.opentelemetry\nexcept ConfigError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "[otel]'." in done.stdout
