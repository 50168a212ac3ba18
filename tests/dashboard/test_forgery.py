"""Attacks by pages, proxies and requests of others in the name of an operator, all of which fail."""

from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient

from distq.dashboard import AccessPolicy, create_app
from distq.dashboard.security import LARGEST_BODY
from distq.dashboard.users import Users
from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.workqueue.queue import Queue
from tests.dashboard.test_login import HASH
from tests.dashboard.test_users import file_of
from tests.dashboard.visitor import Visitor

PAUSE = "/queues/foos/actions/pause"
ACTIONS = ["requeue", "delete", "park", "add", "pause", "resume", "resync", "trace-on", "trace-off"]

CHANGEABLE = [
    ("HMGET", "distq:{foos}:meta", "paused", "trace"),  # heartbeats move the clocks beside them
    ("HGETALL", "distq:{foos}:streams"),
    ("HGETALL", "distq:{foos}:failures"),
    *(
        ("ZRANGE", f"distq:{{foos}}:{state}", 0, -1, "WITHSCORES")
        for state in ("ready", "again", "delayed", "processing", "dead")
    ),
]
"""What actions change of a queue, and nothing that changes by itself."""


@pytest.fixture
def app(connection: Connection, every_state: Queue, tmp_path: Path) -> Flask:
    """Make a dashboard of a queue with an item in each state, where ada may repair and bob may see."""
    users = Users(file_of(tmp_path, f"ada:operator:{HASH}", f"bob:viewer:{HASH}"))
    return create_app(Inspector(connection), AccessPolicy(users=users))


@pytest.fixture
def victim(app: Flask) -> Visitor:
    """Log an operator in, and let them open a page."""
    visitor = Visitor(app)
    visitor.log_in("ada")
    visitor.token()
    return visitor


@pytest.fixture
def unpaused(connection: Connection) -> "Unpaused":
    """Give what says whether nothing has happened."""
    return Unpaused(Inspector(connection))


class Unpaused:
    """The queue that every attack tries to pause."""

    def __init__(self, inspector: Inspector) -> None:
        self._inspector = inspector

    def __bool__(self) -> bool:
        (queue,) = self._inspector.queues()
        return not queue.paused


def test_a_form_of_ours_acts(victim: Visitor, unpaused: Unpaused) -> None:
    """What all the others try is possible, from a page of this session."""
    assert victim.post(PAUSE, confirmed="yes").status_code == 303
    assert not unpaused


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none"])
def test_a_form_of_another_site_does_not_act(victim: Visitor, unpaused: Unpaused, site: str) -> None:
    """Even with the right token, a request that begins elsewhere is refused: form, fetch or another port."""
    token = victim.token()
    headers = {"Sec-Fetch-Site": site}
    answer = victim.client.post(PAUSE, data={"csrf_token": token, "confirmed": "yes"}, headers=headers)
    assert answer.status_code == 403
    assert "another site" in answer.text
    assert unpaused


@pytest.mark.parametrize("token", ["", "x", "é", "a-token-that-a-page-made ", "A-TOKEN-THAT-A-PAGE-MADE"])
def test_a_forged_token_does_not_act(victim: Visitor, unpaused: Unpaused, token: str) -> None:
    """A browser that does not say from where a request comes is protected by the token."""
    victim.token()
    assert victim.client.post(PAUSE, data={"csrf_token": token, "confirmed": "yes"}).status_code == 403
    assert victim.client.post(PAUSE, data={"confirmed": "yes"}).status_code == 403
    assert unpaused


def test_a_token_of_another_session_does_not_act(app: Flask, victim: Visitor, unpaused: Unpaused) -> None:
    """An attacker's own token, from their own login, is good for their own session alone."""
    eve = Visitor(app)
    eve.log_in("ada")
    with eve.client.session_transaction() as session:
        session["csrf"] = "eves"
    victim.token()
    assert victim.post_as_given(PAUSE, csrf_token="eves", confirmed="yes").status_code == 403
    assert unpaused


def test_no_user_is_logged_in_as_another(app: Flask) -> None:
    """The form to log in has a token, too: a page elsewhere cannot log its visitors in as its author."""
    visitor = Visitor(app)
    assert visitor.post_as_given("/login", name="ada", password="correct horse").status_code == 403
    assert visitor.get("/").status_code == 302


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH"])
def test_no_link_or_image_acts(victim: Visitor, connection: Connection, method: str) -> None:
    """An action takes POST alone, with any token in a link."""
    before = connection.pipeline(CHANGEABLE)
    for action in ACTIONS:
        answer = victim.client.open(
            f"/queues/foos/actions/{action}",
            method=method,
            query_string={"csrf_token": victim.token(), "confirmed": "yes", "key": "ns/dead"},
            headers=victim.headers,
        )
        assert answer.status_code in {403, 405}, action
        assert answer.status_code == 405 or method not in {"GET", "HEAD"}, action
        assert connection.pipeline(CHANGEABLE) == before, action


