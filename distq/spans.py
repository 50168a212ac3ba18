"""What is told as spans, and the protocol of who keeps them.

The lowest layer, beside ``distq.metrics``. Reconciles, turns and commits that did something are told, each as
a trace of its own; the requests of a Client within a reconcile are its children. ``distq.opentelemetry``
keeps them. Names of attributes are OpenTelemetry's for messaging and HTTP, or begin with ``distq.``.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Literal, NamedTuple, Protocol, runtime_checkable

Attributes = Mapping[str, str | int | float]

NO_ATTRIBUTES: Attributes = {}

Kind = Literal["producer", "consumer", "client"]
"""Whether a span puts work into a queue, does work out of it, or asks a server."""


class SpanFailure(NamedTuple):
    """Why what a span tells of failed: a type of errors, or a status; ``message`` and ``traceback``."""

    kind: str
    message: str = ""
    traceback: str = ""


class OpenSpan(Protocol):
    """One span, from ``begin`` to ``end``, both of the same thread or task."""

    def headers(self) -> Mapping[str, str]:
        """Return the headers by which a server that is asked goes on with the trace."""

    def end(self, attributes: Attributes = NO_ATTRIBUTES, failure: SpanFailure | None = None) -> None:
        """Complete the span, once."""


@runtime_checkable
class SpanProvider(Protocol):
    """Keeps spans, called by any thread; must not raise."""

    def begin(self, name: str, kind: Kind, attributes: Attributes, *, since: float | None = None) -> OpenSpan:
        """Begin a span, the parent of what this thread or task begins before its end.

        ``since`` is when it began, seconds since the epoch; None is now.
        """


def of_queue(queue: str, operation: str, kind: Literal["process", "receive", "send"]) -> Attributes:
    """Return the attributes of an operation on a queue, as OpenTelemetry names them for messaging."""
    return {
        "messaging.system": "distq",
        "messaging.destination.name": queue,
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
    }


def failure_of(error: BaseException, message: str = "", traceback: str = "") -> SpanFailure:
    """Return an error as a failure, under its type's full name."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return SpanFailure(name, message, traceback)


_reconciling: ContextVar[SpanProvider | None] = ContextVar("distq_span_provider", default=None)


def enter(provider: SpanProvider) -> None:
    """Let this provider keep what a Client asks in this thread or task, and in tasks that it starts."""
    _reconciling.set(provider)


def current_provider() -> SpanProvider | None:
    """Return who keeps what a Client asks here; None outside of reconciles that are told."""
    return _reconciling.get()
