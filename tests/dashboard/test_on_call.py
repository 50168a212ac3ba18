"""What an engineer on call does, in a real browser, on a wide and on a narrow screen."""

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from distq.errors import TerminalError
from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.queue import Queue
from tests.dashboard.chromium import Browser, browser
from tests.dashboard.conftest import dashboard
from tests.dashboard.pictures import BUILT
from tests.dashboard.test_login import HASH
from tests.dashboard.test_users import file_of
from tests.dashboard.visitor import PASSWORD
from tests.support.eventually import eventually
from tests.support.parts import program

ONE_SERVER = pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True, scope="session")
AUDIT = (Path(__file__).parent / "audit.js").read_text()


@pytest.fixture
def window(tmp_path: Path) -> Iterator[Browser]:
    """Open a browser; without one on this machine skip, or fail in CI."""
    chromium = program("chromium", "chromium-browser", "google-chrome", package="chromium")
    with browser(chromium, tmp_path / "profile") as opened:
        yield opened


@pytest.fixture
def guarded(redis_server: EmbeddedValkey, tmp_path: Path) -> Iterator[str]:
    """Give the URL of a dashboard with a login, below a prefix."""
    users = file_of(tmp_path, f"ada:operator:{HASH}", f"bob:viewer:{HASH}")
    with dashboard(redis_server, "--users", str(users), "--url-prefix", "/distq") as url:
        yield url


@pytest.fixture
def troubled(queue: Queue) -> Queue:
    """Let one item fail for good, 1,200 others wait for later, and one be ready."""
    queue.add("prod/mail")
    try:
        raise TerminalError("no such image: registry.example/mail:v4")
    except TerminalError as error:
        queue.settle(queue.get(timeout=5), error)
    for start in (0, 600):
        queue.add(*(f"test/{number}" for number in range(start, start + 600)), after=3600)
    queue.add("prod/late", after=3600)
    queue.add("prod/web")
    return queue


def log_in(window: Browser, name: str = "ada") -> None:
    """Fill the form and send it."""
    window.until("document.title === 'Log in · distq'")
    window.run("document.querySelector('[name=name]').focus()")
    window.type(name)
    window.run("document.querySelector('[name=password]').focus()")
    window.type(PASSWORD)
    window.run("document.querySelector('main form').requestSubmit()")


def press(window: Browser, label: str) -> None:
    """Press the button, or follow the link, that begins with this text."""
    all_of_them = "[...document.querySelectorAll('button, a')]"
    find = f"{all_of_them}.find(each => each.textContent.trim().startsWith('{label}'))"
    window.until(f"!!{find}")
    window.run(f"{find}.click()")


def shows(window: Browser, text: str) -> None:
    """Wait for a page that says so of the last action."""
    window.until(f"document.querySelector('.message')?.textContent.includes({text!r})")


def pause(window: Browser) -> None:
    """Press Pause, and confirm it on the page that asks."""
    press(window, "Pause …")
    window.until("document.querySelector('h1')?.textContent === 'Pause foos?'")
    press(window, "Pause")
    shows(window, "Paused foos")


def looks_fine(window: Browser, name: str) -> None:
    """Keep a picture of a page; everything on it can be read, has a name, and fits the screen."""
    window.picture(BUILT / f"{name}.png")
    assert window.run(AUDIT) == [], name


