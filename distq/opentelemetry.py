"""Metrics and spans for OpenTelemetry.

Metrics have their names of Prometheus, so boards and alerts work behind a collector, too. No other module
imports this one: programs that give a Manager these objects have OpenTelemetry, and configure its SDK.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from weakref import WeakKeyDictionary

from distq.exposed_gauges import ExposedGauges
from distq.extras import missing_extra
from distq.metrics import METRICS, Labels, Metric, Sample
from distq.spans import NO_ATTRIBUTES, Attributes, Kind, SpanFailure

try:
    from opentelemetry import context, propagate, trace
    from opentelemetry.metrics import (
        CallbackOptions,
        Counter,
        Histogram,
        MeterProvider,
        Observation,
        get_meter_provider,
    )
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ModuleNotFoundError:
    raise missing_extra("no OpenTelemetry API", "otel") from None

_SCOPE = "distq"
_W3C = TraceContextTextMapPropagator()
"""The format of links, for any headers that the program propagates."""

_KINDS: dict[Kind, trace.SpanKind] = {
    "producer": trace.SpanKind.PRODUCER,
    "consumer": trace.SpanKind.CONSUMER,
    "client": trace.SpanKind.CLIENT,
}


class OpenTelemetryMetrics:
    """A provider of metrics (``MetricsProvider``) in OpenTelemetry's; None is the global one.

    Give it to a Manager or to Queues. Names, buckets and meanings are those of Prometheus, labels are
    attributes. Any number of them may share a provider: they keep the same metrics. Needs the extra ``otel``.
    """

    def __init__(self, meter_provider: MeterProvider | None = None) -> None:
        self._instruments = _instruments_in(
            get_meter_provider() if meter_provider is None else meter_provider
        )

    def count(self, metric: Metric, labels: Labels, amount: float) -> None:
        """Raise a counter; an amount of 0 makes it known."""
        self._instruments.counters[metric].add(amount, _attributes(metric, labels))

    def observe(self, metric: Metric, labels: Labels, values: Sequence[float]) -> None:
        """Add values, seconds, to a histogram; OpenTelemetry has no histogram without values."""
        histogram, attributes = self._instruments.histograms[metric], _attributes(metric, labels)
        for value in values:
            histogram.record(value, attributes)

    def expose(self, read: Callable[[], Iterable[Sample]]) -> Callable[[], None]:
        """Call ``read`` for gauges at each collection; return the function that ends that."""
        return self._instruments.gauges.expose(read)

    def declare(self, metric: Metric) -> None:
        """Create the instrument of a program's own metric, unless it exists."""
        self._instruments.declare(metric)


class OpenTelemetrySpans:
    """A provider of spans (``distq.spans.SpanProvider``) for OpenTelemetry's; None is the global one.

    Give it to a Manager, or to Queues. Spans that a handler begins with OpenTelemetry are children of its
    reconcile, in tasks and ``asyncio.to_thread``, too. Needs the extra ``otel``.
    """

    def __init__(self, tracer_provider: trace.TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer(_SCOPE, tracer_provider=tracer_provider)

    def begin(
        self, name: str, kind: Kind, attributes: Attributes, *, since: float | None = None, link: str = ""
    ) -> "_Span":
        """Begin a span, the parent of all spans that this thread or task begins before its end."""
        start = None if since is None else round(since * 1e9)
        return _Span(
            self._tracer.start_span(
                name, kind=_KINDS[kind], attributes=attributes, links=_links(link), start_time=start
            )
        )


class _Span:
    """A span that is the current one of its thread or task until its end."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span
        self._token = context.attach(trace.set_span_in_context(span))

    def headers(self) -> Mapping[str, str]:
        headers: dict[str, str] = {}
        propagate.inject(headers)
        return headers

    def link(self) -> str:
        about = self._span.get_span_context()
        if not about.trace_flags.sampled:  # a link to a span that is not kept leads nowhere
            return ""
        headers: dict[str, str] = {}
        _W3C.inject(headers, trace.set_span_in_context(self._span))
        return headers["traceparent"]

    def end(self, attributes: Attributes = NO_ATTRIBUTES, failure: SpanFailure | None = None) -> None:
        context.detach(self._token)
        self._span.set_attributes(attributes)
        if failure is not None:
            self._fail(failure)
        self._span.end()

    def _fail(self, failure: SpanFailure) -> None:
        self._span.set_attribute("error.type", failure.kind)
        self._span.set_status(trace.Status(trace.StatusCode.ERROR, failure.message or None))
        if failure.message:
            about = {"exception.type": failure.kind, "exception.message": failure.message}
            stack = {"exception.stacktrace": failure.traceback} if failure.traceback else {}
            self._span.add_event("exception", {**about, **stack})


def _links(link: str) -> Sequence[trace.Link]:
    """Return a sequence with the link in OpenTelemetry's form, empty if the link is invalid."""
    if not link:
        return ()
    # in an empty context: an invalid link would give the span of the present one
    linked = trace.get_current_span(_W3C.extract({"traceparent": link}, context.Context()))
    about = linked.get_span_context()
    return [trace.Link(about)] if about.is_valid else ()


class _Instruments:
    def __init__(self, provider: MeterProvider) -> None:
        self._meter = provider.get_meter(_SCOPE)
        self._lock = threading.Lock()
        self._declared: dict[Metric, None] = {}
        self.counters: dict[Metric, Counter] = {}
        self.histograms: dict[Metric, Histogram] = {}
        self.gauges = ExposedGauges()
        self._collecting = threading.Lock()
        self._reading: dict[Metric, dict[Labels, float]] = {}
        for metric in METRICS:
            self.declare(metric)

    def declare(self, metric: Metric) -> None:
        with self._lock:
            if metric not in self._declared:
                self._make(metric)
                self._declared[metric] = None

    def _make(self, metric: Metric) -> None:
        # exporters for Prometheus write any other unit into the name
        unit = "s" if metric.name.endswith("_seconds") else ""
        named = {"name": metric.name, "unit": unit, "description": metric.meaning}
        if metric.kind == "counter":
            self.counters[metric] = self._meter.create_counter(**named)
        elif metric.kind == "histogram":
            self.histograms[metric] = self._meter.create_histogram(
                **named, explicit_bucket_boundaries_advisory=metric.buckets
            )
        else:
            self._meter.create_observable_gauge(**named, callbacks=[partial(self._observe, metric)])

    def _observe(self, metric: Metric, _: CallbackOptions) -> Iterator[Observation]:
        """Read the exposed gauges once for all metrics of a collection: each is asked for separately.

        A reading serves each metric once. If OpenTelemetry asks for a metric again, the next collection has
        begun.
        """
        with self._collecting:
            if metric not in self._reading:
                # first the metric: OpenTelemetry may ask for it before it is noted as declared
                self._reading = {each: {} for each in [metric, *self._declared]}
                for (each, labels), value in self.gauges.read().items():
                    self._reading.setdefault(each, {})[labels] = value
            values = self._reading.pop(metric)
        for labels, value in values.items():
            yield Observation(value, _attributes(metric, labels))


def _attributes(metric: Metric, labels: Labels) -> dict[str, str]:
    return dict(zip(metric.labels, labels, strict=True))


_all_instruments: WeakKeyDictionary[MeterProvider, _Instruments] = WeakKeyDictionary()
_making = threading.Lock()


def _instruments_in(provider: MeterProvider) -> _Instruments:
    with _making:
        if provider not in _all_instruments:
            _all_instruments[provider] = _Instruments(provider)
        return _all_instruments[provider]
