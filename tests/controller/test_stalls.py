"""A thread that makes no progress for any reason is noticed: the process ends and another takes over."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

import pytest

from distq.client.client import Client
from distq.client.objects import Object
from distq.config import Settings
from distq.controller import process_health, shutdown
from distq.controller.controller import Controller
from distq.controller.manager import Manager
from distq.controller.watches import Watch, Watches
from distq.errors import Stalled
from distq.metrics import STREAM_COMMITS, WORK_DURATION, Labels, Metric, Sample
from distq.redisio.connection import Connection
from distq.workqueue.memory import MemoryQueue
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.support.api_servers import EmulatedServer

one_server = pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True)

LIMIT = 30.0


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let two seconds be long, and a Manager end as it does in a process of its own."""
    monkeypatch.setattr(process_health, "STALLED_AFTER", 2.0)
    monkeypatch.setattr(shutdown, "CLOSING_TIME", 1.4)


@pytest.fixture
def let_go() -> Iterator[threading.Event]:
    """Give what ends all waiting, at the latest with the test."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def emulated() -> Iterator[EmulatedServer]:
    """Run an API server of the test's own, with one object."""
    with EmulatedServer() as server:
        metadata = {"name": "one", "namespace": "default"}
        Client(server.kubeconfig).create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        yield server


class HeldMetrics:
    """A provider that does not return from what is said of one metric."""

    def __init__(self, metric: Metric, let_go: threading.Event) -> None:
        self._metric = metric
        self._let_go = let_go

    def count(self, metric: Metric, labels: Labels, amount: float) -> None:  # noqa: ARG002
        """Hold the thread that counts it."""
        if metric is self._metric and amount:
            self._let_go.wait(LIMIT)

    def observe(self, metric: Metric, labels: Labels, values: Sequence[float]) -> None:  # noqa: ARG002
        """Hold the thread that observes it."""
        if metric is self._metric and len(values):
            self._let_go.wait(LIMIT)

    def expose(self, read: Callable[[], Iterable[Sample]]) -> Callable[[], None]:  # noqa: ARG002
        """Ask for nothing."""
        return lambda: None


def settings() -> Settings:
    """Return settings of a process that leads soon and ends soon."""
    return Settings(
        grace_period=1.0, lease_duration=3.0, renew_deadline=2.0, retry_period=0.5, lease_name="foos"
    )


@pytest.mark.slow
def test_a_dispatcher_that_a_provider_holds_ends_the_process(let_go: threading.Event) -> None:
    """What it had claimed is left to others instead of being kept alive for ever."""
    queue = MemoryQueue("foos")
    queue.add("one")
    metrics = HeldMetrics(WORK_DURATION, let_go)
    manager = Manager([Controller(queue, lambda _: None)], metrics=metrics, settings=settings())
    with pytest.raises(Stalled, match=r"^foos: its dispatcher has made no progress for"):
        manager.run(informer=False)


def test_a_dispatcher_that_waits_is_not_held() -> None:
    """Neither a slow reconcile nor a queue without work is a standstill."""
    queue, done = MemoryQueue("foos"), threading.Event()
    queue.add("one")

    def reconcile(request: Request) -> None:
        request.cancelled.wait(3.0)
        done.set()

    manager = Manager([Controller(queue, reconcile)], settings=settings())
    threading.Timer(6.0, manager.stop).start()
    manager.run(informer=False)
    assert done.is_set()


def hold(let_go: threading.Event) -> Callable[[Object], list[str]]:
    """Return a mapping function that does not return."""

    def keys_of(obj: Object) -> list[str]:
        let_go.wait(LIMIT)
        return []

    return keys_of


def run_informer(
    watches: Sequence[Watch],
    emulated: EmulatedServer,
    connection: Connection,
    metrics: HeldMetrics | None = None,
) -> None:
    """Run a Manager that leads, until it ends by itself."""
    controller = Controller(Queue("foos"), lambda _: None, watches=watches)
    client = Client(emulated.kubeconfig)
    Manager([controller], redis=connection, client=client, settings=settings(), metrics=metrics).run(
        workers=False
    )


@one_server
def test_a_stream_that_a_function_holds_gives_the_lease_away(
    connection: Connection, emulated: EmulatedServer, let_go: threading.Event
) -> None:
    """The process ends by name of the stream, and its Lease is free at once."""
    with pytest.raises(Stalled, match=r"^foos: the stream of v1/ConfigMap has made no progress for"):
        run_informer([Watches("v1/ConfigMap", hold(let_go))], emulated, connection)
    lease = Client(emulated.kubeconfig).get("coordination.k8s.io/v1/Lease", "default/foos")
    assert lease is not None
    assert not lease["spec"].get("holderIdentity")


@one_server
@pytest.mark.slow
def test_a_stream_that_a_provider_holds_gives_the_lease_away(
    connection: Connection, emulated: EmulatedServer, let_go: threading.Event
) -> None:
    """A provider that blocks after a commit holds the stream outside of any function of the program."""
    metrics = HeldMetrics(STREAM_COMMITS, let_go)
    with pytest.raises(Stalled, match="the stream of v1/ConfigMap"):
        run_informer([Watches("v1/ConfigMap", lambda _: ["one"])], emulated, connection, metrics)
