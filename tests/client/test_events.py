"""Events are recorded beside the work, never at its cost: in order, counted and merged as client-go does."""

import contextlib
import json
import logging
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from distq.client import Client, Object, recorder
from distq.client.correlator import BURST, MERGED
from distq.client.recorder import EventRecorder
from distq.errors import ApiError
from distq.metrics import EVENTS_DROPPED
from distq.testing.fake_clock import FakeClock
from tests.support.api_servers import ApiServer, RealApiServer, kubeconfig_through, write_kubeconfig
from tests.support.eventually import eventually
from tests.support.recorded_metrics import RecordedMetrics
from tests.support.tcp_proxy import TcpProxy

IN_TIME = 60.0
"""Seconds until which all is sent, also on a machine that has much else to do."""

POD: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "nowhere"}}

Record = Callable[..., None]
Count = Callable[[str], int]


@dataclass
class Scene:
    """A cluster, and an object in it that events are about."""

    server: ApiServer
    client: Client
    namespace: str
    about: Object

    def events(self) -> list[Object]:
        """Return the events in the namespace, in the order in which they were first recorded."""
        found = self.client.list("v1/Event", self.namespace)
        return sorted(found, key=lambda event: int(event["metadata"]["name"].rpartition(".")[2], 16))

    def find(self, name: str = "web") -> Object | None:
        """Return the object, or another."""
        return self.client.get("v1/ConfigMap", f"{self.namespace}/{name}")


@pytest.fixture
def scene(api_server: ApiServer, client: Client, namespace: str) -> Scene:
    """Give a namespace with an object."""
    place = {"name": "web", "namespace": namespace}
    about = client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": place})
    return Scene(api_server, client, namespace, about)


