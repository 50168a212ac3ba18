"""The drawings of the pages: readable aloud, on a light and on a dark background, and true."""

import re
from pathlib import Path
from typing import get_args
from xml.etree import ElementTree

import pytest

from distq.redisio.queue_reads import State
from tests.docs.pages import DOCS

PICTURES = DOCS / "pictures"
LIGHT = sorted(path for path in PICTURES.glob("*.svg") if not path.stem.endswith("-dark"))
DARK = {
    "#ffffff": "#0d1117",
    "#1f2328": "#f0f6fc",
    "#59636e": "#9198a1",
    "#0969da": "#4493f8",
    "#818b98": "#656c76",
    "#ddf4ff": "#121d2f",
    "#f6f8fa": "#151b23",
    "#cf222e": "#f85149",
    "#ffebe9": "#25171c",
}
"""The colour on a dark background of each colour on a light one."""

drawings = pytest.mark.parametrize("path", LIGHT, ids=lambda path: path.stem)


@drawings
def test_a_drawing_has_a_dark_twin_that_differs_by_its_colours(path: Path) -> None:
    """Change the light one, and replace its colours for the other."""
    twin = path.with_stem(f"{path.stem}-dark")
    assert re.sub("#[0-9a-f]{6}", lambda colour: DARK[colour[0]], path.read_text()) == twin.read_text()


@drawings
def test_a_screen_reader_finds_title_and_description(path: Path) -> None:
    """The image is named by its title and described by sentences; texts are texts and no outlines."""
    root = ElementTree.fromstring(path.read_text())  # noqa: S314 - a file of ours
    texts = {element.get("id"): element.text or "" for element in root.iter() if element.text}
    assert root.get("role") == "img"
    title, desc = (texts[name] for name in root.get("aria-labelledby", "").split())
    assert title
    assert desc.endswith(".")
    assert list(root.iter("{http://www.w3.org/2000/svg}text"))


def test_the_drawings_of_the_queue_have_every_state() -> None:
    """The life of an item and the queue in Redis show the states that the Inspector knows, and dirty."""
    for name in ("item", "processes"):
        shown = (PICTURES / f"{name}.svg").read_text()
        assert [state for state in (*get_args(State), "dirty") if state not in shown] == []