@ONE_SERVER
@pytest.mark.parametrize("screen", [(1300, False), (390, True)], ids=["wide", "narrow"])
def test_on_call(
    window: Browser, guarded: str, troubled: Queue, connection: Connection, screen: tuple[int, bool]
) -> None:
    """Log in, find errors, read the cause, requeue it; pause and resume; delete all that match; log out."""
    inspector = Inspector(connection)
    width, dark = screen
    window.size(width, dark=dark)
    window.open(f"{guarded}/login?next=/distq/queues/foos%3Fstate%3Ddead")
    looks_fine(window, f"login-{width}")
    log_in(window)
    window.until("document.title === 'foos · distq'")
    assert window.run("location.search") == "?state=dead", "the login leads to where one wanted to go"
    looks_fine(window, f"queue-repair-{width}")
    press(window, "prod/mail")
    window.until("document.querySelector('h1.key')?.textContent === 'prod/mail'")
    assert "TerminalError: no such image" in window.run("document.querySelector('.traceback').textContent")
    looks_fine(window, f"item-repair-{width}")
    press(window, "Requeue")
    shows(window, "Requeued prod/mail.")
    assert inspector.count("foos", state="dead") == 0

    press(window, "foos")
    window.until("!!document.getElementById('add')")
    window.run("document.getElementById('add').open = true")
    looks_fine(window, f"add-{width}")
    pause(window)
    assert inspector.queues("foos")[0].paused
    press(window, "Resume")
    shows(window, "Resumed foos")
    assert not inspector.queues("foos")[0].paused

    window.open(f"{guarded}/queues/foos?state=delayed&match=test/")
    press(window, "Delete all that match")
    window.until("document.querySelector('h1')?.textContent.includes('that match test/*?')")
    assert "1,200 items now" in window.run("document.querySelector('main').textContent")
    assert inspector.count("foos", state="delayed") == 1201
    looks_fine(window, f"confirm-{width}")
    press(window, "Delete")
    shows(window, "Deleted 1,200 items.")
    assert inspector.count("foos", state="delayed") == 1
    looks_fine(window, f"done-{width}")

    press(window, "Log out")
    window.until("document.title === 'Log in · distq'")
    assert [line for line in window.console if "Content Security Policy" in line] == []


ATTACK = """
<!doctype html><title>evil</title>
<img src="{there}/queues/foos/actions/pause">
<iframe src="{there}/queues/foos"></iframe>
<iframe name="answer"></iframe>
<form id="form" method="post" action="{there}/queues/foos/actions/pause" target="answer">
<input name="csrf_token" value="guessed"><input name="confirmed" value="yes"></form>
<a id="link" href="{there}/queues/foos">look</a>
<script>
window.done = (async () => {{
  await fetch("{there}/queues/foos/actions/pause", {{
    method: "POST", mode: "no-cors", credentials: "include",
    body: new URLSearchParams({{csrf_token: "guessed", confirmed: "yes"}}),
  }}).catch(() => null);
  const asked = fetch("{there}/queues/foos", {{credentials: "include"}});
  const read = await asked.then(() => "read", () => "refused");
  document.getElementById("form").submit();
  return read;
}})();
</script>
"""


READ_FRAMES = """
[0, 1].map(place => {
  try { return frames[place].document.title; } catch (error) { return "refused"; }
})
"""


def blocked_frames(window: Browser) -> list[str]:
    """Return what the browser says of frames that a page forbids."""
    return [line for line in window.console if "frame-ancestors 'none'" in line]


@contextlib.contextmanager
def site(page: str) -> Iterator[str]:
    """Serve one page on another site than the dashboard's: by another name of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_address[1]}/"
        server.shutdown()


@ONE_SERVER
def test_another_sites_page_gets_nowhere(
    window: Browser, guarded: str, troubled: Queue, connection: Connection
) -> None:
    """A logged-in user opens a page elsewhere: it can neither act, read nor frame; its link works as any."""
    window.size(1300)
    window.open(f"{guarded}/login?next=/distq/queues/foos")
    log_in(window)
    window.until("document.title === 'foos · distq'")
    with site(ATTACK.format(there=guarded)) as url:
        window.open(url)
        assert window.run("window.done") == "refused"
        # the page, and what the form was answered
        eventually(lambda: window.run("true") and len(blocked_frames(window)) >= 2, "no frame has either")
        assert window.run(READ_FRAMES) == ["refused", "refused"]
        assert not Inspector(connection).queues("foos")[0].paused
        window.run("document.getElementById('link').click()")
        window.until("document.title === 'foos · distq'")
    assert "ada" in window.run("document.querySelector('.account').textContent")
    pause(window)
