"""The history of queues: a line of blocks for each number, or a JSON object for each sample."""

import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from distq.cli.output import note, print_json, print_table
from distq.errors import RedisRefused
from distq.wording import age, brief

if TYPE_CHECKING:
    from distq.inspector import Inspector, Sample

WIDTH = 60
"""Blocks of a line."""

_DAY = 86_400
"""Seconds for which there are samples every ten seconds."""

_BLOCKS, _LETTERS = "▁▂▃▄▅▆▇█", "_.-:=+*#"
_ALWAYS = {"ready", "processing", "done_per_second", "workers"}
_NUMBERS = ["ready", "delayed", "processing", "dirty", "dead", "failing"]
_NUMBERS += ["waited", "done_per_second", "failed_per_second", "workers"]
_DURATIONS = ["waiting_p50", "waiting_p99", "working_p50", "working_p99"]
"""Without claims or settlements these have no value: a gap, not a 0."""
_HEADERS = ["QUEUE", "NUMBER", "LEAST", "MOST", "LAST"]


def print_history(inspector: "Inspector", queues: Sequence[str], seconds: float, *, as_json: bool) -> None:
    """Print the numbers of queues over so many seconds; exit 1 where a history cannot be read."""
    until = inspector.now()
    since, every = max(0.0, until - seconds), 10.0 if as_json or seconds <= _DAY else 300.0
    rows, unread = list[list[str]](), list[str]()
    for queue in queues:
        try:
            found = inspector.history(queue, since=since, until=until, every=every)
        except RedisRefused as error:
            note(f"no history of {queue}: {error}")
            unread.append(queue)
            continue
        if as_json:
            for sample in found:
                print_json(sample)
        elif found:
            rows += _rows(queue, found, since, seconds / WIDTH)
        else:
            note(f"no history of {queue} in the last {age(seconds)}: neither a worker nor an informer ran")
    if rows:
        print_table([*_HEADERS, f"{age(seconds)} AGO TO NOW"], rows)
    if unread:
        raise click.ClickException(f'cannot read the history of {", ".join(unread)}. See "distq check".')


def _rows(queue: str, found: "Sequence[Sample]", since: float, step: float) -> list[list[str]]:
    """Return a row for each number that was not always 0, and for the most important ones."""
    rows = []
    for name in [*_NUMBERS, *_DURATIONS]:
        values = _values(name, found)
        if name in _ALWAYS or any(value for _, value in values):
            highest = max(value for _, value in values)
            numbers = [min(value for _, value in values), highest, values[-1][1]]
            blocks = _blocks(
                [(min(int((at - since) // step), WIDTH - 1), value) for at, value in values], highest
            )
            rows.append([queue, _TITLES.get(name, name), *(_number(name, each) for each in numbers), blocks])
    return rows


def _values(name: str, found: "Sequence[Sample]") -> list[tuple[float, float]]:
    read = [(sample.at, getattr(sample, name)) for sample in found]
    return [(at, float(value or 0)) for at, value in read if value is not None or name not in _DURATIONS]


_TITLES = {name: name.replace("_", "-") for name in _DURATIONS}
_TITLES |= {"done_per_second": "done/s", "failed_per_second": "failed/s", "waited": "oldest"}


def _number(name: str, value: float) -> str:
    if name in _DURATIONS:
        return brief(value)
    if name == "waited":
        return age(value)
    return f"{value:.1f}" if name.endswith("second") else f"{value:.0f}"


def _blocks(values: Sequence[tuple[int, float]], highest: float) -> str:
    """Return a block as high as the highest of the values at each place, a gap where there is none."""
    blocks = _BLOCKS if _can_print(_BLOCKS) else _LETTERS
    tops: dict[int, float] = {}
    for place, value in values:
        tops[place] = max(value, tops.get(place, 0.0))
    heights = {place: math.ceil(value / highest * 7) if highest else 0 for place, value in tops.items()}
    return "".join(blocks[heights[place]] if place in heights else " " for place in range(WIDTH))


def _can_print(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
