"""The pictures that pages show of a queue's present and past."""

from collections.abc import Sequence

from markupsafe import Markup

from distq.dashboard import charts
from distq.dashboard.charts import Series, Span
from distq.inspector import QueueView, TraceEvent

TIME_RANGES = {"hour": (3600.0, 10.0), "day": (86_400.0, 300.0), "week": (7 * 86_400.0, 3600.0)}
"""Seconds that a queue's pictures go back, and seconds between their samples."""


def of_queue(found: QueueView, now: float, step: float) -> list[Markup]:
    """Draw how many items are in each state, and the past as far as samples go back, ``step`` s apart."""
    past = found.past
    if len(past) < 2:
        return [charts.depth(found.info)]
    times = [sample.at for sample in past]

    def of(field: str) -> list[float | None]:
        return [getattr(sample, field) for sample in past]

    def draw(name: str, title: str, unit: str = "", /, **lines: Sequence[float | None]) -> Markup:
        series = [Series(line, values) for line, values in lines.items()]
        return charts.lines(name, title, times, series, unit=unit, now=now, step=step)

    states = {state: of(state) for state in ("ready", "delayed", "processing", "dead")}
    return [
        charts.depth(found.info),
        draw("past-depth", "Items by state", "", **states),
        draw("past-rates", "Reconciles a second", done=of("done_per_second"), failed=of("failed_per_second")),
        draw("past-failing", "Failing items", failing=of("failing")),
        draw("past-waited", "Longest wait", "s", waited=[sample.waited or 0.0 for sample in past]),
        draw("past-waiting", "Waiting time", "s", p50=of("waiting_p50"), p99=of("waiting_p99")),
        draw("past-working", "Working time", "s", p50=of("working_p50"), p99=of("working_p99")),
    ]


def claims(events: Sequence[TraceEvent], key: str, now: float) -> Markup:
    """Draw the claims of the whole queue in its trace; those of the key are highlighted."""
    held: dict[str, TraceEvent] = {}
    spans: list[Span] = []
    for event in events:
        if event.key is None:
            continue
        if event.kind == "claimed":
            held[event.key] = event
        elif event.since is not None:
            held.pop(event.key, None)
            spans.append(_span(event, event.since, event.at, key))
    spans += [_span(event, event.at, max(now, event.at), key) for event in held.values()]
    spans.sort(key=lambda span: span.begin)
    return charts.lanes("Claims of all workers, as traced", spans, now=now) if spans else Markup("")


def _span(event: TraceEvent, begin: float, end: float, key: str) -> Span:
    kind = "this" if event.key == key else "other"
    return Span(event.worker or "?", begin, end, kind, f"{event.key}: {event.event}")


def spark(found: QueueView) -> Markup:
    """Draw how many items of a queue were ready over the last hour."""
    return charts.sparkline("Ready in the last hour", [sample.ready for sample in found.past])
