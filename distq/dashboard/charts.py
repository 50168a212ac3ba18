"""Pictures of a queue's present and past: bars of states, lines over time, lanes of claims."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import inf
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from distq.dashboard.wording import clock, number
from distq.inspector import QueueInfo, QueueView, TraceEvent
from distq.wording import age, brief, counted

TIME_RANGES = {"hour": (3600.0, 10.0), "day": (86_400.0, 300.0), "week": (7 * 86_400.0, 3600.0)}
"""Seconds that a queue's pictures go back, and seconds between their samples."""

TEMPLATES = Environment(loader=PackageLoader("distq.dashboard"), autoescape=True, undefined=StrictUndefined)
svg: Any = TEMPLATES.get_template("distq/_svg.html").module
"""Macros that draw."""

STATES = ("ready", "delayed", "processing", "dirty", "dead")

_WIDTH, _HEIGHT = 400, 150
_LEFT, _RIGHT, _TOP, _BOTTOM = 6, 78, 12, 20
_ROW, _LABEL, _VALUE = 26, 84, 62
_LANE = 34
_APART = 12.0
_SECONDS = (2, 4, 10, 20, 60, 120, 240, 600, 1200, 3600, 7200, 14_400, 43_200, 86_400, 172_800, 604_800)
"""Of which the half is a round duration, too."""


class Series(NamedTuple):
    """A line of a picture: its name, which is also the class of its colour and dash, and a value a time."""

    name: str
    values: Sequence[float | None]


class Span(NamedTuple):
    """What one lane had from a time to another; ``kind`` is the class of its hatch."""

    lane: str
    begin: float
    end: float
    kind: str
    text: str


