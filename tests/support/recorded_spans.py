"""Spans that tests record: OpenTelemetry's SDK, in memory."""

from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler
from opentelemetry.trace import format_span_id, format_trace_id

from distq.opentelemetry import OpenTelemetrySpans


class RecordedSpans:
    """A tracer provider of one's own, and the spans that ended."""

    def __init__(self, sampler: Sampler | None = None) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=sampler)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.spans = OpenTelemetrySpans(self.provider)
        self.tracer = self.provider.get_tracer("a handler's")

    def named(self, name: str) -> list[ReadableSpan]:
        """Return the spans of this name, in the order of their ends."""
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def attributes(self, name: str) -> list[dict[str, Any]]:
        """Return their attributes."""
        return [dict(span.attributes or {}) for span in self.named(name)]

    def ids(self, name: str) -> list[str]:
        """Return by what links name them."""
        return [id_of(span.context) for span in self.named(name)]


def links_of(span: ReadableSpan) -> list[str]:
    """Return which spans a span links to, as ``RecordedSpans.ids`` names them."""
    return [id_of(link.context) for link in span.links]


def id_of(context: Any) -> str:
    """Return trace and span of a context."""
    return f"{format_trace_id(context.trace_id)}-{format_span_id(context.span_id)}"
