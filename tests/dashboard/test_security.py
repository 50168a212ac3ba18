"""Other people's pages cannot use the dashboard."""

import re

import pytest
from flask.testing import FlaskClient

from distq.workqueue.queue import Queue


@pytest.mark.parametrize(
    "path", ["/", "/distq/distq.css", "/distq/distq.js", "/nowhere", "/0/data/jobs/a/b/c/d/e.json"]
)
def test_every_answer_carries_the_headers(offline: FlaskClient, path: str) -> None:
    """Pages, files and errors alike may not be framed, sniffed, or leak where they come from."""
    with offline.get(path) as answer:
        headers = answer.headers
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]


def test_pages_are_not_stored(offline: FlaskClient) -> None:
    """What the queues hold stays in no cache."""
    assert offline.get("/").headers["Cache-Control"] == "no-store"
    assert offline.get("/nowhere").headers["Cache-Control"] == "no-store"


def test_pages_run_one_script_and_show_no_file_of_others(
    offline: FlaskClient, browser: FlaskClient, every_state: Queue
) -> None:
    """A page has no script but ours, none within it, and no style or picture but ours; its policy says so."""
    queue = "/queues/foos"
    shown = [browser.get(path) for path in ("/", queue, f"{queue}/items/ns~2Fdead", "/workers", "/informers")]
    shown.append(offline.get("/nowhere", headers={"Accept": "text/html"}))
    for answer in shown:
        policy = dict(
            part.strip().split(" ", 1) for part in answer.headers["Content-Security-Policy"].split(";")
        )
        for kind in ("script-src", "style-src", "img-src", "connect-src"):
            assert policy[kind] == "'self'"
        assert policy["default-src"] == "'none'"
        assert re.findall(r"<script.*?</script>", answer.text, re.DOTALL) == [
            '<script src="/distq/distq.js" defer></script>'
        ]
        files = re.findall(r'<link [^>]*href="([^"]+)"', answer.text)
        assert files == ["/distq/favicon.svg", "/distq/distq.css"]
        for path in files:
            with browser.get(path) as file:
                assert file.status_code == 200
        assert "modal" not in answer.text


@pytest.mark.parametrize("host", ["localhost", "localhost:8080", "127.0.0.1:9181", "127.8.8.8", "[::1]:9181"])
def test_local_names_are_answered(offline: FlaskClient, host: str) -> None:
    """The names of this machine are served on any port, as a port-forward needs."""
    with offline.get("/distq/distq.css", headers={"Host": host}) as answer:
        assert answer.status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "[::2]", "[", "a b"],
)
@pytest.mark.parametrize("path", ["/", "/distq/distq.css", "/nowhere"])
def test_foreign_names_are_refused(offline: FlaskClient, host: str, path: str) -> None:
    """A name that merely resolves to this machine gets nothing (DNS rebinding)."""
    answer = offline.get(path, headers={"Host": host})
    assert answer.status_code == 421
    assert "localhost only" in answer.text
