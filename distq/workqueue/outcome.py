"""The outcome of a reconcile, decided in this one place."""

import asyncio
import traceback

from distq.errors import RetryAfter, TerminalError
from distq.redisio.limits import ERROR_BYTES, TRACEBACK_BYTES
from distq.redisio.scores import validate_priority
from distq.wording import a_type
from distq.workqueue.interface import SUCCESS, After, Outcome, Park, Release, Result, Retry
from distq.workqueue.rate_limiters import invalid_delay, is_delay

READ_CHARACTERS = 16_384
"""The letters of an error's message that are read, so that a message of many MB costs no time."""


def outcome_of(result: Result | BaseException | None, *, interruptible: bool = True) -> Outcome:
    """Return the outcome for a reconcile function's result or error.

    An interrupt of the program is no failure of its item. In a thread that no signal reaches, which is not
    ``interruptible``, the handler itself raised SystemExit or the like: that is a failure like any other.
    Source: controller-runtime internal/controller reconcileHandler; unlike there, a failure may
    set its own delay (RetryAfter).
    """
    match result:
        case None | Result(requeue_after=None):
            return SUCCESS
        case Result(requeue_after=float() | int() as delay, priority=priority):
            level = None if priority is None else validate_priority(priority)
            return After(delay, level, result.keep_failures)
        case KeyboardInterrupt() | SystemExit() | asyncio.CancelledError() | GeneratorExit() if interruptible:
            return Release()
        case TerminalError():
            return Park(error_text(result), traceback_text(result), cause=result)
        case RetryAfter(delay=delay) if is_delay(delay):
            return Retry(error_text(result), traceback_text(result), delay=delay, cause=result)
        case RetryAfter(delay=delay):
            refused = invalid_delay(delay, "RetryAfter: delay")
            return Retry(error_text(refused), traceback_text(result), cause=result)
        case BaseException():
            return Retry(error_text(result), traceback_text(result), cause=result)
        case _:
            return outcome_of(TypeError(f"reconcile returned {a_type(result)}. Return a Result or None."))


_CUT = "…"


def error_text(error: BaseException) -> str:
    """Return ``Type: message`` on one line of at most 512 bytes; the end of a longer one is an ellipsis."""
    name, message = type(error).__name__, _one_line(message_of(error))
    text = _one_line(f"{name}: {message}" if message else name)[: ERROR_BYTES + 1]  # one shows that it is cut
    whole = _printable(text, 4 * len(text))  # all of it: a letter has 4 bytes at most
    if len(whole.encode()) <= ERROR_BYTES:
        return whole
    return _printable(whole, ERROR_BYTES - len(_CUT.encode())) + _CUT


def traceback_text(error: BaseException) -> str:
    """Return the last 4 KiB of the traceback, empty if neither the error nor its cause was raised."""
    if error.__traceback__ is None and error.__cause__ is None:
        return ""
    try:
        text = "".join(traceback.format_exception(error))
    except BaseException:  # noqa: BLE001 - raised by the error's own class, as in message_of
        return ""
    return _printable(text[-TRACEBACK_BYTES:], TRACEBACK_BYTES, last=True)


def stack_text(stack: traceback.StackSummary) -> str:
    """Return the last 4 KiB of a thread's stack, written as a traceback."""
    text = f"Traceback (most recent call last):\n{''.join(stack.format())}"
    return _printable(text[-TRACEBACK_BYTES:], TRACEBACK_BYTES, last=True)


def message_of(error: BaseException) -> str:
    """Return the text of an error; a fixed one if the error's class fails to give it."""
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - raised by the error's own class, which may call sys.exit
        return "(it fails to describe itself)"


def _one_line(text: str) -> str:
    return " ".join(text[:READ_CHARACTERS].split())


def _printable(text: str, limit: int, *, last: bool = False) -> str:
    shown = (character if character.isprintable() or character in "\n\t" else "\ufffd" for character in text)
    clean = "".join(shown).encode(errors="replace")
    return (clean[-limit:] if last else clean[:limit]).decode(errors="ignore")
