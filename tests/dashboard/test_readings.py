"""The values of a picture are shown at the pointer, at a touch, and where the arrow keys lead."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from distq.redisio.connection import Connection
from distq.workqueue.queue import Queue
from tests.dashboard.chromium import Browser, browser
from tests.dashboard.scene import remember

pytestmark = pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True, scope="session")
PLOT = "document.querySelector('.picture-past-depth svg')"
READING = "document.querySelector('.reading:not([hidden])')?.textContent"


@pytest.fixture
def window(
    chromium: str, tmp_path: Path, served: str, queue: Queue, connection: Connection
) -> Iterator[Browser]:
    """Open the page of a queue with a past, at its pictures."""
    queue.add("a")
    remember(connection, "foos", seconds=3600, period=10)
    with browser(chromium, tmp_path) as opened:
        opened.size(1300)
        opened.open(f"{served}/queues/foos")
        opened.run(f"{PLOT}.scrollIntoView({{ block: 'center' }})")
        yield opened


def place(window: Browser, part: float) -> tuple[float, float]:
    """Return a place within the picture: the part of its width, and the middle of its height."""
    left, top, width, height = window.run(
        f"(box => [box.left, box.top, box.width, box.height])({PLOT}.getBoundingClientRect())"
    )
    return left + width * part, top + height / 2


def table(window: Browser) -> dict[str, list[str]]:
    """Return the rows of the table behind the picture, by their times."""
    rows = window.run(
        "[...document.querySelectorAll('#past-depth-table tbody tr')]"
        ".map(row => [...row.children].map(cell => cell.textContent))"
    )
    return {time: numbers for time, *numbers in rows}


def second_of(reading: str) -> int:
    """Return the second of its day to which a reading belongs."""
    hours, minutes, seconds = reading.split(" UTC", maxsplit=1)[0].split(":")
    return 3600 * int(hours) + 60 * int(minutes) + int(seconds)


def test_the_pointer_shows_values(window: Browser) -> None:
    """Of the time below it, each with its name; they stay while the page follows, and go with the pointer."""
    window.point(*place(window, 0.4))
    time, *lines = window.until(READING).split("\n")
    assert time.endswith(" UTC")
    assert [line.split()[0] for line in lines] == ["ready", "delayed", "processing", "dead"]
    assert all(line.split()[1].replace(",", "").isdigit() for line in lines)
    text = "document.querySelector('.reading:not([hidden])').firstChild"
    window.run(f"window.text = {text}; 0")
    window.run("window.updates = 0; document.addEventListener('updated', () => { window.updates += 1; }); 0")
    window.until("window.updates > 1")
    assert window.run(READING).startswith(time)
    assert window.run(f"window.text === {text}"), "a screen reader would read it again"
    window.point(5, 5)
    window.until(f"!({READING})")
    assert window.console == []


def test_the_values_are_those_of_the_table(window: Browser) -> None:
    """Wherever the keys lead: from the newest time backwards, to the first and the last."""
    window.run(f"{PLOT}.focus()")
    window.press("Home")
    first = second_of(window.until(READING))
    rows, found = table(window), 0
    for _ in range(30):
        time, *lines = window.run(READING).split("\n")
        if (row := rows.get(time.removesuffix(" UTC"))) is not None:
            found += 1
            assert [line.split()[1] for line in lines] == row
        window.press("ArrowRight")
    assert found >= 2
    assert 0 < (second_of(window.run(READING)) - first) % 86_400 <= 3600  # midnight may lie between
    window.press("Escape")
    assert window.run(READING) is None
    window.press("ArrowLeft")
    assert window.run(READING)
    window.run(f"{PLOT}.blur()")
    assert window.run(READING) is None


def test_a_touch_shows_values(window: Browser) -> None:
    """Until another place is touched, and within the window of a phone."""
    window.size(390, 800)
    window.run(f"{PLOT}.scrollIntoView({{ block: 'center' }})")
    for part in (0.05, 0.5, 0.8):
        window.touch(*place(window, part))
        window.until(READING)
        left, right = window.run(
            "(box => [box.left, box.right])(document.querySelector('.reading:not([hidden])')"
            ".getBoundingClientRect())"
        )
        assert 0 <= left < right <= 390
    window.touch(5, 5)
    window.until(f"!({READING})")
