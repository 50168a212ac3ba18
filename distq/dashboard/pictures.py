"""The pictures that pages show of a queue's present and past."""

from collections.abc import Callable, Sequence
from functools import partial

from markupsafe import Markup

from distq.dashboard import charts
from distq.dashboard.charts import Series, Span
from distq.inspector import QueueView, Sample, TraceEvent

TIME_RANGES = {"hour": (3600.0, 10.0), "day": (86_400.0, 300.0), "week": (7 * 86_400.0, 3600.0)}
"""Seconds that a queue's pictures go back, and seconds between their samples."""


def of_queue(found: QueueView, now: float, step: float) -> list[Markup]:
    """Draw how many items are in each state, and the past as far as samples go back, ``step`` s apart."""
    drawn = [charts.depth(found.info)]
    if len(found.past) < 2:
        return drawn
    times = [sample.at for sample in found.past]

    def line(name: str, value: Callable[[Sample], float | None], label: str = "") -> Series:
        return Series(name, [value(sample) for sample in found.past], label)

    depths = [
        line("ready", lambda sample: sample.ready),
        line("delayed", lambda sample: sample.delayed),
        line("processing", lambda sample: sample.processing),
        line("dead", lambda sample: sample.dead),
    ]
    rates = [
        line("done", lambda sample: sample.done_per_second, "done"),
        line("failed", lambda sample: sample.failed_per_second, "failed"),
    ]
    waiting = [line("p50", lambda sample: sample.waiting_p50), line("p99", lambda sample: sample.waiting_p99)]
    working = [line("p50", lambda sample: sample.working_p50), line("p99", lambda sample: sample.working_p99)]
    failing = [line("failing", lambda sample: sample.failing)]
    waited = [line("waited", lambda sample: sample.waited or 0.0, "waited")]
    draw = partial(charts.lines, times=times, now=now, step=step)
    drawn += [
        draw("past-depth", "Items by state", series=depths),
        draw("past-rates", "Reconciles a second", series=rates),
        draw("past-failing", "Failing items", series=failing),
        draw("past-waited", "Longest wait", series=waited, unit="s"),
        draw("past-waiting", "Waiting time", series=waiting, unit="s"),
        draw("past-working", "Working time", series=working, unit="s"),
    ]
    return drawn


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
