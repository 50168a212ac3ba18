"""The pages in a real browser, which runs their scripts."""

import html
import os
import re
import subprocess
from pathlib import Path
from urllib.parse import urljoin

import pytest

from distq.workqueue.queue import Queue
from tests.dashboard.conftest import HOSTILE_KEYS, NOWHERE, dashboard_of
from tests.support.parts import program

FLAGS = [
    *(
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-quic",
        "--no-first-run",
    ),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--virtual-time-budget=5000",  # ms of the page's time, in which its scripts fetch and draw their rows
    "--dump-dom",
]


@pytest.fixture(scope="session")
def chromium() -> str:
    """Find the browser's program; skip, or fail in CI, where this machine has none."""
    return program("chromium", "chromium-browser", "google-chrome", package="chromium")


def drawn(chromium: str, profile: Path, url: str) -> str:
    """Return the page as it stands after its scripts ran, without them."""
    command = [chromium, *FLAGS, f"--user-data-dir={profile}", url]
    # New York: the pages' scripts misread some times away from UTC
    done = subprocess.run(
        command, check=True, capture_output=True, timeout=120, env={**os.environ, "TZ": "America/New_York"}
    )
    return re.sub(r"<script.*?</script>", "", done.stdout.decode(), flags=re.DOTALL)


@pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True, scope="session")
def test_pages_draw_rows_and_run_no_key(
    chromium: str, tmp_path: Path, served: str, every_state: Queue
) -> None:
    """From the queues by their links to a list and to an item: all rows are drawn, and no key is a script."""
    every_state.add(*HOSTILE_KEYS)

    queues = drawn(chromium, tmp_path / "1", f"{served}/")
    link = re.search(rf'href="([^"]+)">{len(HOSTILE_KEYS) + 1}</a>', queues)
    assert link, "the row of foos links to its queued items"

    items = drawn(chromium, tmp_path / "2", urljoin(served, html.unescape(link[1])))
    rows = re.findall(r'<span class="description ellipsify">(.*?)</span>', items)
    assert [html.unescape(row) for row in rows] == ["ns/ready · priority 7", *HOSTILE_KEYS]
    assert re.search(r'<span class="creation_date">\d+ (milli)?seconds? ago</span>', items)

    (link,) = re.finditer(r'<a href="([^"]+~3Cimg[^"]+)">', items)
    item = drawn(chromium, tmp_path / "3", urljoin(served, html.unescape(link[1])))
    assert "&gt;&lt;img src=x onerror=" in item, "the key is text"

    for page in (queues, items, item):
        assert "<title>RQ dashboard</title>" in page, "a key's script would have changed the title"
        assert "distq-error" not in page, "no error is shown"


def test_a_page_says_that_redis_is_gone(chromium: str, tmp_path: Path) -> None:
    """While no data come, the page shows why instead of old rows alone."""
    with dashboard_of(NOWHERE) as (url, _):
        page = drawn(chromium, tmp_path, f"{url}/")
    assert re.search(r'<p id="distq-error"[^>]*>[^<]*127\.0\.0\.1:1\b', page)
