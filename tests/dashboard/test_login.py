"""Users who have to log in do, and no other request gets any further."""

import logging
import platform
import re
from collections.abc import Iterator
from functools import partial
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from urllib.parse import quote

import pytest
from flask import Flask
from werkzeug.formparser import FormDataParser

from distq.dashboard import AccessPolicy, create_app
from distq.dashboard.attempts import OF_NAME, Attempts
from distq.dashboard.logins import LIFETIME, REMEMBERED
from distq.dashboard.proxies import parse_network
from distq.dashboard.security import local_path
from distq.dashboard.users import Users, hash_password
from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.testing.fake_clock import FakeClock
from distq.workqueue.worker import VERSION
from tests.dashboard.conftest import NOWHERE
from tests.dashboard.test_users import file_of
from tests.dashboard.visitor import PASSWORD, Visitor
from tests.support.redis_servers import server_of

HASH = hash_password(PASSWORD)
ACT = "/queues/foos/actions/pause"
IN, OUT = 200, 302
"""The statuses of a page for a user who is logged in, and for another one."""


@pytest.fixture
def users(tmp_path: Path) -> Path:
    """Write a users file with an operator and a viewer."""
    return file_of(tmp_path, f"ada:operator:{HASH}", f"bob:viewer:{HASH}")


@pytest.fixture(scope="module")
def redis_url() -> Iterator[str]:
    """Run the Redis that remembers which logins were ended."""
    with EmbeddedValkey(server=server_of("valkey9")) as server:
        yield server.url


@pytest.fixture
def app(users: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Flask:
    """Make a dashboard that asks for a login; for its bounds of tries no time passes."""
    monkeypatch.setattr("distq.dashboard.login_pages.Attempts", partial(Attempts, FakeClock()))
    return create_app(Inspector(redis_url), AccessPolicy(users=Users(users)))


CLOSED = [
    "/",
    "/workers",
    "/0/view/workers",
    "/queues/foos",
    "/queues/foos/items/a",
    "/informers",
    "/0/data/queues.json",
    "/0/data/workers.json",
    "/0/data/jobs/foos/queued/25/asc/1.json",
    "/0/view/job/foos:ready:a",
    "/nowhere",
]


@pytest.mark.parametrize("path", CLOSED)
def test_nothing_is_shown_before_a_login(app: Flask, path: str) -> None:
    """Each page leads to the form, and back to itself afterwards; data for a script are refused."""
    visitor = Visitor(app)
    answer = visitor.get(path)
    assert answer.status_code == 302
    assert answer.location.startswith("/login?next=/")
    headers = {"Sec-Fetch-Dest": "empty", "Sec-Fetch-Site": "same-origin"}
    assert visitor.client.get(path, headers=headers).status_code == 401
    assert visitor.post("/queues/foos/actions/pause").status_code == 401
    assert visitor.post("/queue/foos/queued/empty").status_code == 401


def test_the_form_needs_nothing_that_is_closed(app: Flask) -> None:
    """The page to log in and its files come without a login, and ask Redis nothing."""
    visitor = Visitor(app)
    assert "password" in visitor.get("/login").text
    for name in ("distq.css", "distq.js", "favicon.svg"):
        with visitor.get(f"/distq/{name}") as answer:
            assert answer.status_code == 200


STRANGE = [
    "/login",
    "/distq/distq.css",
    "/distq/distq.js",
    "/distq/favicon.svg",
    "/static/css/main.css",
    *CLOSED,
]


@pytest.mark.parametrize("accepted", ["text/html", "application/json"])
@pytest.mark.parametrize("path", STRANGE)
def test_strangers_see_no_version(app: Flask, path: str, accepted: str) -> None:
    """Before a login neither a page, a file, an error nor a header says which version of anything runs."""
    versions = {
        version(name)
        for name in ("distq", "rq-dashboard", "rq", "redis", "flask", "werkzeug", "jinja2", "waitress")
    } | {VERSION, platform.python_version()}
    client = app.test_client()
    for method in ("GET", "POST", "PUT"):
        for headers in ({}, {"Host": "evil.example"}, {"Sec-Fetch-Dest": "empty"}, {"X-Live": "1"}):
            with client.open(path, method=method, headers={"Accept": accepted, **headers}) as answer:
                said = f"{answer.headers}\n{answer.get_data(as_text=True)}"
            assert not [
                each for each in versions if re.search(rf"(?<![\d.]){re.escape(each)}(?![\d.])", said)
            ]


def test_a_user_who_is_logged_in_sees_the_versions(app: Flask) -> None:
    """They are at the foot of each page, for bug reports."""
    visitor = Visitor(app, Accept="text/html")
    visitor.log_in("ada")
    assert f"distq {VERSION}, with" in visitor.get("/nowhere").text


def test_a_login_leads_back_and_lasts(app: Flask) -> None:
    """Name and password open all pages for this browser, and for no other."""
    visitor = Visitor(app)
    answer = visitor.log_in("ada", next="/workers")
    assert (answer.status_code, answer.location) == (303, "/workers")
    assert visitor.get("/workers").status_code == IN
    assert visitor.get("/login").status_code == 302, "who is in need not log in"
    assert Visitor(app).get("/").status_code == OUT


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("ada", "wrong"),
        ("ada", ""),
        ("eve", PASSWORD),
        ("", PASSWORD),
        ("ada:operator", PASSWORD),
        ("x" * 999, "y"),
    ],
)
def test_a_wrong_password_opens_nothing(app: Flask, name: str, password: str) -> None:
    """The answer does not show whether the name exists, nor any of the typed text."""
    visitor = Visitor(app)
    answer = visitor.log_in(name, password)
    assert answer.status_code == 403
    assert "Name or password is wrong." in answer.text
    assert "Set-Cookie" not in answer.headers or "id" not in answer.headers["Set-Cookie"]
    assert visitor.get("/").status_code == OUT


