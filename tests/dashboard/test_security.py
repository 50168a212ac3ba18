"""Other people's pages cannot use the dashboard."""

import re

import pytest
from flask.testing import FlaskClient


@pytest.mark.parametrize(
    "path", ["/", "/static/css/main.css", "/favicon.ico", "/nowhere", "/0/data/jobs/a/b/c/d/e.json"]
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


def test_only_the_templates_scripts_have_the_nonce(offline: FlaskClient) -> None:
    """Every script tag of a page has the nonce of the policy, and each page another one."""
    nonces = set()
    for _ in range(2):
        answer = offline.get("/nowhere", headers={"Accept": "text/html"})
        (nonce,) = re.findall(r"script-src 'nonce-([\w-]{20,})';", answer.headers["Content-Security-Policy"])
        assert set(re.findall(r"<script[^>]*>", answer.text)) == set(
            re.findall(rf'<script nonce="{nonce}"[^>]*>', answer.text)
        )
        nonces.add(nonce)
    assert len(nonces) == 2


@pytest.mark.parametrize("host", ["localhost", "localhost:8080", "127.0.0.1:9181", "127.8.8.8", "[::1]:9181"])
def test_local_names_are_answered(offline: FlaskClient, host: str) -> None:
    """The names of this machine are served on any port, as a port-forward needs."""
    with offline.get("/static/css/main.css", headers={"Host": host}) as answer:
        assert answer.status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "[::2]", "[", "a b"],
)
@pytest.mark.parametrize("path", ["/", "/static/css/main.css", "/nowhere"])
def test_foreign_names_are_refused(offline: FlaskClient, host: str, path: str) -> None:
    """A name that merely resolves to this machine gets nothing (DNS rebinding)."""
    answer = offline.get(path, headers={"Host": host})
    assert answer.status_code == 421
    assert "localhost only" in answer.text
