"""The actions of users, with name and time: in Redis for all replicas, on a page, and for programs."""

import json
import logging
from collections.abc import Iterator

import pytest

from distq.config import Settings
from distq.dashboard import AccessPolicy, create_app, item_repairs
from distq.errors import RedisRefused
from distq.inspector import Inspector
from distq.redisio.audit_log import AuditLog
from distq.redisio.connection import Connection
from distq.redisio.limits import AUDIT_ENTRIES, AUDIT_LETTERS
from distq.redisio.queue_store import QueueStore
from distq.redisio.roles import user_of
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.queue import Queue
from tests.dashboard.test_actions import act, confirm
from tests.dashboard.test_pages import read
from tests.dashboard.visitor import Visitor, fields_of

KEY = "distq:{foos}:audit"
MARKUP = "<script>alert(1)</script>"


@pytest.fixture
def inspector(connection: Connection) -> Inspector:
    """Read what was noted."""
    return Inspector(connection)


@pytest.fixture
def visitor(inspector: Inspector) -> Visitor:
    """Open a dashboard in which every visitor may repair."""
    return Visitor(create_app(inspector, AccessPolicy(actions=True)))


def noted(inspector: Inspector) -> list[tuple[str, str | None]]:
    """Return the actions and their outcomes, the oldest first."""
    return [(entry.text, entry.outcome) for entry in reversed(inspector.audit())]


def test_each_action_is_noted(visitor: Visitor, inspector: Inspector, every_state: Queue) -> None:
    """With person, address, time and outcome; the question before an action is not noted."""
    began = inspector.now()
    act(visitor, "add", key="ns/new")
    visitor.post("/queues/foos/actions/pause")
    act(visitor, "pause", confirmed="yes")
    act(visitor, "resume")
    act(visitor, "resume")
    act(visitor, "requeue", key=["ns/dead", "ns/ready"], state="dead")
    act(visitor, "trace-on", minutes="5", match="ns/*")
    act(visitor, "trace-off")
    page = confirm(visitor, "delete", all="yes", state="ready", match="ns/*")
    act(visitor, "delete", **fields_of(page))
    assert noted(inspector) == [
        ("add ns/new to foos", "1 new"),
        ("pause foos", "done"),
        ("resume foos", "done"),
        ("resume foos", "it was so already"),
        ("requeue 2 items of foos", "1 of 2 changed: ns/dead, ns/ready"),
        ("trace foos for 5 minutes where keys match ns/*", "done"),
        ("end the trace of foos", "done"),
        ("delete ready items of foos that match ns/*", "3 of 3 changed"),
    ]
    entry = inspector.audit(limit=1)[0]
    assert (entry.person, entry.address, entry.queue, entry.action) == (None, "127.0.0.1", "foos", "delete")
    assert began - 0.001 <= entry.at <= inspector.now()


def test_an_action_that_fails_is_noted_with_its_error(
    visitor: Visitor, inspector: Inspector, every_state: Queue
) -> None:
    """With what was wrong with it."""
    act(visitor, "trace-on", minutes="1e9")
    ((text, outcome),) = noted(inspector)
    assert text == "trace foos for 1e+09 minutes"
    assert outcome is not None
    assert outcome.startswith("failed: bad trace")


def test_an_action_on_no_queue_leaves_nothing(visitor: Visitor, connection: Connection) -> None:
    """It is refused with the reason, and makes no key of a queue that does not exist."""
    (said,) = act(visitor, "resume")
    assert 'no queue "foos"' in said
    assert connection.execute("KEYS", "distq:*") == []