FIELDS = ("a&" * 500_000, "application/x-www-form-urlencoded")
PARTS = (
    "--b\r\nContent-Disposition: form-data; name=name\r\n\r\n" + "x" * 900_000,
    "multipart/form-data; boundary=b",
)


@pytest.mark.parametrize("large", [FIELDS, PARTS], ids=["fields", "parts"])
@pytest.mark.parametrize("name", [None, "bob", "ada"])
def test_a_large_form_is_read_only_from_users_who_can_repair(
    app: Flask, monkeypatch: pytest.MonkeyPatch, name: str | None, large: tuple[str, str]
) -> None:
    """It is refused by its length, or for want of one, before it is parsed; only a repair may be large."""
    form, kind = large
    visitor = Visitor(app)
    if name:
        visitor.log_in(name)
    parsed: list[object] = []
    monkeypatch.setattr(FormDataParser, "parse", lambda *_, **__: parsed.append(1))
    closed = 413 if name else 401
    for path, status in {"/login": 413, "/logout": closed, "/nowhere": closed, ACT: closed}.items():
        if (name, path) == ("ada", ACT):
            continue
        answer = visitor.client.post(path, data=form, content_type=kind, headers=visitor.headers)
        assert answer.status_code == status
        stream = visitor.client.post(
            path,
            input_stream=BytesIO(form.encode()),
            content_type=kind,
            headers=visitor.headers,
            environ_overrides={"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"},
        )
        assert stream.status_code == (411 if status == 413 else status)
    assert parsed == []


def test_the_longest_login_is_no_large_form(app: Flask) -> None:
    """The longest name, password and way back that a browser sends are read."""
    onward = "/queues/foos?state=dead&match=" + quote("é" * 512)
    answer = Visitor(app).log_in("\N{DROMEDARY CAMEL}" * 64, "\N{DROMEDARY CAMEL}" * 1024, next=onward)
    assert answer.status_code == 403
    assert quote("é" * 512) in answer.text


