"""What the forms do to a real queue."""

import logging
import re
from typing import Any

import pytest
from flask import Flask

from distq.dashboard import AccessPolicy, create_app, item_repairs
from distq.errors import TerminalError
from distq.inspector import Inspector
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.stream_store import StreamStore
from distq.workqueue.queue import Queue
from tests.dashboard.conftest import HOSTILE_KEYS, NOWHERE
from tests.dashboard.visitor import Visitor, fields_of


@pytest.fixture
def inspector(connection: Connection) -> Inspector:
    """Look at what the forms did."""
    return Inspector(connection)


@pytest.fixture
def app(inspector: Inspector) -> Flask:
    """Make a dashboard in which every visitor may repair."""
    return create_app(inspector, AccessPolicy(actions=True))


@pytest.fixture
def visitor(app: Flask) -> Visitor:
    """Open it."""
    return Visitor(app)


def act(visitor: Visitor, action: str, **fields: Any) -> list[str]:
    """Send a form that acts at once; return what the next page says."""
    answer = visitor.post(f"/queues/foos/actions/{action}", **fields)
    assert answer.status_code == 303, answer.text
    return visitor.messages()


def confirm(visitor: Visitor, action: str, **fields: Any) -> str:
    """Send a form that asks first; return the page that asks."""
    answer = visitor.post(f"/queues/foos/actions/{action}", **fields)
    assert answer.status_code == 200, answer.text
    return answer.text


def states(inspector: Inspector) -> dict[str, str]:
    """Return the state of each item."""
    return {item.key: item.state for item in inspector.items("foos", limit=1000)}


def test_one_item_is_repaired(visitor: Visitor, inspector: Inspector, every_state: Queue) -> None:
    """Requeue and park act at once, delete asks; each says what it did to which item."""
    assert act(visitor, "requeue", key="ns/dead", state="dead") == ["Requeued ns/dead."]
    assert act(visitor, "requeue", key="ns/delayed", state="delayed") == ["Requeued ns/delayed."]
    assert act(visitor, "park", key="ns/ready", state="ready", reason="waits for INC-7") == [
        "Parked ns/ready."
    ]
    parked = inspector.item("foos", "ns/ready")
    assert parked is not None
    assert (parked.state, parked.last_error) == ("dead", "waits for INC-7")
    page = confirm(visitor, "delete", key="ns/dead", state="ready")
    assert states(inspector)["ns/dead"] == "ready", "it is only asked"
    assert act(visitor, "delete", **fields_of(page)) == ["Deleted ns/dead."]
    assert states(inspector) == {"ns/delayed": "ready", "ns/processing": "processing", "ns/ready": "dead"}


def test_a_state_is_looked_at_again(visitor: Visitor, inspector: Inspector, every_state: Queue) -> None:
    """An item that left its state since the page was drawn is left alone, and the answer reports this.

    A park takes ready and delayed items alike.
    """
    stale = "Nothing was changed: ns/ready left its state meanwhile."
    assert act(visitor, "requeue", key="ns/ready", state="dead") == [stale]
    assert act(visitor, "delete", key="ns/ready", state="delayed", confirmed="yes") == [stale]
    gone = "Nothing was changed: ns/gone left its state meanwhile."
    assert act(visitor, "park", key="ns/gone", state="ready") == [gone]
    keys = ["ns/dead", "ns/ready", "ns/gone"]
    said = act(visitor, "requeue", key=keys, state="dead")
    assert said == [
        "Requeued 1 item; 2 more had changed meanwhile, or could not be mapped: "
        "fix these objects, or the function and then resync foos."
    ]
    assert states(inspector)["ns/ready"] == "ready"
    assert act(visitor, "park", key="ns/delayed", state="ready") == ["Parked ns/delayed."]