@pytest.fixture
def clock() -> FakeClock:
    """Give a clock that does not move."""
    return FakeClock()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try again at once."""
    monkeypatch.setattr(recorder, "RETRY_DELAY", 0.0)


@pytest.fixture
def record(scene: Scene, clock: FakeClock) -> Record:
    """Give what records an event about the object, and waits until it is sent."""
    events = EventRecorder(scene.client, "tester", clock)

    def record_one(reason: str, message: str, *, kind: str = "Normal", field_path: str = "") -> None:
        events.record(scene.about, reason, message, type=kind, field_path=field_path)
        assert events.flush(IN_TIME) == 0

    return record_one


@pytest.fixture
def drops() -> Iterator[Count]:
    """Give what counts the events that were dropped, by reason."""
    metrics = RecordedMetrics()
    ended = recorder.count_with(metrics)
    yield lambda reason: metrics.counters[EVENTS_DROPPED, (reason,)]
    ended()


class TestCorrelation:
    """The numbers of client-go, against an API server."""

    def test_equal_events_are_one_that_is_counted(
        self, scene: Scene, record: Record, clock: FakeClock
    ) -> None:
        """The first moment stays, the last one moves."""
        for _ in range(3):
            record("Synced", "all is well")
            clock.step(60)
        record("Synced", "all is well", kind="Warning")
        first, warning = scene.events()
        assert (first["count"], warning["count"]) == (3, 1)
        assert first["firstTimestamp"] < first["lastTimestamp"] < warning["firstTimestamp"]
        assert first["source"] == {"component": "tester"}
        assert first["reportingComponent"] == "tester"

    def test_ten_events_that_differ_in_their_message_are_merged(
        self, scene: Scene, record: Record, clock: FakeClock
    ) -> None:
        """Nine are single events, one has all that follow; ten minutes after the last it begins anew."""
        for number in range(12):
            record("Failed", f"try {number}")
        *single, merged = scene.events()
        assert [event["message"] for event in single] == [f"try {number}" for number in range(9)]
        assert (merged["message"], merged["count"]) == (f"{MERGED}try 11", 3)
        assert merged["message"].startswith("(combined from similar events): ")
        clock.step(600)
        record("Failed", "try 12")
        clock.step(601)
        record("Failed", "try 13")
        messages = {event["message"]: event["count"] for event in scene.events()}
        assert messages[f"{MERGED}try 12"] == 4
        assert messages["try 13"] == 1

    def test_of_an_object_there_are_25_at_once_and_one_more_each_5_minutes(
        self, scene: Scene, record: Record, clock: FakeClock, drops: Count
    ) -> None:
        """Events that are left out are counted in the next one; another type has a budget of its own."""
        for _ in range(BURST + 5):
            record("Synced", "all is well")
        assert scene.events()[0]["count"] == BURST
        assert drops("filtered") == 5
        clock.step(299)
        record("Synced", "all is well")
        assert scene.events()[0]["count"] == BURST
        clock.step(1)
        record("Synced", "all is well")
        assert scene.events()[0]["count"] == BURST + 7
        record("Failed", "no", kind="Warning")
        assert [event["type"] for event in scene.events()] == ["Normal", "Warning"]

    def test_an_event_that_the_server_no_longer_has_is_created_again(
        self, scene: Scene, record: Record
    ) -> None:
        """It keeps its count, as with client-go."""
        record("Synced", "all is well")
        (event,) = scene.events()
        scene.client.delete("v1/Event", f"{scene.namespace}/{event['metadata']['name']}")
        record("Synced", "all is well")
        (event,) = scene.events()
        assert event["count"] == 2

    def test_an_event_about_a_part_is_another_one(self, scene: Scene, record: Record) -> None:
        """As kubectl shows the part beside the object."""
        record("Pulled", "an image")
        record("Pulled", "an image", field_path="spec.containers{web}")
        paths = [event["involvedObject"].get("fieldPath") for event in scene.events()]
        assert paths == [None, "spec.containers{web}"]


class TestNoCost:
    """Any trouble with events leaves the work alone."""

    def test_they_are_sent_in_their_order_once_the_api_server_answers(
        self, scene: Scene, proxied: Client, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Meanwhile they wait, and no caller waits for them."""
        monkeypatch.setattr(recorder, "RETRY_DELAY", 0.01)
        monkeypatch.setattr(recorder, "TRIES", 1_000_000)
        proxied.get("v1/Namespace", scene.namespace)  # connected
        proxy.mode = "reset"
        for number in range(5):
            proxied.event(scene.about, f"Step{number}", "done")
        assert not proxied.flush_events(0.0)
        proxy.mode = "pass"
        assert proxied.flush_events(IN_TIME)
        assert [event["reason"] for event in scene.events()] == [f"Step{n}" for n in range(5)]

    def test_a_flush_ends_a_pause(
        self, scene: Scene, proxied: Client, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """At the end of a process there is no time to wait for the next try."""
        monkeypatch.setattr(recorder, "RETRY_DELAY", 1e6)
        monkeypatch.setattr(random, "random", lambda: 1.0)
        proxied.get("v1/Namespace", scene.namespace)
        proxy.mode = "reset"
        pause, paused = EventRecorder._pause, threading.Event()

        def noted_pause(events: EventRecorder, *arguments: Any) -> None:
            paused.set()
            pause(events, *arguments)

        monkeypatch.setattr(EventRecorder, "_pause", noted_pause)
        proxied.event(scene.about, "Synced", "all is well")
        assert paused.wait(IN_TIME)
        proxy.mode = "pass"
        deadline = time.monotonic() + IN_TIME
        while not proxied.flush_events(0.1) and time.monotonic() < deadline:
            pass
        assert len(scene.events()) == 1

    @pytest.mark.usefixtures("impatient")
    def test_an_event_without_an_answer_is_given_up_after_12_tries(
        self, scene: Scene, proxied: Client, proxy: TcpProxy, drops: Count, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The next one has tries of its own; one line reports both."""
        proxied.resolve("v1/Event")
        proxy.mode = "reset"
        before = proxy.accepted
        for reason in ("Synced", "Failed"):
            proxied.event(scene.about, reason, "no answer")
        assert proxied.flush_events(IN_TIME)
        assert drops("unanswered") == 2
        # the first try may use the connection that is open
        assert proxy.accepted - before >= 2 * recorder.TRIES - 1
        assert [line.levelname for line in caplog.records if line.name == "distq.events"] == ["WARNING"]
        assert "an event was dropped: POST /api/v1/namespaces/" in caplog.text

    def test_a_refusal_is_counted_and_said_once(
        self, scene: Scene, drops: Count, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Here the namespace does not exist."""
        for number in range(3):
            scene.client.event(POD, "Synced", f"number {number}")
        assert scene.client.flush_events(IN_TIME)
        assert drops("refused") == 3
        assert caplog.text.count("an event was dropped") == 1

    def test_a_forbidden_event_is_logged_with_the_rule_that_allows_it(
        self, scene: Scene, tmp_path: Path, drops: Count, caplog: pytest.LogCaptureFixture
    ) -> None:
        """That is no trouble: a line at INFO, and the work goes on."""
        if not isinstance(scene.server, RealApiServer):
            pytest.skip("the emulated server lets everybody do everything")
        kubeconfig = tmp_path / "kubeconfig"
        authority = str(scene.server.certificate_authority)
        cluster = {"server": scene.server.url, "certificate-authority": authority}
        write_kubeconfig(kubeconfig, cluster=cluster, user={"token": scene.server.outsider_token})
        outsider = Client(kubeconfig)
        outsider.resolve("v1/Event")
        caplog.set_level(logging.INFO)
        outsider.event(scene.about, "Synced", "all is well")
        assert outsider.flush_events(IN_TIME)
        assert drops("refused") == 1
        (line,) = [line for line in caplog.records if line.name == "distq.events"]
        assert line.levelname == "INFO"
        assert f"Add to a Role in {scene.namespace} of this user" in line.getMessage()

    def test_a_namespace_that_is_being_deleted_is_no_trouble(
        self, scene: Scene, drops: Count, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Controllers go on recording until the last object is gone."""
        held = {"name": "held", "namespace": scene.namespace, "finalizers": ["example.com/held"]}
        scene.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": held})
        scene.client.delete("v1/Namespace", scene.namespace)
        caplog.set_level(logging.INFO)
        scene.client.event(scene.about, "Synced", "all is well")
        assert scene.client.flush_events(IN_TIME)
        assert drops("refused") == 1
        assert not [line for line in caplog.records if line.name == "distq.events"]

    def test_too_many_are_dropped_with_a_count(
        self, scene: Scene, proxied: Client, proxy: TcpProxy, drops: Count, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Memory has an end; the events that were recorded first are kept."""
        proxied.resolve("v1/Event")
        proxy.mode = "hang"
        for number in range(recorder.MOST_WAITING + 50):
            proxied.event(scene.about, "Synced", f"number {number}")
        assert drops("full") == 50
        assert caplog.text.count("1000 wait for the API server already") == 1
        proxied._recorder.discard()

    @pytest.mark.parametrize(
        ("wrong", "why"),
        [
            ({"about": {}}, "no apiVersion or kind"),
            ({"about": None}, "a NoneType"),
            ({"about": POD | {"metadata": {}}}, "no metadata.name"),
            ({"type": "Error"}, "bad type 'Error'"),
            ({"type": ["Normal"]}, "unhashable"),
            ({"reason": ""}, "Give a reason and a message"),
            ({"message": 5}, "Give a reason and a message"),
        ],
    )
    def test_a_bad_event_is_dropped_and_logged(
        self,
        client: Client,
        wrong: dict[str, Any],
        why: str,
        drops: Count,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """Not even a mistake in it fails a reconcile."""
        client.event(**{"about": POD, "reason": "Synced", "message": "well", **wrong})
        assert client.flush_events(IN_TIME)
        assert drops("invalid") == 1
        assert why in caplog.text


class TestFinding:
    """An object that is looked for when its event is sent."""

    def test_it_is_found_by_the_thread_that_sends(self, scene: Scene) -> None:
        """So a request for it costs the caller nothing."""
        scene.client.event(scene.find, "Synced", "well")
        assert scene.client.flush_events(IN_TIME)
        (event,) = scene.events()
        assert event["involvedObject"]["uid"] == scene.about["metadata"]["uid"]

    def test_there_is_no_event_about_an_object_that_is_gone(self, scene: Scene, drops: Count) -> None:
        """It would not be found."""
        scene.client.event(lambda: scene.find("none"), "Synced", "well")
        assert scene.client.flush_events(IN_TIME)
        assert scene.events() == []
        assert drops("refused") == 0

    @pytest.mark.parametrize("error", [KeyError("a mistake"), SystemExit(1)], ids=repr)
    def test_an_error_in_finding_it_drops_the_event_alone(
        self, scene: Scene, drops: Count, error: BaseException
    ) -> None:
        """The thread goes on with the next."""

        def find() -> Object | None:
            raise error

        scene.client.event(find, "Synced", "well")
        scene.client.event(scene.about, "Synced", "well")
        assert scene.client.flush_events(IN_TIME)
        assert len(scene.events()) == 1
        assert drops("refused") == 1


def test_a_provider_that_fails_costs_neither_the_work_nor_other_events(
    scene: Scene, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Metrics are the program's own: their exceptions are logged."""

    def fail(*_: object) -> None:
        raise OSError("no space left")

    metrics = RecordedMetrics()
    ended = recorder.count_with(metrics)
    monkeypatch.setattr(metrics, "count", fail)
    try:
        scene.client.event({}, "Synced", "about nothing")
        scene.client.event(dict, "Synced", "nor this")
        scene.client.event(scene.about, "Synced", "well")
        assert scene.client.flush_events(IN_TIME)
    finally:
        ended()
    assert [event["message"] for event in scene.events()] == ["well"]
    assert caplog.text.count("RecordedMetrics raised an error") == 1


def test_a_program_that_ends_sends_its_recorded_events(scene: Scene) -> None:
    """The thread alone would end with it."""
    program = (
        "from distq import Client\n"
        "client = Client()\n"
        f"about = client.get('v1/ConfigMap', '{scene.namespace}/web')\n"
        "client.event(about, 'Synced', 'as the last thing')\n"
    )
    environment = {**os.environ, "KUBECONFIG": str(scene.server.kubeconfig)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=IN_TIME)
    assert [event["message"] for event in scene.events()] == ["as the last thing"]


def test_the_child_of_a_fork_sends_its_own_events(scene: Scene, proxy: TcpProxy, tmp_path: Path) -> None:
    """Events that its parent recorded, and could not send yet, are the parent's."""
    kubeconfig = kubeconfig_through(scene.server, proxy.port, tmp_path / "kubeconfig")
    proxy.mode = "hang"
    program = (
        "import json, os, sys\n"
        "from distq import Client\n"
        f"client = Client({str(kubeconfig)!r})\n"
        f"about = json.loads({json.dumps(scene.about)!r})\n"
        "client.event(about, 'Parent', 'waits')\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    assert not client._recorder._waiting\n"
        f"    client._kubeconfig = {str(scene.server.kubeconfig)!r}\n"
        "    assert client.flush_events(0)\n"
        "    client.event(about, 'Child', 'goes on')\n"
        f"    os._exit(0 if client.flush_events({IN_TIME}) else 1)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=2 * IN_TIME)
    assert [event["reason"] for event in scene.events()] == ["Child"]


def test_events_of_another_cluster_are_like_none_before(scene: Scene, clock: FakeClock) -> None:
    """A Client without arguments follows KUBECONFIG, so a count must not go with it."""

    class Moving:
        server = "https://one"

        def create(self, obj: Object) -> Object:
            return scene.client.create(obj)

        def patch(self, resource: str, key: str, patch: Any) -> Object:
            return scene.client.patch(resource, key, patch)

    sink = Moving()
    events = EventRecorder(sink, "tester", clock)
    for server in ("https://one", "https://one", "https://two"):
        sink.server = server
        events.record(scene.about, "Synced", "well", type="Normal")
        assert events.flush(IN_TIME) == 0
    assert [event["count"] for event in scene.events()] == [2, 1]


def test_a_server_that_asks_for_patience_gets_it(scene: Scene, clock: FakeClock) -> None:
    """An answer with a time to wait is no refusal."""
    answers: list[ApiError | None] = [ApiError("busy", status=503, retry_after=0.0), None]
    sent: list[Object] = []

    class Busy:
        server = "https://busy"

        def create(self, obj: Object) -> Object:
            if (error := answers.pop(0)) is not None:
                raise error
            sent.append(obj)
            return obj

        def patch(self, resource: str, key: str, patch: Any) -> Object:
            raise AssertionError(resource, key, patch)

    events = EventRecorder(Busy(), "tester", clock)
    events.record(scene.about, "Synced", "well", type="Normal")
    assert events.flush(IN_TIME) == 0
    assert [event["reason"] for event in sent] == ["Synced"]


def test_a_server_that_asks_for_hours_is_asked_again_sooner(
    scene: Scene, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a time is a proxy's mistake, and all other events wait behind this one."""
    monkeypatch.setattr(recorder, "LONGEST_RETRY_AFTER", 0.01)
    answers: list[ApiError | None] = [ApiError("busy", status=503, retry_after=86_400.0), None]

    class Busy:
        server = "https://busy"

        def create(self, obj: Object) -> Object:
            if (error := answers.pop(0)) is not None:
                raise error
            return obj

        def patch(self, resource: str, key: str, patch: Any) -> Object:
            raise AssertionError(resource, key, patch)

    events = EventRecorder(Busy(), "tester", clock)
    events.record(scene.about, "Synced", "well", type="Normal")
    eventually(lambda: not answers)
    assert events.flush(IN_TIME) == 0


def test_ctrl_c_while_an_event_is_recorded_blocks_no_other_event() -> None:
    """Wherever it comes as the lock is taken, others record, and the end of the process waits for none."""
    recording = EventRecorder(Client(), "tests")

    def interrupt(frame: FrameType, event: str, _: object) -> Any:
        if event == "return" and frame.f_code.co_name == "__enter__":
            raise KeyboardInterrupt
        return interrupt

    before = sys.gettrace()
    with contextlib.suppress(KeyboardInterrupt):
        sys.settrace(interrupt)
        try:
            recording.record(POD, "Happened", "one", type="Normal")
        finally:
            sys.settrace(before)
    others = threading.Thread(target=lambda: recording.flush(0), daemon=True)
    others.start()
    others.join(10)
    assert not others.is_alive()
