"""A provider of metrics or spans that raises ends no thread and no turn: only its value is lost."""

import pytest

from distq.errors import ShutDown
from distq.metrics import CANCELLED
from distq.redisio.connection import Connection
from distq.safe_providers import LOGGED_EVERY, safe_metrics, safe_spans
from distq.testing import FakeClock
from distq.workqueue.queue import Queue
from tests.support.eventually import eventually
from tests.support.recorded_metrics import RecordedMetrics

on_one_redis = pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True)


class Broken:
    """A provider of metrics and spans of which every call raises."""

    def __init__(self) -> None:
        self.calls = 0
        self.works = False

    def fail(self, *_: object, **__: object) -> None:
        """Raise, unless it works for now."""
        if not self.works:
            self.calls += 1
            raise OSError("no space left")

    count = observe = expose = begin = fail


class BrokenSpan(Broken):
    """A provider that begins spans, which raise."""

    def begin(self, *_: object, **__: object) -> "BrokenSpan":  # type: ignore[override]
        """Return a span."""
        return self

    headers = link = end = Broken.fail


@on_one_redis
@pytest.mark.parametrize("broken", ["metrics", "on_cancel"])
def test_all_claims_are_cancelled_at_the_deadline(
    connection: Connection, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    """And the thread that watches the deadline goes on: a process without it would keep no promise."""
    queue = Queue("foos", connection, claim_duration=1.0)
    raising = Broken()
    raising.works = True
    if broken == "metrics":
        queue.set_metrics_provider(raising)  # type: ignore[arg-type]
    else:
        queue.on_cancel = raising.fail
    queue.add("a", "b")
    requests = queue.turn([], 2).requests
    raising.works = False
    heartbeat = queue._session._heartbeat
    assert heartbeat is not None
    options = heartbeat._store.connection._address.options
    port, options["port"] = options["port"], 1
    heartbeat._store.connection.close()
    assert all(request.cancelled.wait(30) for request in requests)
    eventually(lambda: raising.calls == 2, "both are cancelled")
    eventually(lambda: "OSError: no space left" in caplog.text, "the log has the error")
    assert heartbeat.is_alive()
    options["port"] = port
    queue.close()


@on_one_redis
@pytest.mark.parametrize("broken", [Broken, BrokenSpan])
def test_a_turn_and_an_add_do_their_work(connection: Connection, broken: type[Broken]) -> None:
    """Their callers get the results, as if there were no provider."""
    provider = broken()
    queue = Queue("foos", connection, metrics=provider, spans=provider)  # type: ignore[arg-type]
    assert queue.add("a", "b") == 2
    first, second = queue.get(0), queue.get(0)
    assert queue.settle(first)
    queue.add_rate_limited("b")
    assert queue.settle(second)
    queue.shut_down()
    with pytest.raises(ShutDown):
        queue.get(0)
    assert provider.calls > 4


def test_the_log_has_the_first_error_and_then_the_number_of_others(caplog: pytest.LogCaptureFixture) -> None:
    """A provider that raises may do so for each item."""
    clock = FakeClock()
    metrics = safe_metrics(Broken(), clock)  # type: ignore[arg-type]
    for _ in range(5):
        metrics.count(CANCELLED, ("foos",), 1)
    assert [record.getMessage() for record in caplog.records] == ["Broken raised an error: a value is lost."]
    clock.step(LOGGED_EVERY)
    metrics.count(CANCELLED, ("foos",), 1)
    assert caplog.records[-1].getMessage().endswith(" So were 4 values before it.")


def test_a_provider_that_works_gets_all_calls_and_keeps_its_page() -> None:
    """It is wrapped only once, even if it is passed on several times."""
    recorded = RecordedMetrics()
    metrics = safe_metrics(recorded)
    assert safe_metrics(metrics) is metrics
    metrics.count(CANCELLED, ("foos",), 2)
    assert recorded.counters[CANCELLED, ("foos",)] == 2
    metrics.expose(list)()
    assert metrics.page is None


def test_a_span_that_could_not_begin_has_no_link() -> None:
    """Its caller asks for the link, for headers, and ends it, as of any other."""
    spans = safe_spans(Broken())  # type: ignore[arg-type]
    span = spans.begin("add foos", "producer", {})
    assert (span.link(), span.headers()) == ("", {})
    span.end()


class Odd:
    """A provider whose spans lack what they should have, and that counts nothing."""

    def begin(self, *_: object, **__: object) -> "Odd":
        """Return a span."""
        return self

    def headers(self) -> None:
        """Return no headers."""


def test_a_provider_without_a_method_ends_nothing() -> None:
    """It may be of an older version, or a test's."""
    span = safe_spans(Odd()).begin("turn", "internal", {})  # type: ignore[arg-type]  # it is odd
    assert (span.headers(), span.link(), span.end()) == ({}, "", None)  # type: ignore[func-returns-value]
    safe_metrics(object()).count(CANCELLED, {}, 1)  # type: ignore[arg-type]