def test_an_object_that_a_watch_could_not_map_is_not_requeued(
    visitor: Visitor, inspector: Inspector, every_state: Queue, connection: Connection
) -> None:
    """It stays dead, since its name is no key; alone and among others the answer says what helps instead."""
    item = "ConfigMap foos.foos_of: prod/bad"
    StreamStore(connection, "foos", "maps").commit(
        Commit(
            epoch="1",
            after="",
            new="5",
            batch="a",
            unrouted={item.encode(): "KeyError"},
            parked_as=item.removesuffix("prod/bad"),
        )
    )
    helps = "fix the object, or the function and then resync foos."
    assert act(visitor, "requeue", key=item, state="dead") == [
        f"Nothing was changed: {item} could not be mapped: {helps}"
    ]
    assert act(visitor, "requeue", key=["ns/dead", item], state="dead") == [
        "Requeued 1 item; 1 more had changed meanwhile, or could not be mapped: "
        "fix these objects, or the function and then resync foos."
    ]
    assert states(inspector)[item] == "dead"


def test_a_held_item_is_never_taken_from_its_worker(
    visitor: Visitor, inspector: Inspector, every_state: Queue
) -> None:
    """Delete of a processing item is refused; of a dirty one only what is pending goes."""
    said = act(visitor, "delete", key="ns/processing", state="processing", confirmed="yes")
    assert "workers hold them" in said[0]
    assert act(visitor, "delete", key="ns/processing", state="dirty", confirmed="yes") == [
        "Deleted ns/processing."
    ]
    item = inspector.item("foos", "ns/processing")
    assert item is not None
    assert (item.state, item.dirty) == ("processing", False)


def test_failing_items_are_repaired_in_any_state(
    visitor: Visitor, inspector: Inspector, every_state: Queue
) -> None:
    """Chosen ones, of several states; all of them are refused, since a repair of all is of one state."""
    page = visitor.get("/queues/foos?state=failing").text
    assert "Requeue chosen" in page
    assert 'name="all"' not in page
    assert act(visitor, "requeue", key=["ns/dead", "ns/delayed"], state="failing") == ["Requeued 2 items."]
    assert act(visitor, "park", key="ns/dead", state="failing", reason="later") == ["Parked ns/dead."]
    page = confirm(visitor, "delete", key="ns/dead", state="failing")
    assert act(visitor, "delete", **fields_of(page)) == ["Deleted ns/dead."]
    (refusal,) = act(visitor, "requeue", all="yes", state="failing", confirmed="yes")
    assert refusal.startswith("requeue failed: failing items are in several states")
    assert states(inspector)["ns/delayed"] == "ready"


@pytest.mark.parametrize("key", HOSTILE_KEYS)
def test_any_key_is_repaired(visitor: Visitor, inspector: Inspector, queue: Queue, key: str) -> None:
    """A key of any characters survives the pages that ask, as text, and the right item is deleted."""
    queue.add("default/other", key)
    page = confirm(visitor, "delete", key=key, state="ready")
    assert "<script>document" not in page
    assert "<img" not in page
    assert act(visitor, "delete", **fields_of(page))
    assert states(inspector) == {"default/other": "ready"}


EVIL = "<script>document.title='pwned'</script>\"'><img src=x onerror=alert(1)>{{ 7 * 7 }}"


@pytest.mark.parametrize("field", ["key", "match", "reason", "next"])
def test_no_field_of_a_form_is_markup(visitor: Visitor, queue: Queue, field: str) -> None:
    """The page that asks and the message after it show the fields of a form as text."""
    queue.add("a", EVIL)
    fields = {"key": EVIL, "state": "ready", "reason": "why", field: EVIL}
    if field == "match":
        fields |= {"all": "yes"}
    pages = [visitor.post("/queues/foos/actions/delete", **fields).text]
    visitor.post("/queues/foos/actions/park", **fields, confirmed="yes")
    pages.append(visitor.get("/queues/foos?state=dead").text)
    visitor.post("/queues/foos/actions/requeue", **{**fields, "state": EVIL})
    pages.append(visitor.get("/").text)
    for page in pages:
        assert "<script>document" not in page
        assert "<img src=x" not in page
        assert " 49" not in page
        assert 'class="message' in page or "<h1>Delete" in page


