"""What a reconcile's answer becomes."""

import asyncio
from typing import Any

import pytest

from distq.errors import RetryAfter, TerminalError
from distq.workqueue.interface import After, Outcome, Park, Release, Result, Retry, Success
from distq.workqueue.outcome import error_text, outcome_of, traceback_text


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (None, Success()),
        (Result(), Success()),
        (Result(requeue_after=3), After(3)),
        (Result(requeue_after=0.5, priority=7), After(0.5, 7)),
        (ValueError("bad"), Retry("ValueError: bad")),
        (TimeoutError(), Retry("TimeoutError")),
        (RetryAfter(5), Retry("RetryAfter: retry after 5 s", delay=5)),
        (RetryAfter(5, "slow\ndown"), Retry("RetryAfter: slow down", delay=5)),
        (TerminalError("never"), Park("TerminalError: never")),
        (KeyboardInterrupt(), Release()),
        (SystemExit(1), Release()),
        (asyncio.CancelledError(), Release()),
    ],
)
def test_each_answer_has_one_outcome(answer: Any, outcome: Outcome) -> None:
    """The whole table."""
    assert outcome_of(answer) == outcome


@pytest.mark.parametrize("delay", [float("nan"), True])
def test_a_delay_that_is_no_number_backs_off_by_the_limiter(delay: Any) -> None:
    """A handler's mistake must not stop its worker."""
    outcome = outcome_of(RetryAfter(delay))
    assert isinstance(outcome, Retry)
    assert outcome.delay is None


@pytest.mark.parametrize("answer", [True, 5, "done", object()])
def test_an_answer_of_another_kind_is_a_failure_that_says_so(answer: Any) -> None:
    """A forgotten convention must not look like success."""
    outcome = outcome_of(answer)
    assert isinstance(outcome, Retry)
    assert "Return a Result or None" in outcome.error


@pytest.mark.parametrize(
    "arguments",
    [
        {"priority": 1},
        {"requeue_after": -1},
        {"requeue_after": float("nan")},
        {"requeue_after": True},
        {"requeue_after": "5"},
    ],
)
def test_a_result_that_makes_no_sense_is_refused(arguments: dict[str, Any]) -> None:
    """At construction, where the mistake is."""
    with pytest.raises(ValueError, match="bad Result"):
        Result(**arguments)


def test_an_errors_text_is_one_printable_line_of_256_bytes() -> None:
    """Whatever the message holds."""
    text = error_text(ValueError("a\r\nb\t\x1b[31mred\x00 " + "é" * 300))
    assert text.startswith("ValueError: a b \N{REPLACEMENT CHARACTER}[31mred\N{REPLACEMENT CHARACTER} é")
    assert len(text.encode()) <= 256


def test_a_traceback_is_its_last_4_kib() -> None:
    """The end tells most; an error that was never raised has none."""

    def deeper(depth: int) -> None:
        if depth:
            return deeper(depth - 1)
        raise ValueError("x" * 3000)

    try:
        deeper(100)
    except ValueError as error:
        text = traceback_text(error)
    assert text.endswith("x" * 3000 + "\n")
    assert len(text.encode()) <= 4096
    assert traceback_text(ValueError("never raised")) == ""
