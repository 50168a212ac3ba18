"""The metrics of controllers, their processes and the leader."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from distq.client.client import Client
from distq.config import Settings
from distq.controller.controller import Controller
from distq.controller.manager import Manager
from distq.controller.watches import For
from distq.errors import RetryAfter, TerminalError
from distq.metrics import (
    ACTIVE_WORKERS,
    ADDS,
    DEPTH,
    LEADER,
    MAX_CONCURRENT,
    OUTAGES,
    PROCESSING,
    READY,
    RECONCILE_ERRORS,
    RECONCILE_TIME,
    RECONCILES,
    STREAM_COMMITS,
    STREAM_LAG,
    STREAM_SYNCED,
    TERMINAL_ERRORS,
    TIMEOUTS,
    WORK_DURATION,
)
from distq.redisio.connection import Connection
from distq.testing import EmulatedApiServer
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.interface import Result
from distq.workqueue.queue import Queue
from distq.workqueue.rate_limiters import ItemExponentialFailureRateLimiter
from distq.workqueue.request import Request
from tests.controller.test_dispatcher import handler, left_over
from tests.controller.test_manager import managing
from tests.support.dispatchers import running
from tests.support.eventually import eventually
from tests.support.recorded_metrics import RecordedMetrics
from tests.support.samples import config_map
from tests.support.tcp_proxy import TcpProxy

one_redis = pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True)
CONFIG_MAP = "v1/ConfigMap"


@contextmanager
def informing(client: Client, connection: Connection) -> Iterator[RecordedMetrics]:
    """Run an informer of the ConfigMaps in the namespace default; give its metrics."""
    metrics = RecordedMetrics()
    settings = Settings(lease_name="distq-foos", lease_duration=4.0, renew_deadline=3.0, retry_period=0.5)
    controller = Controller("foos", print, watches=[For(CONFIG_MAP, namespaces=["default"])])
    manager = Manager([controller], redis=connection, client=client, settings=settings, metrics=metrics)
    with managing(manager, workers=False):
        yield metrics


def synced(metrics: RecordedMetrics) -> bool:
    """Return whether this process leads and has listed."""
    return metrics.gauges().get((STREAM_SYNCED, ("foos", CONFIG_MAP))) == 1


def reconciles(metrics: RecordedMetrics, queue: str = "foos") -> dict[str, int]:
    """Return how many reconciles ended with each result."""
    return {
        labels[1]: count
        for (metric, labels), count in metrics.counters.items()
        if metric is RECONCILES and labels[0] == queue
    }


@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.parametrize(
    ("outcome", "result"),
    [
        (None, "success"),
        (Result(), "success"),
        (Result(requeue_after=60), "requeue_after"),
        (ValueError("no"), "error"),
        (RetryAfter(60), "error"),
        (TerminalError("no"), "error"),
        (TimeoutError("its own"), "error"),
    ],
    ids=["none", "result", "requeue_after", "exception", "retry after", "terminal", "own timeout"],
)
def test_each_outcome_is_counted_as_controller_runtime_does(
    connection: Connection, kind: str, outcome: Any, result: str
) -> None:
    """By result; every failure is an error, a terminal one both; each took its time."""

    def reconcile(request: Request) -> Any:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    metrics = RecordedMetrics()
    queue = Queue("foos", connection, rate_limiter=ItemExponentialFailureRateLimiter(60.0, 60.0))
    queue.add("a")
    controller = Controller(queue, handler(kind, reconcile), reconciliation_timeout=30.0)
    with running(controller, metrics=metrics):
        eventually(lambda: sum(reconciles(metrics).values()))
    assert reconciles(metrics) == {"success": 0, "error": 0, "requeue_after": 0} | {result: 1}
    counts = [metrics.counters[metric, ("foos",)] for metric in (RECONCILE_ERRORS, TERMINAL_ERRORS, TIMEOUTS)]
    assert counts == [result == "error", isinstance(outcome, TerminalError), 0]
    (took,) = metrics.observed[RECONCILE_TIME, ("foos",)]
    assert 0 <= took < 30


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_reconcile_past_its_timeout_is_counted_as_such(connection: Connection, kind: str) -> None:
    """It is an error, too."""

    def slow(request: Request) -> None:
        request.cancelled.wait(20)

    async def slow_async(request: Request) -> None:
        await asyncio.sleep(20)

    metrics = RecordedMetrics()
    queue = Queue("foos", connection, max_retries=0)
    queue.add("a")
    reconcile = slow if kind == "plain" else slow_async
    with running(Controller(queue, reconcile, reconciliation_timeout=0.05), metrics=metrics):
        eventually(lambda: metrics.counters[TIMEOUTS, ("foos",)])
    assert reconciles(metrics)["error"] == 1
    assert metrics.counters[RECONCILE_ERRORS, ("foos",)] == 1


def test_running_workers_are_reported(connection: Connection) -> None:
    """How many handlers may run and how many do, while they do; one that did not start is no reconcile."""
    go, metrics = threading.Event(), RecordedMetrics()
    queue = Queue("foos", connection)
    queue.add(*"abcde")

    def reconcile(request: Request) -> None:
        go.wait(20)

    with running(Controller(queue, reconcile, concurrency=3), metrics=metrics) as dispatcher:
        metrics.expose(dispatcher.gauges)
        eventually(lambda: metrics.gauges()[ACTIVE_WORKERS, ("foos",)] == 3)
        assert metrics.gauges()[MAX_CONCURRENT, ("foos",)] == 3
        go.set()
        eventually(lambda: not left_over(connection, "foos"))
        eventually(lambda: metrics.gauges()[ACTIVE_WORKERS, ("foos",)] == 0)
    assert reconciles(metrics)["success"] == 5
    assert metrics.gauges()[ACTIVE_WORKERS, ("foos",)] == 0


@one_redis
def test_an_outage_of_redis_is_counted_once(redis_server: EmbeddedValkey, connection: Connection) -> None:
    """Also a long one; work that ended meanwhile is settled afterwards, and counted once."""
    metrics, started, go = RecordedMetrics(), threading.Event(), threading.Event()

    def reconcile(request: Request) -> None:
        started.set()
        go.wait(20)

    with TcpProxy(("127.0.0.1", redis_server.port)) as proxy:
        behind = Connection(f"redis://127.0.0.1:{proxy.port}")
        Queue("foos", connection).add("a")
        manager = Manager([Controller("foos", reconcile)], redis=behind, settings=Settings(), metrics=metrics)
        with managing(manager, informer=False):
            assert started.wait(20)
            proxy.mode = "refuse"
            go.set()
            eventually(lambda: metrics.counters[OUTAGES, ("foos",)])
            proxy.mode = "pass"
            eventually(lambda: not left_over(connection, "foos"))
        behind.close()
    assert metrics.counters[OUTAGES, ("foos",)] == 1
    assert reconciles(metrics)["success"] == 1
    eventually(lambda: len(metrics.observed[WORK_DURATION, ("foos", "foos")]) == 1)


class TestManager:
    """Which process of a fleet exposes which metrics."""

    pytestmark = one_redis

    def test_a_manager_measures_its_queues_and_ends_its_gauges(self, connection: Connection) -> None:
        """Queues without a provider get its; after the end its gauges are not read."""
        metrics, own = RecordedMetrics(), RecordedMetrics()
        bars = Queue("bars", connection, metrics=own)
        controllers = [Controller("foos", lambda _: None), Controller(bars, lambda _: None)]
        with managing(Manager(controllers, redis=connection, settings=Settings(), metrics=metrics)):
            Queue("foos", connection).add("a")
            bars.add("b")
            eventually(
                lambda: reconciles(metrics).get("success") and reconciles(metrics, "bars").get("success")
            )
            eventually(lambda: len(metrics.observed[WORK_DURATION, ("foos", "foos")]) == 1)
            assert metrics.gauges()[READY, ("bars",)] == 0
        assert ((ADDS, ("bars", "bars")) in metrics.counters, own.counters[ADDS, ("bars", "bars")]) == (
            False,
            1,
        )
        assert metrics.reads == []

    @pytest.mark.conformance("MX-04")
    @pytest.mark.parametrize(("informer", "tells"), [(False, False), (True, True)])
    def test_without_watches_the_informers_side_counts_the_contents_of_queues(
        self, connection: Connection, informer: bool, tells: bool
    ) -> None:
        """``run`` does, ``worker`` does not: of a fleet one is enough."""
        metrics = RecordedMetrics()
        manager = Manager(
            [Controller("foos", lambda _: None)], redis=connection, settings=Settings(), metrics=metrics
        )
        with managing(manager, informer=informer):
            eventually(lambda: metrics.reads)
            gauges = {metric for metric, _ in metrics.gauges()}
        assert {MAX_CONCURRENT, ACTIVE_WORKERS} <= gauges
        assert ({DEPTH, READY, PROCESSING} <= gauges) is tells

    @pytest.mark.conformance("MX-04")
    def test_the_leader_counts_the_contents_of_queues_and_its_commits_as_adds(
        self, connection: Connection, tmp_path: Path
    ) -> None:
        """Followers report that they follow; keys that the leader's list enqueued are adds of the queue."""
        with EmulatedApiServer() as server, ExitStack() as stack:
            kubeconfig = str(server.kubeconfig(tmp_path / "kubeconfig"))
            client = Client(kubeconfig)
            for name in "abc":
                client.create(config_map("default", name))
            fleet = [stack.enter_context(informing(Client(kubeconfig), connection)) for _ in range(2)]
            eventually(lambda: any(synced(each) for each in fleet))
            leader, follower = sorted(fleet, key=synced, reverse=True)
            assert leader.gauges()[LEADER, ("distq-foos",)] == 1
            assert follower.gauges() == {(LEADER, ("distq-foos",)): 0}
            gauges = leader.gauges()
            assert gauges[DEPTH, ("foos", "foos", "-100")] == 3
            assert leader.counters[ADDS, ("foos", "foos")] == 3
            assert gauges[STREAM_LAG, ("foos", CONFIG_MAP)] < 60
            commits = leader.counters[STREAM_COMMITS, ("foos", CONFIG_MAP)]
            client.create(config_map("default", "d"))
            eventually(lambda: leader.counters[ADDS, ("foos", "foos")] == 4)
            assert leader.counters[STREAM_COMMITS, ("foos", CONFIG_MAP)] > commits
            assert ADDS not in {metric for (metric, _), count in follower.counters.items() if count}