@pytest.fixture
def many(queue: Queue) -> Queue:
    """Park 1,300 items of prod and 20 of test; keep ten delayed."""
    queue.add(*(f"prod/{number}" for number in range(1000)))
    queue.add(
        *(f"prod/{number}" for number in range(1000, 1300)), *(f"test/{number}" for number in range(20))
    )
    inspector = Inspector(queue.connection)
    assert inspector.park("foos", state="ready", reason="by a test") == 1320
    queue.add(*(f"prod/late-{number}" for number in range(10)), after=1000)
    return queue


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a request have time for one step alone."""
    monkeypatch.setattr(item_repairs, "STEP_SECONDS", 0.0)


def test_all_that_match_are_counted_first(visitor: Visitor, inspector: Inspector, many: Queue) -> None:
    """The page that asks says how many it is about; then all of these and no others are changed."""
    page = confirm(visitor, "requeue", all="yes", state="dead", match="prod/*")
    assert "Requeue dead items of foos that match prod/*?" in page
    assert "About 1,300 items now." in page
    assert inspector.count("foos", state="dead") == 1320
    assert act(visitor, "requeue", **fields_of(page)) == ["Requeued 1,300 items."]
    assert inspector.count("foos", state="dead") == 20
    assert inspector.count("foos", state="ready") == 1300
    assert inspector.count("foos", state="delayed") == 10
    page = confirm(visitor, "delete", all="yes", state="dead", key="prod/late-1")
    assert "20 items now." in page
    assert act(visitor, "delete", **fields_of(page)) == ["Deleted 20 items."]
    assert inspector.count("foos", state="delayed") == 10, "the ticked ones do not count beside all"


@pytest.mark.usefixtures("hurried")
def test_a_long_repair_goes_on_page_by_page(visitor: Visitor, inspector: Inspector, many: Queue) -> None:
    """Each page says how far it is and carries on; one sent again, as by a reload, changes nothing twice."""
    page = confirm(visitor, "requeue", all="yes", state="dead", match="prod/*")
    pages, answer = [], visitor.post("/queues/foos/actions/requeue", **fields_of(page))
    while answer.status_code == 200:
        pages.append(answer.text)
        if len(pages) == 2:
            visitor.post("/queues/foos/actions/requeue", **fields_of(pages[0]))
        answer = visitor.post("/queues/foos/actions/requeue", **fields_of(pages[-1]))
    assert len(pages) >= 2
    assert all('id="next-step"' in each and "<progress" in each for each in pages)
    counts = [int(re.findall(r"([\d,]+) changed, ", each)[0].replace(",", "")) for each in pages]
    assert counts == sorted(counts)
    assert counts[0] > 0
    (said,) = [text for text in visitor.messages() if text.startswith("Requeued")][-1:]
    assert re.match(r"Requeued [\d,]+ items", said)
    assert (inspector.count("foos", state="dead"), inspector.count("foos", state="ready")) == (20, 1300)


@pytest.mark.usefixtures("hurried")
def test_a_repair_can_be_stopped(visitor: Visitor, inspector: Inspector, many: Queue) -> None:
    """Without the next form, nothing else changes."""
    page = confirm(visitor, "delete", all="yes", state="dead")
    answer = visitor.post("/queues/foos/actions/delete", **fields_of(page))
    assert answer.status_code == 200
    assert ">Stop</a>" in answer.text
    assert 0 < inspector.count("foos", state="dead") < 1320


def test_a_repair_that_fails_halfway_reports_its_progress(
    visitor: Visitor, inspector: Inspector, many: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If Redis goes away in the middle, the error and the audit have the changes that were made before."""
    page = confirm(visitor, "requeue", all="yes", state="dead")
    broken = Inspector(NOWHERE)
    step, steps = Inspector.repair_some, iter([True, False])

    def once(self: Inspector, *arguments: Any, **named: Any) -> Any:
        return step(self if next(steps) else broken, *arguments, **named)

    monkeypatch.setattr(Inspector, "repair_some", once)
    stopped, done = act(visitor, "requeue", **fields_of(page))
    assert stopped.startswith("It stopped: ")
    requeued = inspector.count("foos", state="ready")
    assert done == f"Requeued {requeued:,} items."
    assert str(inspector.audit()[0].outcome).startswith(f"{requeued} of {requeued} changed, then failed: ")