def test_guessing_is_slowed_down(app: Flask) -> None:
    """After some wrong ones even the right password has to wait, and the page says how long."""
    visitor = Visitor(app)
    for _ in range(OF_NAME.burst):
        assert visitor.log_in("ada", "wrong").status_code == 403
    answer = visitor.log_in("ada")
    assert answer.status_code == 429
    assert 0 < int(answer.headers["Retry-After"]) <= 10
    assert "Too many tries" in answer.text


def test_a_flood_does_not_lock_out_a_known_browser(app: Flask) -> None:
    """From the same address, at the same name; a browser that another name is known by waits, too."""
    known, flood, other = Visitor(app), Visitor(app), Visitor(app)
    known.log_in("ada")
    known.post("/logout")
    other.log_in("bob")
    other.post("/logout")
    while flood.log_in("ada", "wrong").status_code == 403:
        pass
    assert known.log_in("ada", "wrong").status_code == 403
    assert known.log_in("ada").status_code == 303
    assert other.log_in("ada").status_code == 429
    assert other.log_in("bob").status_code == 303


def test_a_browser_is_unknown_once_its_user_cannot_log_in(app: Flask, users: Path) -> None:
    """A removed user with many such cookies tries passwords at the pace of all: each costs a core."""
    known, flood = Visitor(app), Visitor(app)
    known.log_in("bob")
    known.post("/logout")
    while flood.log_in("bob", "wrong").status_code == 403:
        pass
    assert known.log_in("bob", "wrong").status_code == 403
    file_of(users.parent, f"ada:operator:{HASH}")
    assert known.log_in("bob").status_code == 429
    file_of(users.parent, f"ada:operator:{HASH}", f"bob:viewer:{HASH}")
    assert known.log_in("bob").status_code == 303


def test_being_known_is_no_login(app: Flask) -> None:
    """The cookie that says so opens nothing, is for this site alone, and cannot be forged."""
    visitor, thief, forger = Visitor(app), Visitor(app), Visitor(app)
    (cookie,) = (each for each in visitor.log_in("ada").headers.getlist("Set-Cookie") if "_known=" in each)
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    name, _, value = cookie.partition(";")[0].partition("=")
    thief.client.set_cookie(name, value)
    assert thief.get("/").status_code == OUT
    while forger.log_in("ada", "wrong").status_code == 403:
        pass
    for forged in (value.replace(".", "x.", 1), value[:-1] + ("0" if value[-1] != "0" else "1"), ".", "é"):
        forger.client.set_cookie(name, forged)
        assert forger.log_in("ada").status_code == 429
    forger.client.set_cookie(name, value)
    assert forger.log_in("ada").status_code == 303


def test_a_login_makes_a_new_session(app: Flask) -> None:
    """A value that an attacker planted in the browser before, a token too, is useless afterwards."""
    visitor = Visitor(app)
    with visitor.client.session_transaction() as session:
        session.update(csrf="planted", id="planted")
    visitor.log_in("ada")
    with visitor.client.session_transaction() as session:
        assert session["id"] != "planted"
        assert "csrf" not in session
    assert visitor.post_as_given("/logout", csrf_token="planted").status_code == 403


def test_a_session_ends_by_logging_out(app: Flask) -> None:
    """Afterwards a copy of the cookie opens nothing, either."""
    visitor, thief = Visitor(app), Visitor(app)
    visitor.log_in("ada")
    with visitor.client.session_transaction() as session:
        stolen = dict(session)
    with thief.client.session_transaction() as session:
        session.update(stolen)
    assert thief.get("/").status_code == IN
    assert visitor.post("/logout").status_code == 303
    assert visitor.get("/").status_code == OUT
    assert thief.get("/").status_code == OUT
    assert thief.get("/login").status_code == 200
    with thief.client.session_transaction() as session:
        assert "id" not in session, "the page to log in signed it anew, for twelve hours more"


def copied(visitor: Visitor, app: Flask) -> Visitor:
    """Return another browser, of this replica, with a copy of a visitor's cookie."""
    thief = Visitor(app)
    for key, cookie in (visitor.client._cookies or {}).items():
        if not key[-1].endswith("_known"):
            thief.client.set_cookie(cookie.key, cookie.value)
    return thief


