"""The pages in a real browser, which runs their script."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.workqueue.queue import Queue
from distq.workqueue.queue_ownership import Purpose
from tests.dashboard.chromium import Browser, browser
from tests.dashboard.conftest import HOSTILE_KEYS, NOWHERE, dashboard_of

ONE_SERVER = pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True, scope="session")


@pytest.fixture
def window(chromium: str, tmp_path: Path) -> Iterator[Browser]:
    """Open a browser of 1,300 pixels, far from UTC."""
    with browser(chromium, tmp_path) as opened:
        opened.size(1300)
        yield opened


@ONE_SERVER
def test_no_key_runs(window: Browser, served: str, every_state: Queue) -> None:
    """From the queues by their links to a list and to an item: all rows are drawn, and no key is a script."""
    every_state.add(*HOSTILE_KEYS)
    window.open(f"{served}/")
    window.run("document.querySelector('#queue-foos .count-ready').click()")
    window.until("document.title === 'foos · distq'")
    keys = "[...document.querySelectorAll('#items tbody th a')].map(link => link.textContent)"
    assert window.until(f"{keys}.length && {keys}") == ["ns/ready", *HOSTILE_KEYS]
    for place, key in enumerate(HOSTILE_KEYS, 1):
        window.open(f"{served}/queues/foos")
        window.run(f"document.querySelectorAll('#items tbody th a')[{place}].click()")
        assert window.until("document.querySelector('h1.key')?.textContent") == key
        assert window.run("document.title").endswith("· foos · distq")
    assert window.console == []


@ONE_SERVER
def test_a_page_follows_and_keeps_the_readers_scroll_focus_and_text(
    window: Browser, served: str, queue: Queue, connection: Connection
) -> None:
    """New numbers come by themselves; scroll, focus, typed text and selection stay, and so do elements."""
    queue.add(*(f"ns/{number:03}" for number in range(80)))
    window.size(1300, 500)
    window.open(f"{served}/queues/foos")
    window.run("document.getElementById('match').focus()")
    window.type("half a wo")
    window.run("scrollTo(0, 300); window.row = document.getElementById('item-ns~2F010')")
    window.run("getSelection().selectAllChildren(window.row.querySelector('a'))")
    window.run("document.getElementById('match').focus({preventScroll: true})")
    Inspector(connection).delete("foos", "ns/000")
    queue.add("ns/zzz")
    Inspector(connection).delete("foos", "ns/001")
    window.until("!document.getElementById('item-ns~2F001')")
    window.until("[...document.querySelectorAll('.tally')][0].textContent === '79'")
    assert window.run("window.row === document.getElementById('item-ns~2F010')")
    assert window.run("scrollY") == 300
    assert window.run("document.activeElement.id") == "match"
    assert window.run("document.getElementById('match').value") == "half a wo"
    assert window.run("document.getElementById('live').textContent") == "live"


@ONE_SERVER
def test_a_hidden_page_asks_for_nothing(window: Browser, served: str, queue: Queue) -> None:
    """Behind another tab no page asks the server; seen again it does at once."""
    queue.add("a")
    window.open(f"{served}/queues/foos")
    window.run(
        "window.asked = 0; const before = window.fetch;"
        "window.fetch = (...all) => { window.asked += 1; return before(...all); };"
        "window.behind = true; Object.defineProperty(document, 'hidden', { get: () => window.behind })"
    )
    window.until("document.getElementById('live').textContent === 'paused while hidden'")
    asked = window.run("window.asked")
    queue.add("b")
    window.run("new Promise(done => setTimeout(done, 2500))")
    assert window.run("window.asked") == asked
    window.run("window.behind = false; document.dispatchEvent(new Event('visibilitychange')); 0")
    window.until("!!document.getElementById('item-b')")


@ONE_SERVER
def test_open_tables_stay_open_and_chosen_rows_stay_chosen(
    window: Browser, served: str, queue: Queue
) -> None:
    """A table that the reader opened stays so while its numbers change, and a row moves with all it has."""
    queue.add("b", "c")
    window.open(f"{served}/queues/foos")
    window.run("document.getElementById('depth-table').open = true")
    window.run("window.row = document.getElementById('item-c'); 0")
    queue.add("a", priority=9)
    window.until("!!document.getElementById('item-a')")
    assert window.run("document.getElementById('depth-table').open")
    assert window.until("document.querySelector('#depth-table td').textContent") == "3"
    assert window.run("window.row === document.getElementById('item-c') && window.row.isConnected")
    order = "[...document.querySelectorAll('#items tbody tr')].map(row => row.id)"
    assert window.run(order) == ["item-a", "item-b", "item-c"]


@ONE_SERVER
def test_the_command_of_an_object_is_copied(
    window: Browser, served: str, queue: Queue, connection: Connection
) -> None:
    """Copy puts it into the clipboard, or selects it; the page says which, also after an update."""
    queue.purpose = lambda: Purpose("v1/Pod")
    queue.add("prod/web")
    queue.get(timeout=5)
    window.open(f"{served}/queues/foos/items/prod~2Fweb")
    window.run("document.querySelector('.copy').click()")
    said = window.until("document.querySelector('.command [role=status]').textContent")
    assert said in {"Copied.", "Selected: copy it by the keyboard."}
    assert window.run("getComputedStyle(document.querySelector('.copy')).display") != "none"
    field = "document.getElementById('kubectl')"
    chosen = window.run(f"{field}.value.slice({field}.selectionStart, {field}.selectionEnd)")
    assert chosen == "kubectl get Pod -n prod web"
    assert window.console == []


def test_a_page_says_that_redis_is_gone(window: Browser) -> None:
    """While no data come, the page shows why instead of old rows alone."""
    with dashboard_of(NOWHERE) as (url, process):
        window.open(f"{url}/")
        assert "127.0.0.1:1" in window.run("document.querySelector('main').textContent")
        window.until("document.getElementById('trouble').textContent.includes('127.0.0.1:1')")
        process.terminate()
        window.until("document.getElementById('trouble').textContent.includes('does not answer')")
