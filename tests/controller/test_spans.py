"""The spans of a controller: reconciles with the requests within them, turns, and commits."""

import asyncio
import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode
from urllib3 import HTTPResponse

from distq import spans
from distq.client.client import Client
from distq.client.http_answer import AnswerTooLarge
from distq.client.transport import within_span
from distq.config import Settings
from distq.controller.controller import Controller
from distq.controller.manager import Manager
from distq.controller.watches import For
from distq.controller.worker import claim_pace
from distq.controller.worker.worker_spans import WorkerSpans
from distq.errors import ConfigError, LeaseLost, RedisUnavailable, TerminalError
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.claim_ledger import FEW
from distq.workqueue.interface import Result, Settlement, Success, Turn
from distq.workqueue.queue import Queue
from distq.workqueue.rate_limiters import ItemExponentialFailureRateLimiter
from distq.workqueue.request import Request
from tests import ROOT
from tests.controller.leading import Scene
from tests.controller.test_manager import managing
from tests.support.api_servers import ApiServer
from tests.support.dispatchers import patient_turns_of, running
from tests.support.eventually import eventually
from tests.support.recorded_spans import RecordedSpans
from tests.support.samples import config_map

on_one_redis = pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True)


@pytest.fixture
def recorded() -> Iterator[RecordedSpans]:
    """Give an empty provider."""
    recorded = RecordedSpans()
    yield recorded
    recorded.provider.shutdown()


def is_within(child: ReadableSpan, parent: ReadableSpan) -> bool:
    """Return whether a span is a child of the other."""
    context = parent.get_span_context()
    return child.parent is not None and context is not None and child.parent.span_id == context.span_id


def reconciled(
    recorded: RecordedSpans, queue: Queue, reconcile: Callable[[Request], Any], count: int, **options: Any
) -> None:
    """Run a controller until so many reconciles were recorded."""
    with running(Controller(queue, reconcile, **options), spans=recorded.spans):
        eventually(lambda: len(recorded.named("reconcile foos")) >= count)


def test_a_reconcile_is_a_trace_that_says_which_and_how_it_ended(
    connection: Connection, recorded: RecordedSpans
) -> None:
    """Queue, key, attempt, priority, fence, how long it waited, and the outcome, of each attempt."""
    queue = Queue("foos", connection)
    queue.add("prod/web", priority=5)
    seen = list[Request]()

    def reconcile(request: Request) -> Result | None:
        seen.append(request)
        return Result(requeue_after=0) if len(seen) == 1 else None

    reconciled(recorded, queue, reconcile, 2)
    first, second = recorded.attributes("reconcile foos")
    assert [each["distq.outcome"] for each in (first, second)] == ["after", "success"]
    assert first.pop("distq.waited") >= 0
    assert first == {
        "messaging.system": "distq",
        "messaging.destination.name": "foos",
        "messaging.operation.name": "reconcile",
        "messaging.operation.type": "process",
        "distq.key": "prod/web",
        "distq.attempt": 1,
        "distq.priority": 5,
        "distq.fence": seen[0].fence,
        "distq.outcome": "after",
    }
    both = recorded.named("reconcile foos")
    assert [(span.kind, span.parent, span.status.status_code) for span in both] == (
        [(SpanKind.CONSUMER, None, StatusCode.UNSET)] * 2
    )
    assert len({span.context.trace_id for span in both}) == 2


@on_one_redis
@pytest.mark.parametrize("error", [ValueError("no such zone"), TerminalError("no such zone")])
def test_a_failure_is_recorded_with_its_traceback(
    connection: Connection, recorded: RecordedSpans, error: Exception
) -> None:
    """The span has the error's type and text, and where it was raised, as Redis remembers it."""
    queue = Queue("foos", connection)
    queue.add("a")

    def reconcile(_: Request) -> None:
        raise error

    reconciled(recorded, queue, reconcile, 1)
    span = recorded.named("reconcile foos")[0]
    assert span.attributes is not None
    kind = "ValueError" if isinstance(error, ValueError) else "distq.errors.TerminalError"
    assert span.attributes["distq.outcome"] == ("retry" if isinstance(error, ValueError) else "park")
    assert span.attributes["error.type"] == kind
    assert span.status.status_code is StatusCode.ERROR
    (event,) = span.events
    assert event.attributes is not None
    assert event.attributes["exception.type"] == kind
    assert "no such zone" in str(event.attributes["exception.message"])
    assert "in reconcile" in str(event.attributes["exception.stacktrace"])


@on_one_redis
def test_an_error_that_cannot_be_shown_is_recorded_nevertheless(
    connection: Connection, recorded: RecordedSpans
) -> None:
    """Nothing that a handler raises keeps its slot or its span."""

    class Shy(Exception):
        def __str__(self) -> str:
            raise RuntimeError("never")

    def reconcile(_: Request) -> None:
        raise Shy

    queue = Queue("foos", connection)
    queue.add("a")
    reconciled(recorded, queue, reconcile, 1)
    assert recorded.named("reconcile foos")[0].status.status_code is StatusCode.ERROR