def of_queue(found: QueueView, now: float, step: float) -> list[Markup]:
    """Draw how many items are in each state, and the past as far as samples go back, ``step`` s apart."""
    past = found.past
    if len(past) < 2:
        return [depth(found.info)]
    times = [sample.at for sample in past]

    def of(field: str) -> list[float | None]:
        return [getattr(sample, field) for sample in past]

    def draw(name: str, title: str, unit: str = "", /, **named: Sequence[float | None]) -> Markup:
        series = [Series(line, values) for line, values in named.items()]
        return lines(name, title, times, series, unit=unit, now=now, step=step)

    states = {state: of(state) for state in ("ready", "delayed", "processing", "dead")}
    return [
        depth(found.info),
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
            spans.append(_claim(event, event.since, event.at, key))
    spans += [_claim(event, event.at, max(now, event.at), key) for event in held.values()]
    spans.sort(key=lambda span: span.begin)
    return lanes("Claims of all workers, as traced", spans, now=now) if spans else Markup("")


def _claim(event: TraceEvent, begin: float, end: float, key: str) -> Span:
    kind = "this" if event.key == key else "other"
    return Span(event.worker or "?", begin, end, kind, f"{event.key}: {event.event}")


def spark(found: QueueView) -> Markup:
    """Draw how many items of a queue were ready over the last hour."""
    return sparkline("Ready in the last hour", [sample.ready for sample in found.past])


def depth(info: QueueInfo) -> Markup:
    """Draw how many items are in each state: a bar each, hatched in its own way, with its number."""
    counts = {state: int(getattr(info, state)) for state in STATES}
    most = max(counts.values()) or 1
    room = _WIDTH - _LABEL - _VALUE
    shapes = [svg.hatches()]
    for place, (state, count) in enumerate(counts.items()):
        y = place * _ROW + 6
        width = max(2.0, room * count / most) if count else 0.0
        shapes += [
            svg.text(_LABEL - 8, y + 13, state, anchor="end"),
            svg.bar(state, _LABEL, y, width, 18),
            svg.text(_LABEL + width + 6, y + 13, number(count), kind="value"),
        ]
    summary = ", ".join(f"{number(count)} {state}" for state, count in counts.items())
    rows = [(state, number(count)) for state, count in counts.items()]
    height = _ROW * len(STATES) + 6
    return _figure("depth", "Items by state, now", summary, shapes, ["State", "Items"], rows, height)


def lines(
    name: str,
    title: str,
    times: Sequence[float],
    series: Sequence[Series],
    *,
    unit: str = "",
    now: float,
    step: float = inf,
) -> Markup:
    """Draw values over time, a line each with its name at the end; a gap where there is no value.

    ``times`` are seconds since the epoch, ``step`` apart while something runs: no line leads over longer than
    three steps. ``unit`` "s" writes values as durations.
    """
    shown = [each for each in series if any(value is not None for value in each.values)]
    most = max((value for each in shown for value in each.values if value is not None), default=0.0)
    begin, end = (times[0], times[-1]) if times else (now - 1, now)
    axes = _Axes(begin, end, _round_up(most, _SECONDS if unit == "s" else ()), unit)
    shapes = [*axes.drawn(now)]
    ends: list[tuple[float, str, str]] = []
    summary: list[str] = []
    for each in shown:
        shapes += [axes.polyline(each.name, points) for points in _unbroken(times, each.values, step)]
        shapes.append(svg.values(each.name, [written(value, unit) for value in each.values]))
        last = next(value for value in reversed(each.values) if value is not None)
        ends.append((axes.y(last), each.name, f"{each.name} {written(last, unit)}"))
        when = "last" if each.values[-1] is None else "now"
        summary.append(f"{each.name} {when} {written(last, unit)}")
    ends.sort(key=lambda found: found[0])
    for y, (_, line_name, label) in zip(spread([y for y, _, _ in ends]), ends, strict=True):
        shapes.append(svg.text(_WIDTH - _RIGHT + 6, y + 4, label, kind=f"end end-{line_name}"))
    rows = [
        (clock(moment)[:8], *(written(each.values[at], unit) for each in shown))
        for at, moment in reversed(list(enumerate(times)))
    ][:: max(1, len(times) // 30)]
    plot = ""
    if shown:
        shapes.append(svg.place(_TOP, _HEIGHT - _BOTTOM))
        whole = [round(moment) for moment in times]
        steps = [whole[0], *(after - before for before, after in pairwise(whole))]
        plot = svg.plot_attributes(_LEFT, _WIDTH - _RIGHT, steps)
    heads = ["Time (UTC)", *(each.name for each in shown)]
    described = "; ".join(summary) or "nothing yet"
    return _figure(name, title, described, shapes, heads, rows, _HEIGHT, plot=plot)


class _Axes(NamedTuple):
    """Where a moment and a value are in a picture of lines; values go from 0 to ``top``."""

    begin: float
    end: float
    top: float
    unit: str

    def x(self, moment: float) -> float:
        room = _WIDTH - _LEFT - _RIGHT
        return _LEFT + room * (moment - self.begin) / ((self.end - self.begin) or 1.0)

    def y(self, value: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - value / self.top)

    def polyline(self, name: str, points: Sequence[tuple[float, float]]) -> Markup:
        """Return a line; one value between two gaps is a short one, since a point is not drawn."""
        places = [(self.x(moment), self.y(value)) for moment, value in points]
        if len(places) == 1:
            ((x, y),) = places
            places = [(x - 1, y), (x + 1, y)]
        drawn: Markup = svg.polyline(name, _points(places))
        return drawn

    def drawn(self, now: float) -> Iterator[Markup]:
        """Yield three lines across with their values, and from when to when it is."""
        left, right = _LEFT, _WIDTH - _RIGHT
        for value in (0.0, self.top / 2, self.top):
            yield svg.rule(left, right, self.y(value))
            if value:
                yield svg.text(left, self.y(value) - 3, written(value, self.unit), kind="axis")
        end = "now" if now - self.end < 60 else f"{age(now - self.end)} ago"
        yield svg.text(left, _HEIGHT - 5, f"{age(now - self.begin)} ago", kind="axis")
        yield svg.text(right, _HEIGHT - 5, end, anchor="end", kind="axis")


def sparkline(title: str, values: Sequence[float]) -> Markup:
    """Draw one line without axes, for a row of a table; its name has first, highest and last value."""
    if len(values) < 2:
        return Markup('<span class="none">-</span>')
    most = max(values) or 1.0
    places = ((2 + 96 * at / (len(values) - 1), 22 - 20 * value / most) for at, value in enumerate(values))
    first, highest, last = (number(round(value)) for value in (values[0], max(values), values[-1]))
    summary = f"{title}: {first} at first, {highest} at most, {last} now"
    drawn: Markup = svg.spark(summary, _points(places))
    return drawn


def lanes(title: str, spans: Sequence[Span], *, now: float) -> Markup:
    """Draw claims over time: a lane for each worker, a bar for each claim; its table has the last fifty."""
    names = sorted({span.lane for span in spans})
    begin, end = min(span.begin for span in spans), max(span.end for span in spans)
    room, height = _WIDTH * 2 - 16, _LANE * len(names) + _BOTTOM
    scale = room / ((end - begin) or 1.0)
    shapes = [svg.hatches()]
    for place, name in enumerate(names):
        y = place * _LANE
        shapes += [svg.text(8, y + 12, name), svg.rule(8, room + 8, y + 24.5)]
        shapes += [
            svg.bar(
                span.kind,
                8 + scale * (span.begin - begin),
                y + 18,
                max(1.5, scale * (span.end - span.begin)),
                12,
                span.text,
            )
            for span in spans
            if span.lane == name
        ]
    shapes += [
        svg.text(8, height - 4, clock(begin), kind="axis"),
        svg.text(room + 8, height - 4, "now" if now - end < 1 else clock(end), anchor="end", kind="axis"),
    ]
    rows = [
        (span.lane, clock(span.begin), written(span.end - span.begin, "s"), span.text)
        for span in reversed(spans[-50:])
    ]
    heads = ["Worker", "Claimed (UTC)", "Held for", "What"]
    summary = f"{counted(len(spans), 'claim')} of {counted(len(names), 'worker')}"
    return _figure("lanes", title, summary, shapes, heads, rows, height, width=_WIDTH * 2)


def _figure(*parts: Any, **more: Any) -> Markup:
    drawn: Markup = svg.figure(*parts, **more)
    return drawn


def _points(places: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def written(value: float | None, unit: str = "") -> str:
    """Return a value as a picture and its table have it."""
    if value is None:
        return "-"
    if unit == "s":
        return brief(value)
    return number(round(value)) if value >= 100 or value == int(value) else f"{value:.1f}"


def _unbroken(
    times: Sequence[float], values: Sequence[float | None], step: float
) -> Iterable[list[tuple[float, float]]]:
    """Yield the values between two gaps, with their times; ``step`` as in ``lines``."""
    points: list[tuple[float, float]] = []
    for moment, value in zip(times, values, strict=True):
        if points and (value is None or moment - points[-1][0] > 3 * step):
            yield points
            points = []
        if value is not None:
            points.append((moment, value))
    if points:
        yield points


def spread(places: Sequence[float]) -> list[float]:
    """Return the places in their order, moved apart so that no text covers another."""
    moved: list[float] = []
    for place in sorted(places):
        moved.append(max(place, moved[-1] + _APART) if moved else place)
    over = max(0.0, moved[-1] - (_HEIGHT - _BOTTOM)) if moved else 0.0
    return [place - over for place in moved]


def _round_up(most: float, steps: Sequence[float]) -> float:
    """Return the next step, or the next of 1, 2, 5, 10, 20, ... of any size; 1 of nothing."""
    if most >= 1 and (fitting := [step for step in steps if step >= most]):
        return fitting[0]
    if most <= 0:
        return 1.0
    size = 10.0 ** len(str(int(most))) if most >= 1 else 1.0
    while size / 10 >= most:
        size /= 10
    return next(size * part for part in (0.1, 0.2, 0.5, 1.0) if size * part >= most * 0.999)
