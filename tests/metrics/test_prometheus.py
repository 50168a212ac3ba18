"""What Prometheus scrapes: the names, types, labels and buckets that its users know, in every case."""

import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from itertools import pairwise

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Counter as LibraryCounter
from prometheus_client.parser import text_string_to_metric_families

from distq.metrics import ADDS, DEPTH, METRICS, QUEUE_DURATION, READY, RECONCILE_TIME, Metric, Sample
from distq.prometheus import PrometheusMetrics

UPSTREAM = {
    "workqueue_depth": ("gauge", {"name", "controller", "priority"}),
    "workqueue_adds_total": ("counter", {"name", "controller"}),
    "workqueue_queue_duration_seconds": ("histogram", {"name", "controller"}),
    "workqueue_work_duration_seconds": ("histogram", {"name", "controller"}),
    "workqueue_unfinished_work_seconds": ("gauge", {"name", "controller"}),
    "workqueue_longest_running_processor_seconds": ("gauge", {"name", "controller"}),
    "workqueue_retries_total": ("counter", {"name", "controller"}),
    "controller_runtime_reconcile_total": ("counter", {"controller", "result"}),
    "controller_runtime_reconcile_errors_total": ("counter", {"controller"}),
    "controller_runtime_terminal_reconcile_errors_total": ("counter", {"controller"}),
    "controller_runtime_reconcile_timeouts_total": ("counter", {"controller"}),
    "controller_runtime_reconcile_time_seconds": ("histogram", {"controller"}),
    "controller_runtime_max_concurrent_reconciles": ("gauge", {"controller"}),
    "controller_runtime_active_workers": ("gauge", {"controller"}),
    "leader_election_master_status": ("gauge", {"name"}),
    "leader_election_slowpath_total": ("counter", {"name"}),
}
"""As controller-runtime and client-go register them."""

RECONCILE_BUCKETS = """
0.005 0.01 0.025 0.05 0.1 0.15 0.2 0.25 0.3 0.35 0.4 0.45 0.5 0.6 0.7 0.8 0.9 1.0 1.25 1.5 1.75 2.0 2.5 3.0
3.5 4.0 4.5 5.0 6.0 7.0 8.0 9.0 10.0 15.0 20.0 25.0 30.0 40.0 50.0 60.0 +Inf
"""