@on_one_redis
def test_a_timeout_is_an_error(connection: Connection, recorded: RecordedSpans) -> None:
    """A reconcile that its reconciliation_timeout cancels fails by TimeoutError, not by CancelledError."""
    queue = Queue("foos", connection)
    queue.add("a")

    async def reconcile(_: Request) -> None:
        await asyncio.Event().wait()

    reconciled(recorded, queue, reconcile, 1, reconciliation_timeout=0.05)
    (attributes,) = recorded.attributes("reconcile foos")[:1]
    assert (attributes["distq.outcome"], attributes["error.type"]) == ("retry", "TimeoutError")


@on_one_redis
def test_a_lost_claim_is_cancelled(connection: Connection, recorded: RecordedSpans) -> None:
    """A reconcile whose request max_hold took meanwhile is recorded when it returns, in its thread."""
    # the other slot is not to run a retry, which might end first
    no_retry = ItemExponentialFailureRateLimiter(base_delay=1000.0)
    queue = Queue("foos", connection, rate_limiter=no_retry)
    queue.add("a")
    go_on = threading.Event()

    def reconcile(request: Request) -> None:
        request.cancelled.wait(30)
        go_on.wait(30)

    controller = Controller(queue, reconcile, concurrency=2, reconciliation_timeout=0.02, max_hold=0.05)
    with running(controller, spans=recorded.spans):
        eventually(lambda: queue.num_requeues("a") == 1)
        assert recorded.named("reconcile foos") == []
        go_on.set()
        eventually(lambda: recorded.named("reconcile foos"))
    assert recorded.attributes("reconcile foos")[0]["distq.outcome"] == "cancelled"


@on_one_redis
def test_reconciles_side_by_side_keep_apart(connection: Connection, recorded: RecordedSpans) -> None:
    """Each handler's own spans are its reconcile's, in threads and in tasks; each reconcile is a root."""
    together = threading.Barrier(2)

    def plain(request: Request) -> None:
        together.wait(30)
        with recorded.tracer.start_as_current_span(f"inner {request.key}"):
            together.wait(30)

    met = list[asyncio.Event]()

    async def coroutine(request: Request) -> None:
        met.append(asyncio.Event())
        with recorded.tracer.start_as_current_span(f"inner {request.key}"):
            if len(met) % 2:
                await met[-1].wait()
            else:
                met[-2].set()
            await asyncio.to_thread(recorded.tracer.start_span(f"thread {request.key}").end)

    handlers: dict[str, Any] = {"plain": plain, "coroutine": coroutine}
    for name, reconcile in handlers.items():
        queue = Queue(name, connection)
        queue.add("a", "b", "c", "d")
        controller = Controller(queue, reconcile, concurrency=2)
        with running(controller, spans=recorded.spans):
            eventually(lambda name=name: len(recorded.named(f"reconcile {name}")) == 4)  # type: ignore[misc]  # bound now
        parents = {span.attributes["distq.key"]: span for span in recorded.named(f"reconcile {name}")}  # type: ignore[index]  # they have some
        assert all(span.parent is None for span in parents.values())
        for key, parent in parents.items():
            inner = recorded.named(f"inner {key}")[-1]
            assert is_within(inner, parent)
            if name == "coroutine":
                assert is_within(recorded.named(f"thread {key}")[-1], inner)


@on_one_redis
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_a_clients_requests_are_children_of_the_reconcile(
    connection: Connection, api_server: ApiServer, namespace: str, recorded: RecordedSpans, is_async: bool
) -> None:
    """Method, URL, server and status; a refusal is an error; outside of reconciles nothing is recorded."""
    client = api_server.client()
    client.create(config_map(namespace, "web"))

    def plain(request: Request) -> None:
        client.get("v1/ConfigMap", request.key)
        client.get("v1/ConfigMap", f"{namespace}/absent")

    async def coroutine(request: Request) -> None:
        await client.aio.get("v1/ConfigMap", request.key)
        await client.aio.get("v1/ConfigMap", f"{namespace}/absent")

    queue = Queue("foos", connection)
    queue.add(f"{namespace}/web")
    reconciled(recorded, queue, coroutine if is_async else plain, 1)
    client.get("v1/ConfigMap", f"{namespace}/web")
    (parent,) = recorded.named("reconcile foos")
    found, absent = recorded.named("GET")
    for span, name, status in ((found, "web", 200), (absent, "absent", 404)):
        assert is_within(span, parent)
        assert span.kind is SpanKind.CLIENT
        attributes = dict(span.attributes or {})
        url = f"{client.server}/api/v1/namespaces/{namespace}/configmaps/{name}"
        assert (attributes["url.full"], attributes["http.request.method"]) == (url, "GET")
        assert f"{attributes['server.address']}:{attributes['server.port']}" in client.server
        assert attributes["http.response.status_code"] == status
        assert attributes.get("error.type") == (None if status == 200 else "404")


