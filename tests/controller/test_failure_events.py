"""What people see of failed reconciles where they look: Warning events about their objects."""

from collections.abc import Iterator
from unittest.mock import Mock, create_autospec

import pytest

from distq.client import Client, recorder
from distq.controller import recorded_events
from distq.controller.controller import Controller
from distq.controller.leading import Candidate
from distq.controller.manager import Manager
from distq.controller.recorded_events import FailureEvents, flush_events
from distq.controller.shutdown import Shutdown
from distq.controller.watches import For, Watches
from distq.errors import ConfigError, TerminalError
from distq.metrics import EVENTS_DROPPED
from distq.testing import FakeClock
from distq.testing import sandbox as sandbox_module
from distq.testing.sandbox import Sandbox
from distq.workqueue.interface import Retry, Settlement
from distq.workqueue.request import Request
from tests.support.api_servers import ApiServer
from tests.support.recorded_metrics import RecordedMetrics

IN_TIME = 60.0
MANIFEST = """
apiVersion: v1
kind: ConfigMap
metadata: {name: web, namespace: default}
"""


class BadImageError(TerminalError):
    """Names the reason of an event."""


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """Give a cluster with one object."""
    with Sandbox(manifests=[MANIFEST]) as sandbox:
        yield sandbox


def failing(*errors: Exception, failure_events: bool = True) -> Controller:
    """Return a controller whose reconciles raise these errors, then succeed."""
    left = list(errors)

    def reconcile(request: Request) -> None:
        if left:
            raise left.pop(0)

    watch = For("v1/ConfigMap", namespaces=["default"], field_selector="metadata.name=web")
    return Controller("maps", reconcile, watches=[watch], failure_events=failure_events)


def test_a_failed_reconcile_is_a_warning_about_its_object(sandbox: Sandbox) -> None:
    """By its uid, as kubectl describe looks for it; equal ones are counted."""
    errors = [ValueError("no port"), ValueError("no port"), BadImageError("web:9 is none")]
    sandbox.run_until_idle(failing(*errors), on_failure="retry", timeout=IN_TIME)
    about = sandbox.client.get("v1/ConfigMap", "default/web")
    assert about is not None
    selector = f"involvedObject.uid={about['metadata']['uid']}"
    events = list(sandbox.client.list("v1/Event", "default", field_selector=selector))
    assert {(event["reason"], event["message"], event["count"]) for event in events} == {
        ("ValueError", "no port", 2),
        ("BadImageError", "web:9 is none", 1),
    }
    assert {event["type"] for event in events} == {"Warning"}


def test_events_are_recorded_only_where_asked_for(sandbox: Sandbox) -> None:
    """Failures are in the log and in the queue anyway."""
    sandbox.run_until_idle(
        failing(ValueError("no port"), failure_events=False), on_failure="retry", timeout=IN_TIME
    )
    selector = "involvedObject.kind=ConfigMap"
    assert list(sandbox.client.list("v1/Event", "default", field_selector=selector)) == []


def test_an_item_that_fails_often_reads_its_object_seldom(api_server: ApiServer, namespace: str) -> None:
    """Once a minute; an object that is gone has no event."""
    client = api_server.client()
    place = {"name": "web", "namespace": namespace}
    client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": place})
    asked: list[str] = []
    get = client.get

    def counted_get(resource: str, key: str) -> object:
        asked.append(key)
        return get(resource, key)

    client.get = counted_get  # type: ignore[method-assign,assignment]  # to see what is asked
    clock = FakeClock()
    events = FailureEvents(client, "v1/ConfigMap", clock)
    for seconds in (0, 30, 29, 1):
        clock.step(seconds)
        events.settled(Settlement(Request(f"{namespace}/web"), Retry("ValueError: no port")))
        assert client.flush_events(IN_TIME)
    assert asked == [f"{namespace}/web"] * 2
    (event,) = client.list("v1/Event", namespace)
    assert (event["count"], event["message"]) == (4, "no port")
    events.settled(Settlement(Request(f"{namespace}/none"), Retry("TimeoutError")))
    assert client.flush_events(IN_TIME)
    assert len(list(client.list("v1/Event", namespace))) == 1