def test_an_action_is_noted_before_it_is_done(
    visitor: Visitor, inspector: Inspector, every_state: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So one that ends its process is there, without an outcome; the page says that."""
    during: list[tuple[str, str | None]] = []

    def crash(self: Inspector, queue: str) -> bool:
        during.extend(noted(self))
        raise SystemError("the process ends")

    monkeypatch.setattr(Inspector, "pause", crash)
    assert visitor.post("/queues/foos/actions/pause", confirmed="yes").status_code == 500
    assert during == noted(inspector) == [("pause foos", None)]
    assert "no outcome" in visitor.get("/audit").text


def test_each_step_of_a_long_repair_is_noted(
    visitor: Visitor, inspector: Inspector, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as it goes on, with how far it is."""
    queue.add(*(f"ns/{number:04}" for number in range(900)))
    monkeypatch.setattr(item_repairs, "STEP_SECONDS", 0.0)
    page = confirm(visitor, "delete", all="yes", state="ready", match="*")
    for _ in range(20):
        answer = visitor.post("/queues/foos/actions/delete", **fields_of(page))
        page = answer.text
        if answer.status_code == 303:
            break
    outcomes = [outcome or "" for _, outcome in noted(inspector)]
    assert len(outcomes) > 1
    assert all(outcome.endswith("changed, going on") for outcome in outcomes[:-1])
    assert outcomes[-1] == "900 of 900 changed"


def test_replicas_have_one_audit(visitor: Visitor, connection: Connection, every_state: Queue) -> None:
    """The actions on one dashboard are on the page of another, the newest first."""
    act(visitor, "pause", confirmed="yes")
    act(visitor, "resume")
    other = create_app(Inspector(connection)).test_client()
    page = read(other, "/audit")
    actions = [text for text in page.texts if text in {"pause foos", "resume foos"}]
    assert actions == ["resume foos", "pause foos"]
    assert page.texts.count("anonymous") == 2


def test_no_action_yet(visitor: Visitor) -> None:
    """The page says so, and what will be there."""
    assert "No action yet" in visitor.get("/audit").text


def test_texts_of_people_are_shown_as_text(
    visitor: Visitor, inspector: Inspector, every_state: Queue
) -> None:
    """A key of markup, or of a kibibyte, breaks no page."""
    act(visitor, "add", key=MARKUP)
    act(visitor, "add", key="é" * 512)
    act(visitor, "add", key="\x1b[31m")
    page = visitor.get("/audit").text
    assert MARKUP not in page
    assert "&lt;script&gt;" in page
    assert len(inspector.audit()) == 3


@pytest.mark.bound("AUDIT_ENTRIES", "AUDIT_LETTERS")
def test_the_last_thousand_actions_are_kept(
    inspector: Inspector, connection: Connection, every_state: Queue
) -> None:
    """Older ones go, and a long one is cut."""
    log = AuditLog(QueueStore(connection, "foos"))
    for number in range(AUDIT_ENTRIES + 5):
        log.end(
            log.begin({"action": "add", "text": f"add {number}"}), {"action": "add", "text": f"add {number}"}
        )
    long = {"action": "add", "text": "a" * (AUDIT_LETTERS + 5), "outcome": "b" * (AUDIT_LETTERS + 5)}
    log.end(log.begin(long), long)
    assert connection.execute("XLEN", KEY) == AUDIT_ENTRIES
    newest = inspector.audit(limit=2)
    assert (len(newest[0].text), len(newest[0].outcome or "")) == (AUDIT_LETTERS, AUDIT_LETTERS)
    assert newest[1].text == f"add {AUDIT_ENTRIES + 4}"


def test_pages_lead_through_all_actions_of_all_queues(visitor: Visitor, connection: Connection) -> None:
    """Each queue has its last thousand: two of them more than one had. Behind the last page is nothing."""
    of_each = AUDIT_ENTRIES * 3 // 5
    for name in ("a", "b"):
        connection.execute("HSET", "distq:queues", name, "1")
        entry = json.dumps({"action": "add", "text": f"add to {name}"})
        add = ("XADD", f"distq:{{{name}}}:audit", "*", "entry", entry)
        connection.pipeline([add] * of_each)
    seen, url = 0, "/audit"
    for _ in range(20):
        page = read(visitor.client, url)
        seen += sum(tag == "tr" for tag, _ in page.tags) - 1
        if not (url := next((link for link, words in page.links.items() if words == "Next"), "")):
            break
    assert seen == 2 * of_each
    assert "No action yet on this page" in visitor.get("/audit?page=999999999").text
    assert visitor.get("/audit?page=0").status_code == 404


@pytest.mark.parametrize(
    "entry",
    [
        *("", "no JSON", "[]", "{}", '{"action": 1, "text": []}', '{"action": "a", "text": "b", "at": "x"}'),
        r'{"action": "a", "text": "b", "person": "half a pair \udcff"}',
    ],
)
def test_a_foreign_entry_breaks_nothing(
    visitor: Visitor, connection: Connection, every_state: Queue, entry: str
) -> None:
    """An entry that cannot be read is left out, or shown as far as it can."""
    connection.execute("XADD", KEY, "*", "entry", entry)
    connection.execute("XADD", KEY, "*", "other", "field")
    act(visitor, "resume")
    assert "resume foos" in visitor.get("/audit").text


@pytest.fixture
def limited(connection: Connection, redis_server: EmbeddedValkey) -> Iterator[Visitor]:
    """Open a dashboard whose user may not write to the audit."""
    user = user_of(["operator"], prefix="distq").replace(" +xadd", "").replace(" +xdel", "")
    connection.execute(*user.split())
    settings = Settings(redis_username=user.split()[2], redis_password="PASSWORD")
    redis = Connection(redis_server.url, settings=settings)
    yield Visitor(create_app(Inspector(redis), AccessPolicy(actions=True)))
    redis.close()
    connection.execute("ACL", "DELUSER", "distq-operator")


@pytest.mark.parametrize("obstacle", ["type", "right"])
def test_no_action_fails_for_it(
    request: pytest.FixtureRequest,
    connection: Connection,
    every_state: Queue,
    caplog: pytest.LogCaptureFixture,
    obstacle: str,
) -> None:
    """Where Redis does not take it, the action is done and in the log, with a warning; the page says why."""
    visitor: Visitor = request.getfixturevalue("visitor" if obstacle == "type" else "limited")
    if obstacle == "type":
        connection.execute("SET", KEY, "x")
    with caplog.at_level(logging.INFO, logger="distq"):
        said = act(visitor, "pause", confirmed="yes")
    assert said == ["Paused foos: nothing is claimed until it is resumed."]
    assert Inspector(connection).queues("foos")[0].paused
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0].startswith("Redis did not take an action into the audit")
    assert lines[1] == "anonymous from 127.0.0.1: pause foos: done"
    page = visitor.get("/audit")
    if obstacle == "type":
        assert page.status_code == 503
        assert page.text.count("\n") == 1
        assert KEY in page.text


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_a_user_without_rights_to_a_queue_does_not_see_its_audit(
    visitor: Visitor,
    connection: Connection,
    redis_server: EmbeddedValkey,
    every_state: Queue,
    role: str,
) -> None:
    """Neither on the page nor as a program, nor by Redis itself: the audit of a queue is a key of it."""
    connection.execute("HSET", "distq:queues", "bars", "1")
    act(visitor, "resume")
    visitor.post("/queues/bars/actions/resume")
    user = user_of([role], prefix="distq", queues=["foos"])
    connection.execute(*user.split())
    settings = Settings(redis_username=user.split()[2], redis_password="PASSWORD")
    redis = Connection(redis_server.url, settings=settings)
    try:
        assert [entry.queue for entry in Inspector(connection).audit()] == ["bars", "foos"]
        assert [entry.queue for entry in Inspector(redis).audit()] == ["foos"]
        assert "bars" not in create_app(Inspector(redis)).test_client().get("/audit").text
        with pytest.raises(RedisRefused):
            redis.execute("XREVRANGE", "distq:{bars}:audit", "+", "-")
    finally:
        redis.close()
        connection.execute("ACL", "DELUSER", user.split()[2])