def test_a_server_may_go_on_with_the_trace(recorded: RecordedSpans) -> None:
    """A request has the W3C header of its own span, beside its credentials."""
    sent = dict[str, str]()

    def send(headers: Mapping[str, str]) -> HTTPResponse:
        sent.update(headers)
        return HTTPResponse(status=200)

    def ask() -> None:
        spans.enter(recorded.spans)
        within_span(send, "GET", "https://[::1]/api", {"Authorization": "Bearer secret"})

    copy_context().run(ask)
    (span,) = recorded.named("GET")
    assert sent.pop("Authorization") == "Bearer secret"
    context = span.get_span_context()
    assert context is not None
    assert sent.keys() == {"traceparent"}
    assert sent["traceparent"].startswith(f"00-{context.trace_id:032x}-{context.span_id:016x}-")
    assert dict(span.attributes or {})["server.port"] == 443
    assert "secret" not in span.to_json()


def test_an_answer_that_is_too_large_is_no_error(recorded: RecordedSpans) -> None:
    """The server has answered; a list goes on with smaller pages."""

    def send(headers: Mapping[str, str]) -> HTTPResponse:
        raise AnswerTooLarge(str(headers))

    def ask() -> None:
        spans.enter(recorded.spans)
        with pytest.raises(AnswerTooLarge):
            within_span(send, "GET", "https://example.com/api", {})

    copy_context().run(ask)
    (span,) = recorded.named("GET")
    assert dict(span.attributes or {})["http.response.status_code"] == 200
    assert span.status.status_code is StatusCode.UNSET


