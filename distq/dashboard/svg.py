"""Pieces of SVG, and a picture of them with its name and table.

Each picture is readable in grey (its parts differ in their hatch or dash, and bear their names), has a name
for screen readers, and a table behind it. It has no style attributes, which the page's policy forbids.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from markupsafe import Markup, escape

WIDTH = 400


class Table(NamedTuple):
    """What a picture shows, to read; the first cell of a row is its name."""

    heads: Sequence[str]
    rows: Iterable[Sequence[str]]


def figure(
    name: str,
    title: str,
    summary: str,
    shapes: Markup,
    table: Table,
    *,
    height: int,
    width: int = WIDTH,
    plot: Markup | None = None,
) -> Markup:
    """Return a picture; ``summary`` is what screen readers read of it.

    ``plot`` are attributes of the SVG from which the script shows the values at a place, none for a picture
    that has all of its values written.
    """
    head = Markup().join(Markup('<th scope="col">{}</th>').format(each) for each in table.heads)
    body = Markup().join(
        Markup('<tr><th scope="row">{}</th>{}</tr>').format(
            row[0], Markup().join(Markup("<td>{}</td>").format(each) for each in row[1:])
        )
        for row in table.rows
    )
    return Markup(
        '<figure class="picture picture-{name}"><figcaption id="{name}-title">{title}</figcaption>'
        '<div class="plot">'
        '<svg viewBox="0 0 {width} {height}" role="img" aria-labelledby="{name}-title {name}-summary"{plot}>'
        '<desc id="{name}-summary">{summary}</desc>{shapes}</svg>'
        '<output class="reading" data-own hidden></output></div>'
        '<details id="{name}-table"><summary>As a table</summary><div class="behind" tabindex="0"><table>'
        '<caption class="sr-only">{title}</caption>'
        "<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></details></figure>"
    ).format(
        name=name,
        title=title,
        summary=summary,
        shapes=shapes,
        head=head,
        body=body,
        width=width,
        height=height,
        plot=plot or "",
    )


def plot_attributes(times: Sequence[float], left: float, right: float) -> Markup:
    """Return the attributes of a picture that goes from ``left`` at the first time to ``right`` at the last.

    Of the times, in whole seconds, the first is since the epoch, each other one since the one before.
    """
    whole = [round(moment) for moment in times]
    steps = [whole[0], *(after - before for before, after in pairwise(whole))]
    return Markup(' tabindex="0" data-left="{}" data-right="{}" data-times="{}"').format(
        left, right, " ".join(map(str, steps))
    )


def values(title: str, written: Iterable[str]) -> Markup:
    """Return the values of a line as they are written, one word each, for the script to show."""
    return Markup('<g data-title="{}" data-values="{}"/>').format(title, " ".join(written))


def place(top: float, bottom: float) -> Markup:
    """Return the vertical line that the script moves to the place whose values it shows."""
    return Markup('<line class="place" data-own y1="{:g}" y2="{:g}"/>').format(top, bottom)


def hatches() -> Markup:
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


def bar(kind: str, x: float, y: float, *, width: float, height: float, tip: str = "") -> Markup:
    """Return a bar with the hatch of its kind; browsers show ``tip`` above it."""
    title = Markup("<title>{}</title>").format(tip) if tip else ""
    return Markup(
        '<rect class="bar bar-{0}" x="{1:.1f}" y="{2}" width="{3:.1f}" height="{4}" '
        'fill="url(#hatch-{0})">{5}</rect>'
    ).format(kind, x, y, width, height, title)


def text(x: float, y: float, content: str, *, anchor: str = "start", kind: str = "label") -> Markup:
    """Return a text at a place; ``kind`` is its class."""
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        kind, x, y, anchor, escape(content)
    )


def line(x1: float, x2: float, y: float) -> Markup:
    """Return a thin horizontal line."""
    return Markup('<line class="grid" x1="{0:g}" x2="{1:g}" y1="{2:.1f}" y2="{2:.1f}"/>').format(x1, x2, y)