def test_without_a_for_there_is_no_object_to_name() -> None:
    """It is refused when the Controller is made."""
    watch = Watches("v1/ConfigMap", lambda _: ["a"])
    with pytest.raises(ConfigError, match="bad failure_events of maps: no For says what its keys are"):
        Controller("maps", lambda _: None, watches=[watch], failure_events=True)
    with pytest.raises(ConfigError, match="bad failure_events: 1"):
        Controller("maps", lambda _: None, failure_events=1)  # type: ignore[arg-type]  # wrong on purpose


def test_a_run_counts_the_events_that_the_process_drops(sandbox: Sandbox) -> None:
    """By any Client of it, from the first scrape on."""
    metrics = RecordedMetrics()
    controller = failing()
    manager = Manager([controller], redis=sandbox.redis, client=sandbox.client, metrics=metrics)

    def reconcile(_: Request) -> None:
        sandbox.client.event({}, "Synced", "of nothing")
        manager.stop()

    controller.reconcile = reconcile
    manager.run()
    dropped = {
        labels: number for (metric, labels), number in metrics.counters.items() if metric is EVENTS_DROPPED
    }
    assert dropped.pop(("invalid",)) >= 1
    assert dropped == {("full",): 0, ("filtered",): 0, ("refused",): 0, ("unanswered",): 0}
    counted = metrics.counters[EVENTS_DROPPED, ("invalid",)]
    sandbox.client.event({}, "Synced", "after the run")
    assert metrics.counters[EVENTS_DROPPED, ("invalid",)] == counted


def test_the_end_waits_for_events_and_says_how_many_are_left(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What the API server does not take in time is lost with the process."""
    monkeypatch.setattr(recorded_events, "LEAST_FLUSH", 0.0)
    about = sandbox.client.get("v1/ConfigMap", "default/web")
    assert about is not None
    sandbox.client.event(about, "Synced", "in time")
    monkeypatch.setattr(recorded_events, "LONGEST_FLUSH", IN_TIME)
    flush_events(IN_TIME)
    assert [event["message"] for event in sandbox.client.list("v1/Event", "default")] == ["in time"]
    held = recorder.EventRecorder(sandbox.client, "tester")
    held._thread = object()  # type: ignore[assignment]  # none starts, so nothing is sent
    held.record(about, "Synced", "late", type="Normal")
    flush_events(0.0)
    assert "1 event not sent: the API server did not answer in time" in caplog.text
    held.discard()


def test_no_event_of_a_sandbox_comes_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Client that follows KUBECONFIG outlives both, with the events that it could not send."""
    monkeypatch.setattr(sandbox_module, "GRACE_PERIOD", 0.0)
    client = Client()
    for number in (1, 2):
        with Sandbox(manifests=[MANIFEST]) as sandbox:
            about = client.get("v1/ConfigMap", "default/web")
            assert about is not None
            client.event(about, "Synced", f"in sandbox {number}")
            assert client.flush_events(IN_TIME)
            (event,) = sandbox.client.list("v1/Event", "default")
            assert (event["message"], event["count"]) == (f"in sandbox {number}", 1)
            # none starts, so nothing is sent
            monkeypatch.setattr(client._recorder, "_thread", object())
            client.event(about, "Synced", "too late")
        monkeypatch.setattr(client._recorder, "_thread", None)


@pytest.mark.parametrize("grace", [25.0, 0.0])
def test_events_get_no_more_time_than_the_lease_has_left_where_neither_is_answered(
    grace: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Together they take two seconds, as a process has that was doing nothing."""
    now, flush = [100.0], Mock(return_value=0)
    monkeypatch.setattr(recorder, "flush", flush)
    monkeypatch.setattr("distq.controller.shutdown.CLOSING_TIME", 1.4)  # as outside of tests
    candidate = create_autospec(Candidate, instance=True)
    candidate.has_ended.return_value = False
    shutdown = Shutdown([], [candidate], clock=lambda: now[0])
    shutdown.begin(grace)
    while not shutdown.is_over():
        now[0] += 0.05
    flush_events(shutdown.grace_left, shutdown.closing_took)
    (seconds,) = flush.call_args.args
    assert recorded_events.LEAST_FLUSH <= seconds <= 2.001 - shutdown.took