def test_an_item_is_added(visitor: Visitor, inspector: Inspector, every_state: Queue) -> None:
    """With a priority, or for later; an item that was pending already is reported."""
    assert act(visitor, "add", key="ns/new", priority="7") == ["Added ns/new."]
    assert act(visitor, "add", key="ns/new", priority="7") == ["ns/new was pending already."]
    assert act(visitor, "add", key="ns/later", delay="60") == ["Added ns/later."]
    new, later = inspector.item("foos", "ns/new"), inspector.item("foos", "ns/later")
    assert new is not None
    assert later is not None
    assert (new.state, new.priority, later.state) == ("ready", 7, "delayed")


@pytest.mark.parametrize(
    ("action", "fields", "why"),
    [
        ("add", {}, "bad key ''"),
        ("add", {"key": "a\x00"}, "control characters"),
        ("add", {"key": "a" * 1025}, "1025 bytes"),
        ("add", {"key": "a", "priority": "901"}, "priority"),
        ("add", {"key": "a", "priority": "high"}, "priority and delay are numbers"),
        ("add", {"key": "a", "delay": "-1"}, "delay"),
        ("add", {"key": "a", "delay": "nan"}, "delay"),
        ("requeue", {}, "no state"),
        ("requeue", {"state": "dead"}, "no items chosen"),
        ("requeue", {"state": "finished", "all": "yes"}, "no state"),
        ("requeue", {"state": "dead", "key": ""}, "bad key"),
        ("park", {"state": "ready", "key": "ns/ready", "reason": "a\nb"}, "bad reason"),
        ("resync", {}, "no informer feeds foos"),
        ("trace-on", {"minutes": "soon"}, "minutes are a number"),
        ("trace-on", {"minutes": "99999"}, "bad trace"),
        ("trace-on", {"minutes": "nan"}, "bad trace"),
    ],
)
@pytest.mark.usefixtures("every_state")
def test_bad_input_changes_nothing(
    visitor: Visitor, inspector: Inspector, action: str, fields: dict[str, str], why: str
) -> None:
    """A form that makes no sense is answered by one message that says why."""
    before = states(inspector)
    (said,) = act(visitor, action, **fields)
    assert why in said
    assert states(inspector) == before
    assert inspector.traced_until("foos") is None


@pytest.mark.parametrize("action", ["requeue", "delete", "park", "add", "pause", "resume", "trace-on"])
def test_no_action_makes_a_queue(visitor: Visitor, inspector: Inspector, action: str) -> None:
    """A queue that is not there is not made by a form, and one that has no such name neither."""
    for queue in ("bars", "-bad-"):
        answer = visitor.post(
            f"/queues/{queue}/actions/{action}", key="a", state="dead", confirmed="yes", all="yes"
        )
        assert answer.status_code == 303
        assert visitor.messages()
    assert inspector.queues() == []
    assert visitor.post("/queues/foos/actions/drop").status_code == 404


def test_a_queue_is_paused_and_resumed(visitor: Visitor, inspector: Inspector, every_state: Queue) -> None:
    """A pause asks first. Each reports what it did, or that it was so already."""
    page = visitor.post("/queues/foos/actions/pause").text
    assert "Pause foos?" in page
    assert "finish 1 item in progress" in page
    assert not inspector.queues()[0].paused
    confirmed = fields_of(page)
    assert act(visitor, "pause", **confirmed) == ["Paused foos: nothing is claimed until it is resumed."]
    assert inspector.queues()[0].paused
    assert act(visitor, "pause", **confirmed) == ["It was paused already."]
    assert act(visitor, "resume") == ["Resumed foos."]
    assert not inspector.queues()[0].paused
    assert act(visitor, "resume") == ["It was not paused."]


