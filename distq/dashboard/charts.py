"""Pictures as SVG, drawn by the server.

Each is readable in grey (its parts differ in their hatch or dash, and bear their names), has a name for who
hears the page, and a table behind it. Nothing is said by style attributes, which the page's policy forbids.
"""

from collections.abc import Iterable, Sequence
from math import inf
from typing import NamedTuple

from markupsafe import Markup, escape

from distq.dashboard.wording import clock, number
from distq.inspector import QueueInfo
from distq.wording import age, counted

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
    label: str = ""


class Table(NamedTuple):
    """What a picture shows, to read; the first cell of a row is its name."""

    heads: Sequence[str]
    rows: Iterable[Sequence[str]]


class Span(NamedTuple):
    """What one lane had from a time to another; ``kind`` is the class of its hatch."""

    lane: str
    begin: float
    end: float
    kind: str
    text: str


def depth(info: QueueInfo) -> Markup:
    """Draw how many items are in each state: a bar each, hatched in its own way, with its number."""
    counts = {state: int(getattr(info, state)) for state in STATES}
    most = max(counts.values()) or 1
    room = _WIDTH - _LABEL - _VALUE
    shapes = []
    for place, (state, count) in enumerate(counts.items()):
        y = place * _ROW + 6
        width = max(2.0, room * count / most) if count else 0.0
        shapes += [
            _text(_LABEL - 8, y + 13, state, anchor="end"),
            _bar(state, _LABEL, y, width=width, height=18),
            _text(_LABEL + width + 6, y + 13, number(count), kind="value"),
        ]
    said = ", ".join(f"{number(count)} {state}" for state, count in counts.items())
    rows = [(state, number(count)) for state, count in counts.items()]
    height = _ROW * len(STATES) + 6
    drawn, table = Markup().join([_hatches(), *shapes]), Table(["State", "Items"], rows)
    return _figure("depth", "Items by state, now", said, drawn, table, height=height)


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
    top = _round_up(most, _SECONDS if unit == "s" else ())
    begin, end = (times[0], times[-1]) if times else (now - 1, now)
    span = (end - begin) or 1.0
    room, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def place(moment: float, value: float) -> tuple[float, float]:
        return _LEFT + room * (moment - begin) / span, _TOP + height * (1 - value / top)

    shapes = [_grid(top, unit), *_axis(begin, end, now)]
    ends: list[tuple[float, Series, float]] = []
    for each in shown:
        for points in _unbroken(times, each.values, step):
            line = " ".join(_points([place(moment, value) for moment, value in points]))
            shapes.append(Markup('<polyline class="line line-{}" points="{}"/>').format(each.name, line))
        last = next(value for value in reversed(each.values) if value is not None)
        ends.append((_TOP + height * (1 - last / top), each, last))
    for y, (_, each, last) in zip(
        spread([y for y, _, _ in ends]), sorted(ends, key=lambda found: found[0]), strict=True
    ):
        said = f"{each.label or each.name} {written(last, unit)}"
        shapes.append(_text(_WIDTH - _RIGHT + 6, y + 4, said, kind=f"end end-{each.name}"))
    said = "; ".join(
        f"{each.label or each.name} {'last' if each.values[-1] is None else 'now'} {written(last, unit)}"
        for _, each, last in ends
    )
    rows = [
        (clock(moment)[:8], *(written(each.values[at], unit) for each in shown))
        for at, moment in reversed(list(enumerate(times)))
    ][:: max(1, len(times) // 30)]
    heads = ["Time (UTC)", *(each.label or each.name for each in shown)]
    return _figure(
        name, title, said or "nothing yet", Markup().join(shapes), Table(heads, rows), height=_HEIGHT
    )


def sparkline(title: str, values: Sequence[float]) -> Markup:
    """Draw one line without axes, for a row of a table; its name says first, most and last."""
    if len(values) < 2:
        return Markup('<span class="none">-</span>')
    most = max(values) or 1.0
    points = " ".join(
        f"{2 + 96 * at / (len(values) - 1):.1f},{22 - 20 * value / most:.1f}"
        for at, value in enumerate(values)
    )
    first, highest, last = (number(round(value)) for value in (values[0], max(values), values[-1]))
    said = f"{title}: {first} at first, {highest} at most, {last} now"
    return Markup(
        '<svg class="spark" viewBox="0 0 100 24" role="img" aria-label="{}">'
        '<polyline class="line" points="{}"/></svg>'
    ).format(said, points)


def lanes(title: str, spans: Sequence[Span], *, now: float) -> Markup:
    """Draw who had what when: a lane a name, a bar a span; its table has the last fifty."""
    names = sorted({span.lane for span in spans})
    begin, end = min(span.begin for span in spans), max(span.end for span in spans)
    room, height = _WIDTH * 2 - 16, _LANE * len(names) + _BOTTOM
    scale = room / ((end - begin) or 1.0)
    shapes = [_hatches()]
    for place, name in enumerate(names):
        y = place * _LANE
        grid = Markup('<line class="grid" x1="8" x2="{0}" y1="{1}" y2="{1}"/>').format(room + 8, y + 24.5)
        shapes += [_text(8, y + 12, name), grid]
        shapes += [
            _bar(
                span.kind,
                8 + scale * (span.begin - begin),
                y + 18,
                width=max(1.5, scale * (span.end - span.begin)),
                height=12,
                text=span.text,
            )
            for span in spans
            if span.lane == name
        ]
    shapes += [
        _text(8, height - 4, clock(begin), kind="axis"),
        _text(room + 8, height - 4, "now" if now - end < 1 else clock(end), anchor="end", kind="axis"),
    ]
    rows = [
        (span.lane, clock(span.begin), written(span.end - span.begin, "s"), span.text)
        for span in reversed(spans[-50:])
    ]
    table = Table(["Worker", "Claimed (UTC)", "Held for", "What"], rows)
    said = f"{counted(len(spans), 'claim')} of {counted(len(names), 'worker')}"
    return _figure("lanes", title, said, Markup().join(shapes), table, height=height, width=_WIDTH * 2)


def written(value: float | None, unit: str = "") -> str:
    """Return a value as a picture and its table have it."""
    if value is None:
        return "-"
    if unit == "s":
        return age(value) if value >= 1 else f"{value * 1000:.{int(value < 0.01)}f}".removesuffix(".0") + "ms"
    return number(round(value)) if value >= 100 or value == int(value) else f"{value:.1f}"


def _figure(
    name: str,
    title: str,
    said: str,
    shapes: Markup,
    table: Table,
    *,
    height: int,
    width: int = _WIDTH,
) -> Markup:
    head = Markup().join(Markup('<th scope="col">{}</th>').format(each) for each in table.heads)
    body = Markup().join(
        Markup('<tr><th scope="row">{}</th>{}</tr>').format(
            row[0], Markup().join(Markup("<td>{}</td>").format(each) for each in row[1:])
        )
        for row in table.rows
    )
    return Markup(
        '<figure class="picture picture-{name}"><figcaption id="{name}-title">{title}</figcaption>'
        '<svg viewBox="0 0 {width} {height}" role="img" aria-labelledby="{name}-title {name}-said">'
        '<desc id="{name}-said">{said}</desc>{shapes}</svg>'
        '<details id="{name}-table"><summary>As a table</summary><div class="behind" tabindex="0"><table>'
        '<caption class="sr-only">{title}</caption>'
        "<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></details></figure>"
    ).format(
        name=name, title=title, said=said, shapes=shapes, head=head, body=body, width=width, height=height
    )


def _hatches() -> Markup:
    """Return how each state is filled, so that they differ without their colours."""
    drawn = {
        "ready": '<rect width="8" height="8"/>',
        "delayed": '<path d="M0 8 8 0M-2 2 2 -2M6 10 10 6"/>',
        "processing": '<path d="M0 0H8M0 4H8"/>',
        "dirty": '<path d="M0 8 8 0M0 0 8 8"/>',
        "dead": '<path d="M0 0V8M4 0V8"/>',
        "this": '<rect width="8" height="8"/>',
        "other": '<path d="M0 8 8 0M-2 2 2 -2M6 10 10 6"/>',
    }
    pattern = Markup(
        '<pattern id="hatch-{0}" class="hatch-{0}" width="8" height="8" patternUnits="userSpaceOnUse">{1}'
        "</pattern>"
    )
    patterns = (pattern.format(state, Markup(shape)) for state, shape in drawn.items())  # noqa: S704 - ours
    return Markup("<defs>{}</defs>").format(Markup().join(patterns))


def _grid(top: float, unit: str) -> Markup:
    shapes = []
    for part in (0.0, 0.5, 1.0):
        y = _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - part)
        shapes.append(
            Markup('<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(
                _LEFT, _WIDTH - _RIGHT, y, y
            )
        )
        if part:
            shapes.append(_text(_LEFT, y - 3, written(top * part, unit), kind="axis"))
    return Markup().join(shapes)


def _axis(begin: float, end: float, now: float) -> list[Markup]:
    y = _HEIGHT - 5
    return [
        _text(_LEFT, y, f"{age(now - begin)} ago", kind="axis"),
        _text(
            _WIDTH - _RIGHT,
            y,
            "now" if now - end < 60 else f"{age(now - end)} ago",
            anchor="end",
            kind="axis",
        ),
    ]


def _points(places: Sequence[tuple[float, float]]) -> Iterable[str]:
    """Yield the points of a line; one value between two gaps is a short one, since a point is not drawn."""
    if len(places) == 1:
        ((x, y),) = places
        places = [(x - 1, y), (x + 1, y)]
    return (f"{x:.1f},{y:.1f}" for x, y in places)


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
    """Return the places in their order, moved apart so that no text stands on another."""
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


def _bar(kind: str, x: float, y: float, *, width: float, height: float, text: str = "") -> Markup:
    title = Markup("<title>{}</title>").format(text) if text else ""
    return Markup(
        '<rect class="bar bar-{0}" x="{1:.1f}" y="{2}" width="{3:.1f}" height="{4}" '
        'fill="url(#hatch-{0})">{5}</rect>'
    ).format(kind, x, y, width, height, title)


def _text(x: float, y: float, text: str, *, anchor: str = "start", kind: str = "label") -> Markup:
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        kind, x, y, anchor, escape(text)
    )
