"""What a reconcile's answer becomes."""

import asyncio
from typing import Any

import pytest

from distq.errors import RetryAfter, TerminalError
from distq.workqueue.interface import After, Outcome, Park, Release, Result, Retry, Success
from distq.workqueue.outcome import error_text, outcome_of, traceback_text
from tests.workqueue.failing import raised


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (None, Success()),
        (Result(), Success()),
        (Result(requeue_after=3), After(3)),
        (Result(requeue_after=0.5, priority=7), After(0.5, 7)),
        (Result(requeue_after=3, keep_failures=True), After(3, keep_failures=True)),
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


@pytest.mark.parametrize("words", [{"priority": 5}, {"keep_failures": True}])
def test_an_argument_that_goes_with_a_delay_is_refused_without_one(words: dict[str, Any]) -> None:
    """It would say nothing, and look as if it did."""
    with pytest.raises(ValueError, match=f"{next(iter(words))} without requeue_after. Give both"):
        Result(**words)
    with pytest.raises(ValueError, match="keep_failures 'no'"):
        Result(requeue_after=1, keep_failures="no")  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.first_contact(6)
@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), SystemExit(1), GeneratorExit(), asyncio.CancelledError()]
)
def test_where_no_signal_comes_to_a_wish_to_exit_is_a_failure(error: BaseException) -> None:
    """A thread of a pool raised it by itself."""
    assert isinstance(outcome_of(error, interruptible=False), Retry)


@pytest.mark.parametrize("delay", [float("nan"), True, None, "5"])
def test_a_delay_that_is_no_number_backs_off_by_the_limiter(delay: Any) -> None:
    """A handler's mistake must not stop its worker."""
    outcome = outcome_of(RetryAfter(delay))
    assert isinstance(outcome, Retry)
    assert outcome.delay is None


@pytest.mark.parametrize(
    ("answer", "what"), [(True, "a bool"), (5, "an int"), ("done", "a str"), (object(), "an object")]
)
def test_an_answer_of_another_kind_is_a_failure_that_says_so(answer: Any, what: str) -> None:
    """A forgotten convention must not look like success."""
    outcome = outcome_of(answer)
    assert isinstance(outcome, Retry)
    assert outcome.error == f"TypeError: reconcile returned {what}. Return a Result or None."


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


@pytest.mark.bound("ERROR_BYTES")
@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("", "ValueError"),
        (" \n\t ", "ValueError"),
        (
            "a\r\nb\t\x1b[31mred\x00",
            "ValueError: a b \N{REPLACEMENT CHARACTER}[31mred\N{REPLACEMENT CHARACTER}",
        ),
        ("half a pair \ud800", "ValueError: half a pair \N{REPLACEMENT CHARACTER}"),
        ("one\u2028two\u00a0three\u202e", "ValueError: one two three\N{REPLACEMENT CHARACTER}"),
        ("e\u0301 日本 \N{PILE OF POO}", "ValueError: e\u0301 日本 \N{PILE OF POO}"),
        ("100% {} %s - 5 retries", "ValueError: 100% {} %s - 5 retries"),
        ("é" * 600, "ValueError: " + "é" * 248 + "…"),
        ("é" * 250, "ValueError: " + "é" * 250),
        ("x" * 500, "ValueError: " + "x" * 500),
        ("x" * 501, "ValueError: " + "x" * 497 + "…"),
        ("x" * 50_000_000, "ValueError: " + "x" * 497 + "…"),
        (" " * 5000 + "deep", "ValueError: deep"),
    ],
    ids=lambda text: repr(text[:20]),
)
def test_an_errors_text_is_one_printable_line_of_512_bytes(message: str, line: str) -> None:
    """For any message, without cutting a character in two; a line that was cut says so."""
    assert error_text(ValueError(message)) == line
    assert len(line.encode()) <= 512


class _Rude(Exception):
    def __str__(self) -> str:
        raise ValueError("no")


class _Ruder(Exception):
    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]
        raise SystemExit("no")


def test_an_error_that_fails_to_show_its_traceback_is_a_failure_like_others() -> None:
    """Also where its class would end the process."""
    outcome = outcome_of(raised(_Ruder("no")))
    assert isinstance(outcome, Retry)
    assert (outcome.error, outcome.traceback) == ("_Ruder: no", "")


def test_an_error_that_fails_to_describe_itself_is_a_failure_like_others() -> None:
    """Its class is shown; a call that settles by hand does not raise what its text raises."""
    outcome = outcome_of(raised(_Rude()))
    assert isinstance(outcome, Retry)
    assert outcome.error == "_Rude: (it fails to describe itself)"
    assert outcome.traceback.startswith("Traceback")


def test_the_class_of_an_error_makes_no_second_line() -> None:
    """The traceback begins there."""
    assert error_text(type("Two\nlines", (Exception,), {})("of text")) == "Two lines: of text"


@pytest.mark.bound("TRACEBACK_BYTES")
def test_a_traceback_is_its_last_4_kib() -> None:
    """The end is the most useful part; an error that was never raised has no traceback."""

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


@pytest.mark.parametrize("message", ["x" * 50_000_000, "é" * 5000, "\x00" * 5000], ids=["huge", "é", "nul"])
def test_a_traceback_of_any_message_is_bounded(message: str) -> None:
    """Also where it holds what is longer in bytes, or cannot be shown."""
    text = traceback_text(raised(ValueError(message)))
    assert 4000 < len(text.encode()) <= 4096
    assert "\x00" not in text
