"""Which pictures the pages show of a queue's present and past."""

from collections.abc import Callable, Sequence

from markupsafe import Markup

from distq.dashboard import charts
from distq.dashboard.charts import Series, Span
from distq.inspector import QueueView, Sample, TraceEvent

STRETCHES = {"hour": (3600.0, 10.0), "day": (86_400.0, 300.0), "week": (7 * 86_400.0, 3600.0)}
"""How far back a queue's pictures go, and for how many seconds a sample stands there."""


def of_queue(found: QueueView, now: float) -> list[Markup]:
    """Draw how many items are in each state, and what was in the past as far as samples go back."""
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
    drawn += [
        charts.lines("past-depth", "Items by state", times, depths, now=now),
        charts.lines("past-rates", "Reconciles a second", times, rates, now=now),
        charts.lines(
            "past-failing", "Failing items", times, [line("failing", lambda sample: sample.failing)], now=now
        ),
        charts.lines(
            "past-waited",
            "Longest wait",
            times,
            [line("waited", lambda sample: sample.waited or 0.0, "waited")],
            unit="s",
            now=now,
        ),
    ]
    return drawn


def claims(events: Sequence[TraceEvent], key: str, now: float) -> Markup:
    """Draw the claims of the whole queue as far as its trace tells of them; those of the key stand out."""
    began: dict[str, TraceEvent] = {}
    spans: list[Span] = []

    def end(claim: TraceEvent, at: float, how: str) -> None:
        kind = "this" if claim.key == key else "other"
        spans.append(Span(claim.worker or "?", claim.at, at, kind, f"{claim.key}: {how}"))

    for event in events:
        if event.key is None:
            continue
        claim = began.get(event.key)
        if event.event.startswith("claimed"):
            began[event.key] = event
        elif claim and (event.fence == claim.fence or event.event.startswith("taken back")):
            end(began.pop(event.key), event.at, event.event)
    for claim in began.values():
        end(claim, max(now, claim.at), "held")
    spans.sort(key=lambda span: span.begin)
    return charts.lanes("Claims of all workers, as traced", spans, now=now) if spans else Markup("")


def spark(found: QueueView) -> Markup:
    """Draw how many items of a queue were ready over the last hour."""
    return charts.sparkline("Ready in the last hour", [sample.ready for sample in found.past])
