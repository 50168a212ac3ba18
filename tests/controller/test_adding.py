"""Controllers that are added to a Manager: before it runs, and while it does."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
import urllib3

from distq.config import Settings
from distq.controller.controller import Controller
from distq.controller.manager import Manager
from distq.controller.watches import For
from distq.errors import ConfigError
from distq.prometheus import PrometheusMetrics
from distq.redisio.connection import Connection
from distq.workqueue.memory import MemoryQueue
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.controller.test_dispatcher import left_over
from tests.controller.test_manager import CONFIG_MAP, labelled, managing, settings, watching  # noqa: F401
from tests.metrics.test_prometheus import Scraped
from tests.support.api_servers import ApiServer
from tests.support.eventually import eventually
from tests.support.ports import free_port

pytestmark = pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True)


def noting(seen: set[str], of: str) -> Callable[[Request], None]:
    """Return a reconcile function that notes the names of its objects."""

    def reconcile(request: Request) -> None:
        seen.add(f"{of} {request.name}")

    return reconcile


def test_a_controller_that_is_added_watches_and_reconciles(
    api_server: ApiServer,
    connection: Connection,
    namespace: str,
    settings: Settings,  # noqa: F811
) -> None:
    """Before the run, and during it: in the term that goes on, in this process, and in the next term."""
    client, seen = api_server.client(), set[str]()
    scraped = Scraped()

    def manager(metrics: PrometheusMetrics | None = None) -> Manager:
        first = watching("foos", namespace, noting(seen, "foos"))
        one = Manager(
            [first], redis=connection, client=api_server.client(), settings=settings, metrics=metrics
        )
        one.add(watching("bars", namespace, noting(seen, "bars")))
        return one

    client.create(labelled(namespace, "a"))
    with managing(manager(scraped.metrics)) as running:
        eventually(lambda: seen == {"foos a", "bars a"})
        running.manager.add(watching("later", namespace, noting(seen, "later")))
        eventually(lambda: seen == {"foos a", "bars a", "later a"})
        client.create(labelled(namespace, "b"))
        eventually(lambda: len(seen) == 6)
        synced = scraped.value("distq_stream_synced", name="later", resource=CONFIG_MAP)
        assert synced == 1
        assert scraped.value("distq_workers", name="later") == 1
    assert running.error is None
    for queue in ("foos", "bars", "later"):
        assert left_over(connection, queue) == {}


def test_the_cache_of_an_added_controller_is_read_and_written_through(
    api_server: ApiServer,
    connection: Connection,
    namespace: str,
    settings: Settings,  # noqa: F811
) -> None:
    """Its lister uses the Manager's client, and shows what this process writes."""
    client = api_server.client()
    read: dict[str, Any] = {}
    watch = For(CONFIG_MAP, namespaces=[namespace], label_selector="distq=test", cached=True)

    def reconcile(request: Request) -> None:
        client.patch(CONFIG_MAP, request.key, {"data": {"color": "green"}})
        obj = later.lister(CONFIG_MAP).get(request.key)
        read.setdefault(request.name, obj and obj["data"]["color"])  # the event shows it later in any case

    later = Controller("later", reconcile, watches=[watch])
    first = watching("foos", namespace, lambda _: None)
    one = Manager([first], redis=connection, client=client, settings=settings)
    with managing(one):
        eventually(one.is_leader)
        one.add(later)
        client.create(labelled(namespace, "a", color="red"))
        eventually(lambda: read == {"a": "green"})


def test_the_first_runnable_may_be_added_to_a_leader(
    api_server: ApiServer,
    connection: Connection,
    namespace: str,
    settings: Settings,  # noqa: F811
) -> None:
    """It begins in the running term, though the Manager had none when it began."""
    began = threading.Event()

    def report(stop: threading.Event) -> None:
        began.set()
        stop.wait()

    first = watching("foos", namespace, lambda _: None)
    one = Manager([first], redis=connection, client=api_server.client(), settings=settings)
    with managing(one) as running:
        eventually(one.is_leader)
        one.add(report)
        assert began.wait(20)
    assert running.error is None


def test_plain_workers_are_added_too(connection: Connection) -> None:
    """On the Manager's Redis, or in memory; several threads may add at a time."""
    seen = set[str]()
    one = Manager([Controller("first", noting(seen, "first"))], redis=connection, settings=Settings())
    queue = MemoryQueue("memory")
    queue.add("a")
    with managing(one):
        eventually(lambda: one._is_working)
        added = [Controller(f"queue-{number}", noting(seen, f"{number}")) for number in range(4)]
        threads = [threading.Thread(target=one.add, args=(each,)) for each in added]
        for thread in threads:
            thread.start()
        one.add(Controller(queue, noting(seen, "memory")))
        for number in range(4):
            Queue(f"queue-{number}", connection).add("a")
        eventually(lambda: seen == {"memory a", "0 a", "1 a", "2 a", "3 a"})
        for thread in threads:
            thread.join(20)
    with pytest.raises(ConfigError, match="is stopping"):
        one.add(Controller("last", print))


def test_a_controller_that_cannot_be_added_is_refused(connection: Connection) -> None:
    """And changes nothing: the Manager goes on."""
    seen = set[str]()
    first = Controller("first", noting(seen, "first"))
    one = Manager([first], redis=connection, settings=Settings())
    with managing(one) as running:
        eventually(lambda: one._is_working)
        with pytest.raises(ConfigError, match=r"2 controllers of the queue first"):
            one.add(Controller("first", print))
        with pytest.raises(ConfigError, match="competes for no Lease"):
            one.add(Controller("watching", print, watches=[For(CONFIG_MAP)]))
        Queue("first", connection).add("a")
        eventually(lambda: seen == {"first a"})
        assert not running.ended()
    assert len(one._controllers) == 1


def test_two_managers_serve_one_address(connection: Connection) -> None:
    """Each in a thread: the probes are those of both, the metrics one page."""
    address = f"127.0.0.1:{free_port()}"
    scraped = Scraped()

    def manager(name: str) -> Manager:
        return Manager(
            [Controller(name, print)],
            redis=connection,
            settings=Settings(http_address=address),
            metrics=scraped.metrics,
        )

    def get(path: str) -> tuple[int, str]:
        answer = urllib3.request("GET", f"http://{address}{path}", timeout=20, retries=False)
        return answer.status, answer.data.decode()

    first, second = manager("foos"), manager("bars")
    second.add_readyz_check("api", lambda: False)
    with managing(first):
        eventually(lambda: first._is_working)
        assert get("/readyz") == (200, "ok\n")
        with managing(second):
            eventually(lambda: second._is_working)
            assert get("/readyz") == (503, "api: failed\n")
            assert get("/healthz") == (200, "ok\n")
            page = get("/metrics")[1]
            for name in ("foos", "bars"):
                assert f'controller_runtime_active_workers{{controller="{name}"}} 0.0' in page
        assert get("/readyz") == (200, "ok\n")
