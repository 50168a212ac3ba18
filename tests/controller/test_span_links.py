"""Reconciles link to the commit or add that made their items pending, across processes."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from distq.config import Settings
from distq.controller.controller import Controller
from distq.controller.manager import Manager
from distq.controller.watches import For
from distq.redisio.connection import Connection
from distq.redisio.keys import queue_key
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.controller.leading import ON_ALL_SERVERS
from tests.controller.test_manager import managing
from tests.support.api_servers import ApiServer
from tests.support.dispatchers import running
from tests.support.eventually import eventually
from tests.support.recorded_spans import RecordedSpans, id_of, links_of
from tests.support.samples import config_map

AT = 1_795_000_000_000_001
"""Beside a full ms, at which an item would be linked to nothing."""

_BEGIN = """
import json, sys
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from distq import Connection, Controller, Manager, Queue
from distq.opentelemetry import OpenTelemetrySpans
from tests.support.recorded_spans import id_of, links_of
kept, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(kept))
spans, tracer = OpenTelemetrySpans(provider), provider.get_tracer("mine")
def named(name):
    return next(span for span in kept.get_finished_spans() if span.name == name)
"""

_PRODUCER = f"""
{_BEGIN}
connection = Connection(sys.argv[1])
connection.server_time = {AT}
with tracer.start_as_current_span("POST /orders"):
    Queue("foos", connection, spans=spans).add("order")
add, request = named("add foos"), named("POST /orders")
assert add.parent.span_id == request.context.span_id
print(json.dumps(id_of(add.context)))
"""

_WORKER = f"""
{_BEGIN}
manager = Manager([Controller("foos", lambda request: manager.stop())], redis=sys.argv[1], spans=spans)
manager.run(informer=False)
print(json.dumps(links_of(named("reconcile foos"))))
"""


@pytest.fixture
def record() -> Iterator[Callable[..., RecordedSpans]]:
    """Give a function that makes providers, one for each side."""
    made: list[RecordedSpans] = []

    def make(*arguments: Any) -> RecordedSpans:
        made.append(RecordedSpans(*arguments))
        return made[-1]

    yield make
    for recorded in made:
        recorded.provider.shutdown()


Record = Callable[..., RecordedSpans]


def test_a_workers_reconcile_links_to_a_producers_add(
    connection: Connection, redis_server: EmbeddedValkey
) -> None:
    """Two processes that know of each other by Redis alone; the add is within the producer's own trace."""

    def run(program: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-c", program, redis_server.url], capture_output=True, text=True, check=True
        )
        return json.loads(done.stdout)

    add = run(_PRODUCER)
    assert run(_WORKER) == [add]


@ON_ALL_SERVERS
def test_a_reconcile_links_to_the_commit_of_the_informer(
    connection: Connection, api_server: ApiServer, namespace: str, record: Record
) -> None:
    """The list's and an event's commit, recorded by one process, and the reconciles recorded by another."""
    client = api_server.client()
    for name in ("a", "b", "c"):
        client.create(config_map(namespace, name))
    settings = Settings(lease_name="distq-test", lease_namespace=namespace)
    leads, works = record(), record()

    def manager(recorded: RecordedSpans) -> Manager:
        watch = For("v1/ConfigMap", namespaces=[namespace])
        controllers = [Controller("foos", lambda _: None, watches=[watch])]
        return Manager(controllers, redis=connection, client=client, settings=settings, spans=recorded.spans)

    with managing(manager(leads), workers=False), managing(manager(works), informer=False):
        eventually(lambda: len(keys(works)) >= 3)
        client.create(config_map(namespace, "d"))
        eventually(lambda: f"{namespace}/d" in keys(works))
    commits = leads.ids("commit foos")
    links = [links_of(span) for span in works.named("reconcile foos")]
    assert all(link in commits for found in links for link in found)
    assert len([found for found in links if found]) >= len(links) - 1  # at a full ms there is none


def keys(recorded: RecordedSpans) -> set[Any]:
    """Return what was reconciled."""
    return {each["distq.key"] for each in recorded.attributes("reconcile foos")}


def test_an_item_that_a_reconcile_adds_is_its_child_and_is_linked(
    connection: Connection, record: Record
) -> None:
    """In any queue, whose handle needs no spans of its own."""
    recorded = record()
    other = Queue("others", connection)
    connection.server_time = AT
    queue = Queue("foos", connection)
    queue.add("a")

    def reconcile(_: Request) -> None:
        other.add("b", "c")

    with running(Controller(queue, reconcile), spans=recorded.spans):
        eventually(lambda: recorded.named("reconcile foos"))
    with running(Controller(other, lambda _: None), spans=recorded.spans):
        eventually(lambda: len(recorded.named("reconcile others")) == 2)
    (add,), (first,) = recorded.named("add others"), recorded.named("reconcile foos")
    assert add.parent is not None
    assert id_of(add.parent) == id_of(first.context)
    assert first.links == ()  # that add was not recorded
    linked = [links_of(span) for span in recorded.named("reconcile others")]
    assert linked == [recorded.ids("add others")] * 2
    assert all(span.parent is None for span in recorded.named("reconcile others"))
    assert recorded.attributes("add others")[0]["messaging.batch.message_count"] == 2


def test_a_span_that_a_sampler_drops_is_linked_to_nothing(connection: Connection, record: Record) -> None:
    """A link to a span that was dropped would only take room."""
    queue = Queue("foos", connection, spans=record(ALWAYS_OFF).spans)
    connection.server_time = AT
    queue.add("a")
    assert connection.execute("EXISTS", queue_key("foos", "links")) == 0


@pytest.mark.parametrize(
    "link", ["", "garbage", f"00-{0:032x}-{1:016x}-01", f"ff-{1:032x}-{1:016x}-01", "0" * 9000]
)
def test_a_link_that_is_none_is_no_link(record: Record, link: str) -> None:
    """A caller that passes one by hand gets a span nevertheless."""
    recorded = record()
    recorded.spans.begin("x", "consumer", {}, link=link).end()
    (span,) = recorded.named("x")
    assert span.links == ()
