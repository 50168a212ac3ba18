"""The spans of distq, and the protocol of their providers.

The lowest layer, beside ``distq.metrics``. Reconciles, turns and commits that changed something have spans,
each in a trace of its own. The requests of a Client and the adds within a reconcile are its children. A
reconcile links to the commit or add that made its item pending. ``distq.opentelemetry`` exports them. Names
of attributes are OpenTelemetry's for messaging and HTTP, or begin with ``distq.``.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, NamedTuple, Protocol, runtime_checkable

Attributes = Mapping[str, str | int | float]

NO_ATTRIBUTES: Attributes = {}

Kind = Literal["producer", "consumer", "client"]
"""Whether a span puts work into a queue, does work from it, or sends a request to a server."""


class SpanFailure(NamedTuple):
    """The failure of a span: the type of an error, or a status; ``message`` and ``traceback``."""

    kind: str
    message: str = ""
    traceback: str = ""


class OpenSpan(Protocol):
    """One span, from ``begin`` to ``end``, which the same thread or task calls."""

    def headers(self) -> Mapping[str, str]:
        """Return the headers with which a server continues the trace."""

    def link(self) -> str:
        """Return the link for a later span: the W3C traceparent, or "" if the span is not kept."""

    def end(self, attributes: Attributes = NO_ATTRIBUTES, failure: SpanFailure | None = None) -> None:
        """Complete the span, once."""


@runtime_checkable
class SpanProvider(Protocol):
    """Keeps spans; any thread may call it; must not raise."""

    def begin(
        self, name: str, kind: Kind, attributes: Attributes, *, since: float | None = None, link: str = ""
    ) -> OpenSpan:
        """Begin a span, the parent of all spans that this thread or task begins before its end.

        ``since`` is when it began, seconds since the epoch; None is now. ``link`` is the W3C traceparent of
        another span to which it links, or "".
        """


def of_queue(queue: str, operation: str, kind: Literal["process", "receive", "send"]) -> Attributes:
    """Return the attributes of an operation on a queue, as OpenTelemetry names them for messaging."""
    return {
        "messaging.system": "distq",
        "messaging.destination.name": queue,
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
    }


@contextmanager
def sending(
    provider: SpanProvider, queue: str, operation: str, keys: int, about: Attributes = NO_ATTRIBUTES
) -> Iterator[str]:
    """Trace an operation that puts ``keys`` keys into a queue, and its failure; yield its span's link."""
    count: Attributes = {"messaging.batch.message_count": keys}
    attributes = {**of_queue(queue, operation, "send"), **count, **about}
    span = provider.begin(f"{operation} {queue}", "producer", attributes)
    try:
        yield _valid(span.link())  # a provider of the program may return any text
    except BaseException as error:
        span.end(failure=failure_of(error, str(error)))
        raise
    span.end()


# W3C Trace Context: ids of zeros only are invalid
_LINK = re.compile("00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def link_of(text: bytes) -> str:
    """Return a stored link; "" for any other text."""
    return _valid(text.decode(errors="replace")) if text else ""


def _valid(link: str) -> str:
    return link if _LINK.fullmatch(link) else ""


def failure_of(error: BaseException, message: str = "", traceback: str = "") -> SpanFailure:
    """Return an error as a failure, under its type's full name."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return SpanFailure(name, message, traceback)


_reconciling: ContextVar[SpanProvider | None] = ContextVar("distq_span_provider", default=None)


def enter(provider: SpanProvider) -> None:
    """Trace the requests of Clients with this provider, in this thread or task and tasks that it starts."""
    _reconciling.set(provider)


def current_provider() -> SpanProvider | None:
    """Return the provider for requests of a Client here; None outside of reconciles that have spans."""
    return _reconciling.get()