def test_a_session_ends_in_every_replica(connection: Connection, users: Path) -> None:
    """A user who logs out is out in each process with the same secret, as long as a cookie lasts."""
    policy = AccessPolicy(users=Users(users), secret=b"sixteen bytes or more")
    first, second = (create_app(Inspector(connection), policy) for _ in range(2))
    visitor, other = Visitor(first), Visitor(first)
    visitor.log_in("ada")
    other.log_in("ada")
    thief = copied(visitor, second)
    assert thief.get("/").status_code == IN
    assert connection.execute("KEYS", "*ended*") == []
    assert visitor.post("/logout").status_code == 303
    assert thief.get("/").status_code == OUT
    assert copied(other, create_app(Inspector(connection), policy)).get("/").status_code == IN
    (key,) = connection.execute("KEYS", "*ended*")
    assert LIFETIME < connection.execute("TTL", key) <= REMEMBERED


def test_without_redis_no_login_is_valid_and_a_logout_reports_the_outage(users: Path, redis_url: str) -> None:
    """Which logins were ended is unknown then, so each is refused; a browser that logs out is out."""
    policy = AccessPolicy(users=Users(users), secret=b"sixteen bytes or more")
    visitor = Visitor(create_app(Inspector(redis_url), policy))
    visitor.log_in("ada")
    away = create_app(Inspector(NOWHERE), policy)
    visitor.token()
    stranded = copied(visitor, away)
    for path in ("/", "/workers", "/nowhere", "/login"):
        answer = stranded.get(path)
        assert (answer.status_code, "127.0.0.1:1" in answer.text) == (503, True)
    with stranded.get("/distq/distq.css") as file:
        assert file.status_code == 200
    answer = stranded.post("/logout")
    assert answer.status_code == 503
    assert "This browser is logged out" in answer.text
    assert "127.0.0.1:1" in answer.text
    assert stranded.get("/").status_code == OUT


def test_a_session_ends_with_its_line(app: Flask, users: Path) -> None:
    """Another password, another role and no line at all end the sessions of a name."""
    visitor = Visitor(app)
    visitor.log_in("ada")
    assert visitor.get("/").status_code == IN
    users.write_text(f"ada:viewer:{HASH}\nbob:viewer:{HASH}\n")
    assert visitor.get("/").status_code == OUT
    visitor.log_in("ada")
    users.write_text(f"ada:viewer:{hash_password('another')}\n")
    assert visitor.get("/").status_code == OUT


def test_another_secret_ends_all_sessions(users: Path, redis_url: str) -> None:
    """A cookie signed by another dashboard, or unsigned, is none; one of the same secret outlives it."""
    secret = b"sixteen bytes or more"
    first, second, third = (
        create_app(Inspector(redis_url), AccessPolicy(users=Users(users), **secrets))  # type: ignore[arg-type]  # as given
        for secrets in ({"secret": secret}, {"secret": secret}, {})
    )
    visitor = Visitor(first)
    visitor.log_in("ada")
    (cookie,) = (
        each for key, each in (visitor.client._cookies or {}).items() if not key[-1].endswith("_known")
    )
    for app, status in ((second, IN), (third, OUT)):
        other = Visitor(app)
        other.client.set_cookie(cookie.key, cookie.value)
        other.client.set_cookie(app.session_interface.get_cookie_name(app), cookie.value)
        assert other.get("/").status_code == status
    forged = Visitor(first)
    forged.client.set_cookie(cookie.key, cookie.value[:-2])
    assert forged.get("/").status_code == OUT


