"""What a worker logs of its reconciles, and what a reconcile's own log lines bear."""

import asyncio
import io
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import distq
from distq import Controller, Request, TerminalError
from distq.cli.logs import JsonFormatter, TextFormatter
from distq.testing import MemoryQueue
from tests.controller.test_dispatcher import KINDS, handler
from tests.support.dispatchers import running
from tests.support.eventually import eventually

pytestmark = pytest.mark.first_contact(9)

_own = logging.getLogger("foos.of_the_program")


@contextmanager
def logged(formatter: logging.Formatter, level: str = "INFO") -> Iterator[Callable[[], str]]:
    """Attach a handler as the command line does; give what it has written."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.addFilter(distq.RequestFilter())
    handler.setFormatter(formatter)
    loggers = [logging.getLogger("distq"), _own]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(level)
    try:
        yield written.getvalue
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
            logger.setLevel(logging.NOTSET)


def run(reconcile: Any, *keys: str, until: Callable[[], bool]) -> None:
    """Run a worker on these keys until then."""
    queue = MemoryQueue("foos", rate_limiter=lambda _: 0.0)
    queue.add(*keys)
    with running(Controller(queue, reconcile, concurrency=4)):
        eventually(until)


@KINDS
def test_the_traceback_is_logged_at_the_attempts_1_2_4_and_8(kind: str) -> None:
    """File, line and exception; one line at each other attempt."""
    attempts: list[int] = []

    def reconcile(request: Request) -> None:
        attempts.append(request.attempt)
        if request.attempt < 10:
            raise ValueError("no.")

    with logged(TextFormatter()) as text:
        run(handler(kind, reconcile), "default/web", until=lambda: attempts == list(range(1, 11)))
    _, *failures = text().split("foos default/web attempt ")
    shown = {int(failure.split()[0]): failure.count("\n") > 1 for failure in failures}
    assert shown == {attempt: attempt in {1, 2, 4, 8} for attempt in range(1, 10)}
    assert f'File "{__file__}", line' in failures[0]
    assert "executors.py" not in text()
    assert failures[2].startswith("3 failed: ValueError: no; next")


def test_json_lines_have_the_parts_as_fields() -> None:
    """Each of a failure; a success at debug level has them, too, but for the error."""
    done: list[int] = []

    def reconcile(request: Request) -> None:
        if request.attempt == 1:
            raise TerminalError("no") if request.key == "bad" else ValueError("no")
        done.append(request.attempt)

    with logged(JsonFormatter(), "DEBUG") as text:
        run(reconcile, "web", "bad", until=lambda: bool(done) and text().count("\n") >= 3)
    lines = [json.loads(line) for line in text().splitlines()]
    failed, parked, succeeded = (
        next(line for line in lines if line.get("outcome") == outcome)
        for outcome in ("retry", "park", "success")
    )
    assert {name: failed[name] for name in ("queue", "key", "attempt", "error")} == {
        "queue": "foos",
        "key": "web",
        "attempt": 1,
        "error": "ValueError: no",
    }
    assert failed["fence"] > 0
    assert failed["seconds"] >= 0
    assert "worker" in failed
    assert __file__ in failed["traceback"]
    assert parked["error"] == "TerminalError: no"
    assert succeeded["attempt"] == 2
    assert succeeded["fence"] > failed["fence"]
    assert "error" not in succeeded


async def _in_a_task_and_a_thread(request: Request) -> None:
    await asyncio.gather(_say(), asyncio.to_thread(_own.info, "hello"))


async def _say() -> None:
    await asyncio.sleep(0.01)  # others run meanwhile
    _own.info("hello")


def _at_once(request: Request) -> None:
    _own.info("hello")
    _own.info("hello")


@pytest.mark.parametrize("reconcile", [_at_once, _in_a_task_and_a_thread])
def test_a_reconciles_own_lines_say_whose_they_are(reconcile: Any) -> None:
    """In text and as JSON fields, of reconciles that run at the same time; other lines stay bare."""
    keys = [f"default/{number}" for number in range(4)]
    with logged(TextFormatter()) as text, logged(JsonFormatter()) as objects:
        _own.info("outside")
        run(reconcile, *keys, until=lambda: text().count("hello") == 8)
    for key in keys:
        assert text().count(f"foos {key} attempt 1: hello") == 2
    outside, *lines = [json.loads(line) for line in objects().splitlines()]
    assert "key" not in outside
    assert text().splitlines()[0].endswith(" outside")
    assert sorted(line["key"] for line in lines if line["message"] == "hello") == sorted(2 * keys)
    assert all(line["queue"] == "foos" and line["fence"] and line["attempt"] == 1 for line in lines)


@KINDS
def test_the_current_request_is_that_of_the_reconcile(kind: str) -> None:
    """There is none before, after and elsewhere."""
    seen: list[tuple[Request, Request | None]] = []
    run(
        handler(kind, lambda request: seen.append((request, distq.current_request()))),
        *"abcdefgh",
        until=lambda: len(seen) == 8,
    )
    assert all(request is current for request, current in seen)
    assert distq.current_request() is None


def test_the_filter_keeps_the_fields_of_the_caller() -> None:
    """A caller's own field named ``key`` stays the caller's."""
    done: list[str] = []

    def reconcile(request: Request) -> None:
        _own.info("hello", extra={"key": "mine"})
        done.append(request.key)

    with logged(JsonFormatter()) as text:
        run(reconcile, "a", until=lambda: bool(done))
    line = json.loads(text().splitlines()[0])
    assert (line["key"], line["queue"]) == ("mine", "foos")