class Scraped:
    """A registry of one's own with a provider in it, and what a scrape of it says."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self.metrics = PrometheusMetrics(self.registry)

    def text(self) -> str:
        """Return the exposition."""
        return generate_latest(self.registry).decode()

    def lines(self, name: str) -> list[str]:
        """Return the samples whose name begins so."""
        return [line for line in self.text().splitlines() if line.startswith(name)]

    def value(self, name: str, /, **labels: str) -> float | None:
        """Return one sample."""
        return self.registry.get_sample_value(name, labels)


@pytest.fixture
def scraped() -> Scraped:
    """Give an empty registry."""
    return Scraped()


def fill(metrics: PrometheusMetrics) -> None:
    """Set a value of each metric there is."""
    gauges: list[Sample] = []
    for metric in METRICS:
        labels = tuple(f"a {label}" for label in metric.labels)
        if metric.kind == "gauge":
            gauges.append((metric, labels, 1.0))
        elif metric.kind == "counter":
            metrics.count(metric, labels, 1)
        else:
            metrics.observe(metric, labels, [0.5])
    metrics.expose(lambda: gauges)


def test_names_types_and_labels_are_upstreams(scraped: Scraped) -> None:
    """Boards and alerts made for client-go and controller-runtime work; our own names begin with distq."""
    fill(scraped.metrics)
    found = {}
    for family in text_string_to_metric_families(scraped.text()):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        found[name] = family.type, labels
        assert family.documentation.endswith(".")
    assert {name: found[name] for name in UPSTREAM} == UPSTREAM
    assert found.keys() == {metric.name for metric in METRICS}
    assert all(name.startswith("distq_") for name in found.keys() - UPSTREAM.keys())


def bounds(scraped: Scraped, metric: Metric) -> list[str]:
    """Return the bounds of a histogram as they are written."""
    families = text_string_to_metric_families(scraped.text())
    (family,) = (family for family in families if family.name == metric.name)
    return [sample.labels["le"] for sample in family.samples if sample.name.endswith("_bucket")]


def test_buckets_are_controller_runtimes(scraped: Scraped) -> None:
    """Twelve powers of ten from 10 ns for the queue, forty steps up to a minute for reconciles."""
    fill(scraped.metrics)
    assert bounds(scraped, RECONCILE_TIME) == RECONCILE_BUCKETS.split()
    *powers, infinity = map(float, bounds(scraped, QUEUE_DURATION))
    assert (len(powers), powers[0], infinity) == (12, 10e-9, float("inf"))
    assert all(smaller * 10 == larger for smaller, larger in pairwise(powers))


def test_values_are_counted_in_their_buckets(scraped: Scraped) -> None:
    """A value on a bound is in its bucket, one beyond all bounds in the last; sum and count are exported."""
    labels = {"controller": "foos"}
    scraped.metrics.observe(RECONCILE_TIME, ("foos",), [0.005, 0.0051, 60.0, 61.0])
    scraped.metrics.observe(RECONCILE_TIME, ("foos",), [0.0])
    name = RECONCILE_TIME.name
    cumulative = {"0.005": 2, "0.01": 3, "50.0": 3, "60.0": 4, "+Inf": 5}
    assert {le: scraped.value(f"{name}_bucket", le=le, **labels) for le in cumulative} == cumulative
    assert scraped.value(f"{name}_count", **labels) == 5
    assert scraped.value(f"{name}_sum", **labels) == pytest.approx(121.0101)


def test_several_providers_in_one_registry_keep_the_same_metrics(scraped: Scraped) -> None:
    """A second Manager of a process, or a Queue beside it, is no mistake and loses nothing."""
    another = PrometheusMetrics(scraped.registry)
    scraped.metrics.count(ADDS, ("foos", "foos"), 1)
    another.count(ADDS, ("foos", "foos"), 2)
    another.count(ADDS, ("bars", "bars"), 4)
    assert scraped.value("workqueue_adds_total", name="foos", controller="foos") == 3
    assert scraped.value("workqueue_adds_total", name="bars", controller="bars") == 4
    elsewhere = Scraped()
    assert elsewhere.value("workqueue_adds_total", name="foos", controller="foos") is None


def test_another_collector_of_these_names_is_refused(scraped: Scraped) -> None:
    """The registry notices, so that no scrape is ambiguous."""
    with pytest.raises(ValueError, match="Duplicated"):
        LibraryCounter("workqueue_adds", "Mine.", registry=scraped.registry)


def test_the_librarys_own_registry_is_the_default() -> None:
    """What a program already exposes then has these metrics, too; in a process of its own, for this once."""
    program = (
        "from prometheus_client import generate_latest; from distq.metrics import ADDS;"
        "from distq.prometheus import PrometheusMetrics; PrometheusMetrics();"
        "PrometheusMetrics().count(ADDS, ('foos', 'foos'), 1); print(generate_latest().decode())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert 'workqueue_adds_total{controller="foos",name="foos"} 1.0' in done.stdout
    assert "process_cpu_seconds_total" in done.stdout


def test_a_gauge_is_asked_for_at_a_scrape_until_its_owner_ends(scraped: Scraped) -> None:
    """Not before, and not after; two owners of the same gauge make no scrape invalid."""
    looks = []

    def read() -> Iterator[Sample]:
        looks.append(1)
        yield READY, ("foos",), 7.0
        yield DEPTH, ("foos", "foos", "-100"), 3.0

    end = scraped.metrics.expose(read)
    end_another = scraped.metrics.expose(read)
    assert looks == []
    assert scraped.lines("distq_ready") == ['distq_ready{name="foos"} 7.0']
    assert scraped.value("workqueue_depth", name="foos", controller="foos", priority="-100") == 3
    end()
    end()
    end_another()
    looks.clear()
    assert scraped.lines("distq_ready") == []
    assert looks == []


def test_a_gauge_that_fails_costs_no_scrape(scraped: Scraped, caplog: pytest.LogCaptureFixture) -> None:
    """The rest is exported, and the failure is logged."""

    def broken() -> Iterable[Sample]:
        raise RuntimeError("no")

    scraped.metrics.expose(broken)
    scraped.metrics.expose(lambda: [(READY, ("foos",), 7.0)])
    scraped.metrics.count(ADDS, ("foos", "foos"), 1)
    assert scraped.value("distq_ready", name="foos") == 7
    assert scraped.value("workqueue_adds_total", name="foos", controller="foos") == 1
    assert "could not be read" in caplog.text


def test_threads_lose_no_count(scraped: Scraped) -> None:
    """All that several threads count at the same time is there."""

    def record() -> None:
        for _ in range(500):
            scraped.metrics.count(ADDS, ("foos", "foos"), 2)
            scraped.metrics.observe(QUEUE_DURATION, ("foos", "foos"), [0.1, 0.2])

    threads = [threading.Thread(target=record) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    labels = {"name": "foos", "controller": "foos"}
    assert scraped.value("workqueue_adds_total", **labels) == 4000
    assert scraped.value("workqueue_queue_duration_seconds_count", **labels) == 4000


def test_without_the_extra_the_error_names_it() -> None:
    """Importing the provider says what to install."""
    program = (
        "import sys; sys.modules['prometheus_client'] = None\n"
        "from distq.errors import ConfigError\n"
        "try:\n    import distq.prometheus\nexcept ConfigError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "[metrics]'." in done.stdout
