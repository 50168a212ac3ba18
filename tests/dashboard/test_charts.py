"""Pictures inform users who see colours, users who do not, and users of screen readers alike."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distq.dashboard import charts
from distq.dashboard.charts import Series, Span
from distq.inspector import QueueInfo
from tests.dashboard.test_pages import Read

INFO = QueueInfo("foos", ready=1_234_567, processing=3, dirty=1, dead=2, failing=2, depth=9, workers=1)
COUNTS = {state: getattr(INFO, state) for state in ("ready", "delayed", "processing", "dirty", "dead")}
NOW = 1_795_000_000.0


def test_a_picture_has_a_name_and_a_table() -> None:
    """Its contents are its name and its description, and each number is in the table behind it."""
    picture = Read(charts.depth(INFO))
    (svg,) = [attributes for tag, attributes in picture.tags if tag == "svg"]
    named = (svg["aria-labelledby"] or "").split()
    ids = {attributes["id"] for _, attributes in picture.tags if "id" in attributes}
    assert svg["role"] == "img"
    assert named
    assert set(named) <= ids
    assert "1,234,567 ready, 0 delayed, 3 processing, 1 dirty, 2 dead" in picture.texts
    assert picture.rows[""][2:] == [
        "ready",
        "1,234,567",
        "delayed",
        "0",
        "processing",
        "3",
        "dirty",
        "1",
        "dead",
        "2",
    ]


def test_states_differ_without_colour() -> None:
    """Each bar has a hatch of its own, and its name and number beside it."""
    picture = charts.depth(INFO)
    shapes = re.findall(r'<pattern id="hatch-(\w+)"[^>]*>(.*?)</pattern>', picture)
    states = [(name, shape) for name, shape in shapes if name in COUNTS]
    assert len(states) == len({shape for _, shape in states}) == len(COUNTS)


def test_lines_bear_their_names_and_their_last_values() -> None:
    """A line's name is at its end; a gap stays one; a line that never had a value is left out."""
    times = [NOW - 50 + 10 * step for step in range(6)]
    rates = Series("done", [1.0, 2.0, None, None, 4.0, 4.5])
    picture = charts.lines("rates", "Rates", times, [rates, Series("failed", [None] * 6)], now=NOW)
    assert picture.count("<polyline") == 2
    assert "done 4.5" in Read(picture).texts
    assert "done now 4.5" in Read(picture).texts
    assert "failed" not in picture


def test_a_picture_of_lines_has_each_value_to_show() -> None:
    """As its table writes it, at its time, gaps too; a picture without a value has none."""
    times = [NOW - 20, NOW - 10.4, NOW]
    waited = Series("p99", [0.0004, None, 75.0])
    picture = Read(
        charts.lines("wait", "Wait", times, [waited, Series("p50", [None] * 3)], unit="s", now=NOW)
    )
    (svg,) = [attributes for tag, attributes in picture.tags if tag == "svg"]
    steps = [int(step) for step in (svg["data-times"] or "").split()]
    assert steps == [NOW - 20, 10, 10]
    lines = {found["data-title"]: found["data-values"] for _, found in picture.tags if "data-values" in found}
    assert lines == {"p99": "0.4ms - 1m15s"}
    assert "data-times" not in charts.lines("none", "None", [], [Series("done", [])], now=NOW)


def test_a_time_without_samples_is_a_gap() -> None:
    """Where nothing ran and nothing was noted, no line leads over it."""
    times = [NOW - 500, NOW - 490, NOW - 470, NOW - 20, NOW - 10, NOW]
    depths = Series("ready", [1.0, 2.0, 2.0, 9.0, 9.0, 9.0])
    picture = charts.lines("depth", "Depth", times, [depths], now=NOW, step=10)
    assert [len(points.split()) for points in re.findall(r'points="([^"]+)"', picture)] == [3, 3]
    assert charts.lines("depth", "Depth", times, [depths], now=NOW, step=300).count("<polyline") == 1


def test_a_value_between_gaps_is_seen() -> None:
    """Where something was claimed once in a while, each time is a short line, and the last is no news."""
    times = [NOW - 50 + 10 * step for step in range(6)]
    values = Series("p99", [None, 0.25, None, 0.0004, None, None])
    picture = charts.lines("past-waiting", "Waiting", times, [values], unit="s", now=NOW)
    for points in re.findall(r'points="([^"]+)"', picture):
        (x, y), (right, same) = (map(float, point.split(",")) for point in points.split())
        assert right - x == pytest.approx(2)
        assert same == y
    assert picture.count("<polyline") == 2
    assert "p99 last 0.4ms" in Read(picture).texts
    assert "250ms" in Read(picture).texts


def test_nothing_yet_is_a_picture_too() -> None:
    """Without any value there are axes, and words that say so."""
    picture = charts.lines("rates", "Rates", [], [Series("done", [])], now=NOW)
    assert "nothing yet" in Read(picture).texts
    assert "<polyline" not in picture
    assert "<svg" not in charts.sparkline("Ready", [1.0])


@given(st.lists(st.floats(0, 1e12), min_size=2, max_size=50))
def test_every_value_is_within_the_picture(values: list[float]) -> None:
    """With any values, lines stay between the picture's edges."""
    times = [NOW - len(values) + at for at in range(len(values))]
    picture = charts.lines("any", "Any", times, [Series("done", values)], now=NOW)
    for points in re.findall(r'points="([^"]+)"', picture):
        for point in points.split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= 400
            assert 0 <= y <= 150


@given(st.lists(st.floats(0, 130), min_size=1, max_size=6))
def test_no_name_overlaps_another(places: list[float]) -> None:
    """The names of lines that end close together are moved apart."""
    spread = charts.spread(places)
    assert all(after - before >= 11.9 for before, after in pairwise(spread))


@pytest.mark.parametrize("hostile", ["<script>x</script>", '" onload="x', "</svg>", "&amp;"])
def test_names_in_a_picture_are_text(hostile: str) -> None:
    """The name of a worker, and a key, that are markup stay text, in the picture and in its table."""
    span = Span(hostile, NOW - 5, NOW - 2, "this", hostile)
    picture = Read(charts.lanes("Claims", [span], now=NOW))
    assert picture.texts.count(hostile) >= 4
    assert not [tag for tag, attributes in picture.tags if tag == "script" or "onload" in attributes]


def test_a_lane_has_all_of_a_workers_claims() -> None:
    """Two workers are two lanes; bars are as long as the claims, and the last fifty are in the table."""
    spans = [
        Span(f"worker-{at % 2}", NOW - 100 + at, NOW - 99 + at, "other", f"key-{at}") for at in range(80)
    ]
    picture = Read(charts.lanes("Claims", spans, now=NOW))
    widths = {
        attributes["width"] for tag, attributes in picture.tags if attributes.get("class") == "bar bar-other"
    }
    assert len(widths) == 1
    assert "80 claims of 2 workers" in picture.texts
    assert picture.texts.count("key-79") == 2
    assert picture.texts.count("key-29") == 1
