"""How the pages look in a real browser: at two widths, light and dark, for users with good and weak eyes."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from distq.redisio.connection import Connection
from tests.dashboard.chromium import Browser, browser
from tests.dashboard.pictures import BUILT, PATHS
from tests.dashboard.scene import play

pytestmark = pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True, scope="session")
AUDIT = (Path(__file__).parent / "audit.js").read_text()


@pytest.fixture
def scene(connection: Connection, served: str) -> Iterator[str]:
    """Fill queues with something of everything; give the URL of their dashboard."""
    with ExitStack() as handles:
        play(connection, handles)
        yield served


@pytest.mark.parametrize(
    ("width", "dark"),
    [
        pytest.param(390, False, id="390-light"),
        pytest.param(390, True, id="390-dark", marks=pytest.mark.slow),
        pytest.param(1300, False, id="1300-light", marks=pytest.mark.slow),
        pytest.param(1300, True, id="1300-dark"),
    ],
)
def test_every_page_can_be_read(chromium: str, tmp_path: Path, scene: str, width: int, dark: bool) -> None:
    """Contrast of 4.5 at least, a name for all that acts or shows, one heading, nothing beyond the window."""
    with browser(chromium, tmp_path) as window:
        window.size(width, dark=dark)
        for name, path in PATHS.items():
            window.open(scene + path)
            window.picture(BUILT / f"{name}-{width}{'-dark' if dark else ''}.png")
            assert window.run(AUDIT) == [], name
        assert without_statuses(window) == []


def test_the_background_follows_the_browsers_wish(chromium: str, tmp_path: Path, served: str) -> None:
    """Dark mode is the browser's, without a setting of ours."""
    with browser(chromium, tmp_path) as window:
        grounds = []
        for dark in (False, True):
            window.size(1300, dark=dark)
            window.open(f"{served}/")
            grounds.append(window.run("getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(246, 248, 250)", "rgb(13, 17, 23)"]


def test_pages_need_no_script(chromium: str, tmp_path: Path, scene: str) -> None:
    """Without a script each page is whole: the same rows, pictures and tables."""
    with browser(chromium, tmp_path) as window:
        window.scripts(allowed=False)
        window.open(f"{scene}/queues/websites")
        assert window.run("document.querySelectorAll('#items tbody tr').length") == 50
        assert window.run("document.querySelectorAll('figure svg').length") == 7
        assert window.run("document.getElementById('live').textContent") == ""


@pytest.mark.parametrize("name", ["waiting", "working"])
def test_waiting_and_working_time_are_read_without_colour(
    chromium: str, tmp_path: Path, scene: str, name: str
) -> None:
    """Two lines, of which one is dashed, bear their names and last values, and are a table, too."""
    figure = f"document.querySelector('.picture-past-{name}')"
    with browser(chromium, tmp_path) as window:
        window.size(1300, dark=False)
        window.open(f"{scene}/queues/backups")
        for line, dash in (("p50", "none"), ("p99", "6px, 3px")):
            drawn = f"{figure}.querySelector('.line-{line}')"
            assert window.run(f"getComputedStyle({drawn}).strokeDasharray") == dash
            assert window.run(f"{drawn}.getBoundingClientRect().width > 200")
            said = window.run(f"{figure}.querySelector('.end-{line}').textContent")
            assert said.split()[0] == line
            summary = window.run(f"{figure}.querySelector('desc').textContent")
            assert said in re.sub(" (now|last) ", " ", summary)
        window.run(f"{figure}.querySelector('summary').click()")
        heads = window.run(f"[...{figure}.querySelectorAll('thead th')].map(each => each.textContent)")
        assert heads == ["Time (UTC)", "p50", "p99"]
        assert window.run(f"{figure}.querySelectorAll('tbody tr').length") >= 30
        assert window.run(f"{figure}.querySelector('tbody').getBoundingClientRect().height > 100")


def without_statuses(window: Browser) -> list[str]:
    """Return what the console says, but for the page that is not there."""
    return [line for line in window.console if "404" not in line]