def test_the_cookie_is_for_this_site_alone(app: Flask) -> None:
    """No script reads it, no other site sends it; if it came over TLS, it goes so only."""
    cookie = Visitor(app).get("/login").headers["Set-Cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    assert "Expires" not in cookie
    assert "Secure" in Visitor(app).get("/login", base_url="https://localhost").headers["Set-Cookie"]


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/queues/foos?state=dead&match=prod%2F*",
        "/a:b",
        "/distq/queues/a~2Fb",
        "/?next=https://evil.example",
    ],
)
def test_a_path_of_ours_is_led_to(path: str) -> None:
    """After a login or an action people come to where they were."""
    assert local_path(path) == path


@pytest.mark.parametrize(
    "elsewhere",
    [
        "https://evil.example/",
        "//evil.example",
        "///evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "/\t/evil.example",
        "\t//evil.example",
        "/\n/evil.example",
        "javascript:alert(1)",
        "evil.example",
        "/a\r\nSet-Cookie: x=y",
        "",
        None,
    ],
)
def test_a_login_redirects_to_no_other_site(app: Flask, elsewhere: str | None) -> None:
    """A target outside of this server is followed neither from the link to the form nor from the form."""
    assert local_path(elsewhere) is None
    visitor = Visitor(app)
    assert visitor.log_in("ada", next=elsewhere or "").location == "/"
    assert visitor.get("/login", query_string={"next": elsewhere or ""}).location == "/"


def test_a_link_of_another_site_finds_the_login(app: Flask) -> None:
    """The cookie does not come along with it, so the page asks once more, by itself."""
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    answer = app.test_client().get("/queues/foos", headers=headers)
    assert answer.status_code == 200
    assert '<meta http-equiv="refresh" content="0">' in answer.text
    assert "Set-Cookie" not in answer.headers, "the session of another tab stays what it is"


@pytest.fixture
def behind_proxy(users: Path, redis_url: str) -> Flask:
    """Make a dashboard whose people are named by a proxy on 10.0.0.0/8."""
    return create_app(
        Inspector(redis_url),
        AccessPolicy(
            users=Users(users),
            trusted_header="X-Forwarded-User",
            trusted_proxies=[parse_network("10.0.0.0/8")],
            allowed_hosts=["distq.example"],
        ),
    )


def test_a_trusted_proxy_names_the_user(behind_proxy: Flask) -> None:
    """Its word opens all pages in the role of the name; a name without a role gets an error that says so."""
    from_proxy = {"environ_base": {"REMOTE_ADDR": "10.0.0.1"}}
    ada = Visitor(behind_proxy, **{"X-Forwarded-User": "ada", "Host": "distq.example"})
    assert ada.get("/", **from_proxy).status_code == IN
    eve = Visitor(behind_proxy, **{"X-Forwarded-User": "eve"})
    assert eve.get("/", **from_proxy).status_code == OUT
    both = Visitor(behind_proxy, **{"X-Forwarded-User": "eve, ada"})
    assert both.get("/", **from_proxy).status_code == OUT


@pytest.mark.parametrize("peer", ["127.0.0.1", "192.0.2.1"])
def test_only_a_trusted_proxy_names_the_user(behind_proxy: Flask, peer: str) -> None:
    """The header from any other peer is not read: not from this machine, either."""
    eve = Visitor(behind_proxy, **{"X-Forwarded-User": "ada", "X-Forwarded-For": "10.0.0.1"})
    assert eve.get("/", environ_base={"REMOTE_ADDR": peer}).status_code == OUT


def test_logins_are_in_the_log(app: Flask, caplog: pytest.LogCaptureFixture) -> None:
    """Logins, logouts and failures; an unknown name may be a password, and is left out."""
    visitor = Visitor(app)
    with caplog.at_level(logging.INFO, logger="distq.dashboard.audit"):
        visitor.log_in("my secret")
        visitor.log_in("ada", "wrong")
        visitor.log_in("ada")
        visitor.post("/logout")
    audited = [record.getMessage() for record in caplog.records if record.name == "distq.dashboard.audit"]
    assert audited == [
        "anonymous from 127.0.0.1: login refused, as an unknown name",
        "anonymous from 127.0.0.1: login refused, as ada",
        "ada from 127.0.0.1: logged in",
        "ada from 127.0.0.1: logged out",
    ]