@pytest.mark.parametrize("action", ACTIONS)
def test_a_viewer_may_not_repair(app: Flask, connection: Connection, action: str, every_state: Queue) -> None:
    """Each action of a user with the role viewer is refused, and nothing changes."""
    bob = Visitor(app)
    bob.log_in("bob")
    before = connection.pipeline(CHANGEABLE)
    fields = {"key": "ns/dead", "state": "dead", "confirmed": "yes"}
    answer = bob.post(f"/queues/foos/actions/{action}", **fields)
    assert answer.status_code == 403
    assert "your role, viewer" in answer.text
    (queue,) = Inspector(connection).queues()
    assert (queue.dead, queue.delayed, queue.ready, queue.paused) == (1, 1, 1, False)
    assert connection.pipeline(CHANGEABLE) == before


def test_without_actions_no_user_repairs_on_loopback(
    browser: FlaskClient, unpaused: Unpaused, queue: Queue
) -> None:
    """A dashboard without a login shows only, unless it was started with --actions."""
    queue.add("a")
    visitor = Visitor(browser.application)
    for answer in (
        visitor.post(PAUSE, confirmed="yes"),
        visitor.post_as_given(PAUSE, confirmed="yes"),
        browser.post(PAUSE, data={"confirmed": "yes"}),
    ):
        assert answer.status_code == 403
        assert "actions are off" in answer.text
        assert "Start it with --actions" in answer.text
    assert unpaused


def test_a_read_only_dashboard_refuses_all_users(
    connection: Connection, every_state: Queue, tmp_path: Path, unpaused: Unpaused
) -> None:
    """With --read-only the role operator is a role viewer."""
    users = Users(file_of(tmp_path, f"ada:operator:{HASH}"))
    visitor = Visitor(create_app(Inspector(connection), AccessPolicy(users=users, read_only=True)))
    visitor.log_in("ada")
    for answer in (visitor.post(PAUSE, confirmed="yes"), visitor.post_as_given(PAUSE, confirmed="yes")):
        assert answer.status_code == 403
        assert "Start it without --read-only" in answer.text
    assert visitor.post_as_given("/logout").status_code == 403, "who logs out has a page of ours"
    assert unpaused


@pytest.mark.parametrize(
    "host", ["evil.example", "distq.example.evil.example", "xdistq.example", "distq.example."]
)
def test_other_names_get_nothing(connection: Connection, host: str) -> None:
    """A name that merely resolves here is refused (DNS rebinding), also beside an allowed one."""
    client = create_app(Inspector(connection), AccessPolicy(allowed_hosts=["distq.example"])).test_client()
    assert client.get("/", headers={"Host": host}).status_code == 421
    for fine in ("distq.example", "DISTQ.example:8443", "localhost"):
        assert client.get("/", headers={"Host": fine}).status_code == 200


def test_a_forwarded_host_is_no_host(connection: Connection) -> None:
    """X-Forwarded-Host changes neither whether a request is answered nor where it leads."""
    client = create_app(Inspector(connection)).test_client()
    headers = {"Host": "evil.example", "X-Forwarded-Host": "localhost"}
    assert client.get("/", headers=headers).status_code == 421


def test_a_huge_body_is_refused(victim: Visitor, unpaused: Unpaused) -> None:
    """Ten megabytes are not read; a page of the longest keys is."""
    field = 'Content-Disposition: form-data; name="key"'
    for form, kind in (
        ("key=" + "x" * 10_000_000, "application/x-www-form-urlencoded"),
        (f"--b\r\n{field}\r\n\r\n{'x' * 10_000_000}\r\n--b--", "multipart/form-data; boundary=b"),
    ):
        answer = victim.client.post(PAUSE, data=form, content_type=kind, headers=victim.headers)
        assert answer.status_code == 413
    keys = ["é" * 508 + f"{number:03}" for number in range(200)]
    assert sum(len(key.encode()) * 3 for key in keys) < LARGEST_BODY
    assert victim.post("/queues/foos/actions/requeue", key=keys, state="dead").status_code == 303
    assert unpaused


def test_a_frame_shows_nothing_and_forms_stay_here(victim: Visitor) -> None:
    """No page can be framed, so no click can be stolen; and no injected form leads elsewhere."""
    for path in ("/", "/login", "/nowhere"):
        headers = victim.get(path).headers
        assert headers["X-Frame-Options"] == "DENY"
        policy = headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in policy
        assert "form-action 'self'" in policy
        assert "base-uri 'none'" in policy
