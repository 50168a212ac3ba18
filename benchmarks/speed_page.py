"""The page of the documentation on speed: its table and its picture, as ``benchmarks.queues`` measured."""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from benchmarks.contenders import ROOT
from benchmarks.peers import PEERS
from benchmarks.queue_rows import Figures

PAGE = ROOT / "docs" / "reference" / "speed.md"
PICTURES = ROOT / "docs" / "pictures"
BEGIN, END = "<!-- written by benchmarks.queues -->", "<!-- until here -->"

OURS = {
    "distq threads": "distq",
    "distq async": "distq, `async def`",
    "distq loop": "distq, a loop of one's own",
}

_ROW, _LEFT, _WIDTH, _RIGHT = 30, 210, 460, 90
"""Pixels: the height of a bar's row, and the widths of names, of the longest bar, and of figures."""

_STYLE = """
text {{ font: 14px system-ui, sans-serif; fill: {text} }}
.head {{ font-weight: 600 }}
.ours {{ fill: {ours} }}
.peer {{ fill: {peer} }}
"""
_LIGHT = {"text": "#1f2328", "ours": "#0969da", "peer": "#818b98"}
_DARK = {"text": "#f0f6fc", "ours": "#4493f8", "peer": "#656c76"}


def write(measured: Figures, facts: Mapping[str, Any]) -> None:
    """Write the table into the page, and the picture, light and dark."""
    text = PAGE.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin, f"{PAGE} has no place for the table"
    assert end, f"the table of {PAGE} has no end"
    lines = [*_table(measured, facts), "", _conditions(facts)]
    PAGE.write_text("\n".join([before + BEGIN, "", *lines, "", END]) + after)
    for name, colours in {"speed.svg": _LIGHT, "speed-dark.svg": _DARK}.items():
        (PICTURES / name).write_text(_picture(measured, _STYLE.format(**colours)))


def _table(measured: Figures, facts: Mapping[str, Any]) -> list[str]:
    columns: Mapping[str, Callable[[str], float | None]] = {
        "drained a second": lambda label: measured.median(label, _drain(label)),
        "worker's CPU an item, µs": lambda label: measured.median(label, f"{_drain(label)} CPU"),
        "added one by one a second": lambda label: measured.median(label, "add"),
        "added in bulk a second": lambda label: measured.median(label, "bulk"),
        "idle: added to begun, p50, ms": lambda label: measured.percentile(label, 50),
        "p99, ms": lambda label: measured.percentile(label, 99),
    }
    lines = [_line(["", *columns]), _line(["---"] * (len(columns) + 1))]
    for label in [*OURS, *PEERS, "BLPOP + claim", "BLPOP"]:
        cells = [_text(figure(label)) for figure in columns.values()]
        if any(cells):
            lines.append(_line([_name(label, facts), *cells]))
    return lines


def _drain(label: str) -> str:
    return {"distq async": "async", "distq loop": "loop"}.get(label, "drain")


def _name(label: str, facts: Mapping[str, Any]) -> str:
    version = f" {facts[label]}" if label in facts else ""
    return OURS.get(label, label) + version


def _conditions(facts: Mapping[str, Any]) -> str:
    return (
        f"Medians of {facts['rounds']} rounds on {facts['cores']} cores ({facts['processor']}), "
        f"{facts['server']}, Python {facts['python']}; the machine's load was {facts['load']}."
    )


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(value: float | None) -> str:
    if value is None:
        return ""
    return f"{float(f'{value:.2g}'):,.0f}" if value >= 100 else f"{value:.2g}"


def _picture(measured: Figures, style: str) -> str:
    """Draw what each drains as a bar; all that it shows is text, too."""
    rates = {label: measured.median(label, _drain(label)) for label in [*OURS, *PEERS]}
    bars = sorted(((rate, label) for label, rate in rates.items() if rate), reverse=True)
    width, height = _LEFT + _WIDTH + _RIGHT, _ROW * (len(bars) + 1) + 10
    said = "; ".join(f"{_plain(label)} {_text(rate)}" for rate, label in bars)
    head = "Items that one worker process drains a second"
    shapes = [
        shape
        for row, (rate, label) in enumerate(bars, start=1)
        for shape in _bar(row, rate / bars[0][0], label, _text(rate))
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" aria-labelledby="title desc">',
            f'<title id="title">{head}</title>',
            f'<desc id="desc">{escape(said)}.</desc>',
            f"<style>{style}</style>",
            f'<text class="head" x="0" y="20">{head}</text>',
            *shapes,
            "</svg>\n",
        ]
    )


def _bar(row: int, share: float, label: str, figure: str) -> list[str]:
    top, length = row * _ROW, max(1.0, share * _WIDTH)
    kind = "ours" if label in OURS else "peer"
    middle = top + 20
    return [
        f'<text x="{_LEFT - 10}" y="{middle}" text-anchor="end">{escape(_plain(label))}</text>',
        f'<rect class="{kind}" x="{_LEFT}" y="{top + 5}" width="{length:.1f}" height="{_ROW - 10}" rx="2"/>',
        f'<text x="{_LEFT + length + 8:.1f}" y="{middle}">{figure}</text>',
    ]


def _plain(label: str) -> str:
    return OURS.get(label, label).replace("`", "")