def test_a_trace_is_switched(visitor: Visitor, inspector: Inspector, every_state: Queue) -> None:
    """For so many minutes by the server's clock, and off before they are over."""
    assert act(visitor, "trace-on", minutes="5") == ["foos is traced for 5m0s."]
    until = inspector.traced_until("foos")
    assert until is not None
    assert 290 < until - inspector.now() <= 300
    assert act(visitor, "trace-off") == ["The trace of foos has ended."]
    assert inspector.traced_until("foos") is None
    act(visitor, "trace-on", match="ns/new-*")
    act(visitor, "add", key="ns/new-1")
    act(visitor, "add", key="ns/other")
    assert {event.key for event in inspector.trace("foos")} >= {"ns/new-1"}
    assert "ns/other" not in {event.key for event in inspector.trace("foos")}


def test_a_resync_asks_first(visitor: Visitor, inspector: Inspector, connection: Connection) -> None:
    """It names what is listed, and lists it after the answer."""
    from tests.support.populated import Populated

    Populated(connection)
    page = visitor.post("/queues/foos/actions/resync").text
    resources = [stream.resource for stream in inspector.streams("foos")]
    assert resources
    assert all(resource in page for resource in resources)
    assert any(stream.version is not None for stream in inspector.streams("foos"))
    (said,) = act(visitor, "resync", confirmed="yes")
    assert f"lists {len(resources)} resource" in said
    assert all(stream.version is None for stream in inspector.streams("foos"))


def test_an_action_leads_back_to_its_page(visitor: Visitor, every_state: Queue) -> None:
    """To where the form was, if that is on this server; else to the queue."""
    post = visitor.post
    here = "/queues/foos?state=dead&page=2"
    assert post("/queues/foos/actions/resume", next=here).location == here
    assert post("/queues/foos/actions/resume", next="https://evil.example").location == "/queues/foos"
    assert post("/queues/foos/actions/resume").location == "/queues/foos"


def test_an_unreachable_redis_is_reported() -> None:
    """An action that Redis does not answer leads back with its error; no page says that it was done."""
    visitor = Visitor(create_app(Inspector(NOWHERE), AccessPolicy(actions=True)))
    (said,) = act(visitor, "pause", confirmed="yes")
    assert said.startswith("pause failed: ")
    assert "127.0.0.1:1" in said


def test_each_action_is_in_the_log(
    visitor: Visitor, every_state: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    """User, address, action and count: one line for each, with fields for programs."""
    with caplog.at_level(logging.INFO, logger="distq.dashboard.audit"):
        act(visitor, "pause", confirmed="yes")
        act(visitor, "requeue", key=["ns/dead", "ns/ready"], state="dead")
        act(visitor, "park", key="ns/ready\u202e<b>", state="ready")
        page = confirm(visitor, "delete", all="yes", state="ready", match="ns/*")
        act(visitor, "delete", **fields_of(page))
    assert [record.getMessage() for record in caplog.records] == [
        "anonymous from 127.0.0.1: pause foos: done",
        "anonymous from 127.0.0.1: requeue 2 items of foos: 1 of 2 changed: ns/dead, ns/ready",
        "anonymous from 127.0.0.1: park ns/ready\u202e<b> of foos: 0 of 1 changed",
        "anonymous from 127.0.0.1: delete ready items of foos that match ns/*: 2 of 2 changed",
    ]
    facts = vars(caplog.records[1])
    assert (facts["action"], facts["queue"], facts["chosen"], facts["changed"]) == ("requeue", "foos", 2, 1)
    assert facts["address"] == "127.0.0.1"


def test_a_dead_item_that_fails_again_is_reported_by_its_next_state(
    visitor: Visitor, inspector: Inspector, queue: Queue
) -> None:
    """A requeued item begins anew: its failures are forgotten."""
    queue.add("ns/web")
    queue.settle(queue.get(timeout=5), TerminalError("no such image"))
    act(visitor, "requeue", key="ns/web", state="dead")
    item = inspector.item("foos", "ns/web")
    assert item is not None
    assert (item.state, item.failures) == ("ready", 0)