@on_one_redis
def test_a_request_without_an_answer_is_an_error(
    connection: Connection, recorded: RecordedSpans, tmp_path: Path
) -> None:
    """Each try is a span: the kind of the error is all that is known."""
    kubeconfig = tmp_path / "kubeconfig"
    config = {"clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}], "users": []}
    context = {"name": "c", "context": {"cluster": "c", "user": ""}}
    kubeconfig.write_text(json.dumps({**config, "contexts": [context], "current-context": "c"}))
    client = Client(kubeconfig)
    queue = Queue("foos", connection)
    queue.add("a")
    reconciled(recorded, queue, lambda _: client.request("PUT", "/x") and None, 1)
    (attributes,) = recorded.attributes("PUT")[:1]
    assert attributes["error.type"] == "urllib3.exceptions.NewConnectionError"
    assert recorded.attributes("reconcile foos")[0]["error.type"] == "distq.errors.ApiError"


@on_one_redis
def test_turns_that_did_something_are_recorded(
    connection: Connection, recorded: RecordedSpans, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How much each claimed and settled, in sum all."""
    # a busy machine would release what it does not come to, and claim it again
    monkeypatch.setattr(claim_pace, "STALE", 600.0)
    queue = Queue("foos", connection)
    queue.add(*(f"item-{number}" for number in range(20)))
    reconciled(recorded, queue, lambda _: None, 20, concurrency=4)
    turns = recorded.attributes("turn foos")
    assert sum(turn["messaging.batch.message_count"] for turn in turns) == 20
    assert sum(turn["distq.settled"] for turn in turns) == 20
    assert all(span.parent is None and span.kind is SpanKind.CLIENT for span in recorded.named("turn foos"))


def test_the_span_of_a_turn_has_its_own_claims_alone(connection: Connection, recorded: RecordedSpans) -> None:
    """Those that it leaves to the next one again are not counted twice."""
    queue = Queue("foos", connection)
    queue.add(*map(str, range(FEW + 2)))
    done = Settlement(queue.get(), Success())
    turns = patient_turns_of(queue, [], WorkerSpans(recorded.spans, queue.name))
    assert turns.make([], FEW + 1).spare == turns.make([done], 0).spare == FEW + 1
    claimed = [turn["messaging.batch.message_count"] for turn in recorded.attributes("turn foos")]
    assert claimed == [FEW + 1, 0]
    queue.close()


def test_a_turn_that_found_nothing_to_do_is_not_recorded(recorded: RecordedSpans) -> None:
    """An idle dispatcher fills no trace store."""
    idle = Turn([], [], 1.0)
    assert WorkerSpans(recorded.spans, "foos").turn(lambda: idle, [], 1) is idle
    assert recorded.named("turn foos") == []


def test_a_turn_that_redis_did_not_answer_is_an_error(recorded: RecordedSpans) -> None:
    """From the first try to the last one, with the items that it was to settle."""
    settlement = Settlement(Request("a"), Success())

    def turn() -> Turn:
        raise RedisUnavailable("no answer.")

    with pytest.raises(RedisUnavailable):
        WorkerSpans(recorded.spans, "foos").turn(turn, [settlement], 0)
    (attributes,) = recorded.attributes("turn foos")
    assert attributes["distq.settled"] == 1
    assert attributes["error.type"] == "distq.errors.RedisUnavailable"


@on_one_redis
def test_commits_that_carry_something_are_recorded(scene: Scene, recorded: RecordedSpans) -> None:
    """The list's and an event's keys, by resource; the probes of each second are not."""
    client = scene.leader().client
    client.create(config_map(scene.namespace, "a"))
    with scene.leading(spans=recorded.spans) as leader:
        before = leader.stream.enqueued
        client.create(config_map(scene.namespace, "b"))
        eventually(lambda: leader.stream.enqueued > before)
        eventually(lambda: scene.has("a", "b"))
        commits = recorded.attributes("commit foos")
        assert all(commit["distq.resource"] == "v1/ConfigMap" for commit in commits)
        carried = [commit["messaging.batch.message_count"] for commit in commits]
        assert (carried[-1], sum(carried) >= 2) == (1, True)
        leader.stream._committer.confirm()
        assert len(recorded.named("commit foos")) == len(commits)


@on_one_redis
def test_a_commit_of_a_deposed_leader_is_an_error(scene: Scene, recorded: RecordedSpans) -> None:
    """Why it changed nothing."""
    with scene.leading(spans=recorded.spans) as leader:
        leader.term.lasts = False
        committer = leader.stream._committer
        with pytest.raises(LeaseLost):
            committer.commit(Commit(new=committer.position, keys=[b"a"]))
    span = recorded.named("commit foos")[-1]
    assert (span.attributes or {})["error.type"] == f"{LeaseLost.__module__}.LeaseLost"


def documented_attributes() -> dict[str, set[str]]:
    """Return the attributes that docs/operations/opentelemetry.md names for each span."""
    page = (ROOT / "docs/operations/opentelemetry.md").read_text()
    rows = re.findall(r"^\| `(\w+)( QUEUE)?`.*\|(.*)\|$", page, re.MULTILINE)
    of_all = {"messaging.system", "messaging.destination.name"}
    of_all |= {"messaging.operation.name", "messaging.operation.type"}
    documented = {}
    for name, queue, cell in rows:
        names = {each if "." in each else f"distq.{each}" for each in re.findall(r"`([\w.]+)`", cell)}
        documented[f"{name} foos" if queue else name] = names | (of_all if queue else set())
    assert documented.keys() == {"reconcile foos", "turn foos", "commit foos", "add foos", "GET"}
    return documented


@on_one_redis
def test_a_manager_records_the_spans_of_both_sides(
    connection: Connection, api_server: ApiServer, namespace: str, recorded: RecordedSpans
) -> None:
    """Commit, add, turn, reconcile and request, with the attributes that the page names."""
    client = api_server.client()
    client.create(config_map(namespace, "web"))

    queue = Queue("foos", connection)

    def reconcile(request: Request) -> None:
        client.get("v1/ConfigMap", request.key)
        queue.add("once more", after=3600)

    watch = For("v1/ConfigMap", namespaces=[namespace])
    manager = Manager(
        [Controller(queue, reconcile, watches=[watch])],
        redis=connection,
        client=client,
        settings=Settings(lease_name="distq-test", lease_namespace=namespace),
        spans=recorded.spans,
    )
    with managing(manager):
        eventually(lambda: recorded.named("reconcile foos"))
    for name, documented in documented_attributes().items():
        assert documented == recorded.attributes(name)[0].keys()


def test_a_manager_refuses_a_provider_that_keeps_no_spans(recorded: RecordedSpans) -> None:
    """The SDK's own provider is the likely mistake."""
    controller = Controller(Queue("foos"), print)
    with pytest.raises(ConfigError, match=r"bad spans.*OpenTelemetrySpans"):
        Manager([controller], spans=recorded.provider)  # type: ignore[arg-type]  # the mistake


@on_one_redis
def test_opentelemetry_is_not_needed_where_it_is_not_used(redis_server: EmbeddedValkey) -> None:
    """A worker with a Client runs without the package, and imports nothing for it."""
    program = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from distq import Client, Connection, Controller, Manager, Queue\n"
        "queue = Queue('foos', Connection(sys.argv[1])); queue.add('a')\n"
        "manager = Manager([Controller(queue, lambda request: manager.stop())], redis=sys.argv[1])\n"
        "manager.run(informer=False)\n"
        "print('distq.opentelemetry' in sys.modules)"
    )
    command = [sys.executable, "-c", program, redis_server.url]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