def test_the_newest_actions_of_all_queues_come_first(connection: Connection, inspector: Inspector) -> None:
    """However they are spread over queues: one that has most of them is read further than the others."""
    names = ["a", "b", "c"]
    expected: list[tuple[str, str]] = []
    for number in range(120):
        name = "b" if number % 10 else names[number // 10 % 3]
        connection.execute("HSET", "distq:queues", name, "1")
        AuditLog(QueueStore(connection, name)).begin({"action": "add", "text": f"{number}"})
        expected.insert(0, (name, f"{number}"))
    found = [(entry.queue, entry.text) for entry in inspector.audit(limit=200)]
    assert sorted(found) == sorted(expected)
    for offset, limit in ((0, 0), (0, 5), (0, 30), (25, 30), (110, 30), (200, 5), (10**20, 5)):
        some = inspector.audit(offset=offset, limit=limit)
        assert [(entry.queue, entry.text) for entry in some] == found[offset:][:limit]


def test_refusals_push_nothing_out(connection: Connection, every_state: Queue) -> None:
    """A user without the right to act, and an action that does not exist, are not noted in Redis."""
    visitor = Visitor(create_app(Inspector(connection)))
    assert visitor.post("/queues/foos/actions/pause", confirmed="yes").status_code == 403
    assert visitor.post("/queues/foos/actions/explode").status_code == 404
    assert connection.execute("EXISTS", KEY) == 0


def test_an_entry_is_json(visitor: Visitor, connection: Connection, every_state: Queue) -> None:
    """As the page about the layout has it."""
    act(visitor, "resume")
    ((_, (name, entry)),) = connection.execute("XRANGE", KEY, "-", "+")
    fields = json.loads(entry)
    assert name == b"entry"
    assert list(fields) == ["person", "address", "via", "action", "text", "outcome", "at"]
