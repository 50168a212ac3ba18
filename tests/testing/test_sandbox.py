"""The Sandbox runs controllers until nothing is left to do, and says what was left where it cannot."""

import asyncio
import os
import re
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from distq.client.resources import Resource
from distq.controller.controller import Controller
from distq.controller.manager import Manager
from distq.controller.watches import For, Watch, Watches
from distq.errors import ConfigError, NotFound, ReconcileFailed, RetryAfter, TerminalError
from distq.informer import listwatch, wire
from distq.informer.wire import WatchEvent
from distq.inspector import Inspector
from distq.leaderelection.elector import LeaderElector
from distq.testing.sandbox import Sandbox
from distq.workqueue.interface import Result
from distq.workqueue.queue import Queue
from distq.workqueue.rate_limiters import ItemExponentialFailureRateLimiter
from distq.workqueue.request import Request
from tests.support.api_servers import real_api_server_assets
from tests.support.samples import FOO_DEFINITION

MANIFEST = """
apiVersion: v1
kind: ConfigMap
metadata: {name: web, namespace: default, labels: {app: mine}}
data: {color: red}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: other, namespace: default}
"""
WATCH = For("v1/ConfigMap", label_selector="app=mine")


@pytest.fixture(scope="module", params=["emulated", pytest.param("kube-apiserver", marks=pytest.mark.slow)])
def sandbox(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """Start one sandbox for all tests here, of each server, with two objects."""
    if request.param == "kube-apiserver":
        real_api_server_assets()
    manifest = tmp_path_factory.mktemp("manifests") / "maps.yaml"
    manifest.write_text(MANIFEST)
    with Sandbox(manifests=[manifest], server=request.param) as sandbox:
        yield sandbox


def test_present_objects_and_later_events_are_reconciled(sandbox: Sandbox) -> None:
    """Events that a reconcile itself causes are waited for, too."""
    seen: list[str] = []

    def copy(request: Request) -> None:
        source = sandbox.client.get("v1/ConfigMap", request.key)
        seen.append(request.name)
        if source is None or request.name.count("-") == 2:
            return
        metadata = {"namespace": "default", "name": f"{request.name}-copy", "labels": {"app": "mine"}}
        sandbox.client.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})

    sandbox.run_until_idle(Controller("copies", copy, watches=[WATCH]))
    assert {"web", "web-copy", "web-copy-copy"} <= set(seen)
    assert "other" not in seen


def test_a_second_run_sees_the_changes_between(sandbox: Sandbox) -> None:
    """Also a deletion, which no list would show."""
    seen: list[str] = []
    controller = Controller("between", lambda request: seen.append(request.key), watches=[WATCH])
    sandbox.client.create(_map("short-lived"))
    sandbox.run_until_idle(controller)
    seen.clear()
    sandbox.client.delete("v1/ConfigMap", "default/short-lived")
    sandbox.run_until_idle(controller)
    assert seen == ["default/short-lived"]


def test_a_deletion_that_comes_late_is_waited_for(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """No list shows it: an object that was handed over and no longer exists has a deletion on its way."""
    seen: list[tuple[str, bool]] = []

    def look(request: Request) -> None:
        seen.append((request.name, sandbox.client.get("v1/ConfigMap", request.key) is not None))
        if seen[-1] == ("late", True):
            sandbox.client.delete("v1/ConfigMap", request.key)

    decode = wire.decode_event

    def late(line: bytes, resource: Resource) -> WatchEvent:
        if b'"DELETED"' in line[:30] and b'"late"' in line:
            time.sleep(1)
        return decode(line, resource)

    monkeypatch.setattr(listwatch, "decode_event", late)
    sandbox.client.create(_map("late"))
    sandbox.run_until_idle(Controller("late", look, watches=[WATCH]))
    assert [each for each in seen if each[0] == "late"] == [("late", True), ("late", False)]


def test_an_object_that_another_watch_of_the_resource_knows_is_not_gone(sandbox: Sandbox) -> None:
    """Each watch is compared with the objects that it selects: `other` bears no label, and is there."""
    seen: list[str] = []
    watches: list[Watch] = [WATCH, Watches("v1/ConfigMap", lambda obj: [f"all/{obj['metadata']['name']}"])]
    sandbox.run_until_idle(Controller("twice", lambda each: seen.append(each.key), watches=watches))
    assert {"default/web", "all/web", "all/other"} <= set(seen)


def test_each_watch_of_a_resource_is_waited_for(sandbox: Sandbox) -> None:
    """One has handed over the newest version, the other one still looks for its keys."""
    seen: list[str] = []

    def slow(obj: dict[str, Any]) -> list[str]:
        time.sleep(1)
        return [f"slow/{obj['metadata']['name']}"]

    watches: list[Watch] = [WATCH, Watches("v1/ConfigMap", slow, field_selector="metadata.name=web")]
    sandbox.run_until_idle(Controller("slow", lambda each: seen.append(each.key), watches=watches))
    assert "slow/web" in seen


def test_retries_are_waited_for_and_requeue_after_is_not(sandbox: Sandbox) -> None:
    """A failing reconcile is unfinished work; one that asked to come back later is finished."""
    attempts: list[int] = []

    def reconcile(request: Request) -> Result:
        attempts.append(request.attempt)
        if request.attempt < 3:
            raise RuntimeError("not yet")
        return Result(requeue_after=3600)

    sandbox.client.apply(_map("retried", app="retries"))
    watch = For("v1/ConfigMap", label_selector="app=retries")
    sandbox.run_until_idle(Controller("retries", reconcile, watches=[watch]), on_failure="retry")
    assert attempts == [1, 2, 3]
    assert Inspector(sandbox.redis).queues("retries")[0].delayed == 1


def test_an_object_that_a_predicate_fails_on_ends_it(sandbox: Sandbox) -> None:
    """It is dead, and would be overlooked; where failures belong to the test it stays so."""
    sandbox.client.apply(_map("no-spec", app="no-spec"))
    watch = For("v1/ConfigMap", label_selector="app=no-spec", predicates=lambda event: event.object["spec"])
    controller = Controller("no-spec", print, watches=[watch])
    with pytest.raises(ReconcileFailed, match=r"default/no-spec is dead: .*KeyError: 'spec'") as raised:
        sandbox.run_until_idle(controller, timeout=600)
    assert "<lambda>" in raised.value.__notes__[0]
    again = Controller("no-spec-again", print, watches=[watch])
    sandbox.run_until_idle(again, timeout=600, on_failure="retry")
    assert [item.key for item in Inspector(sandbox.redis).items("no-spec-again")] == ["default/no-spec"]


@pytest.mark.first_contact(19)
@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.parametrize("error", [KeyError("spec"), RetryAfter(600), TerminalError("no"), SystemExit(3)])
def test_a_reconcile_that_fails_ends_it_at_once_with_its_own_error(
    sandbox: Sandbox, kind: str, error: BaseException
) -> None:
    """Any kind of failure, dead or delayed; the traceback shows the line that raised it."""

    def reconcile(request: Request) -> None:
        raise error

    async def reconcile_async(request: Request) -> None:
        raise error

    name = f"at-once-{kind}-{type(error).__name__}"
    sandbox.client.apply(_map(name.lower(), app=name))
    watch = For("v1/ConfigMap", label_selector=f"app={name}")
    controller = Controller(name, reconcile if kind == "plain" else reconcile_async, watches=[watch])
    with pytest.raises(ReconcileFailed) as caught:
        sandbox.run_until_idle(controller, timeout=600)
    failed = caught.value
    assert failed.__cause__ is error
    assert traceback.extract_tb(error.__traceback__)[-1].line == "raise error"
    assert (failed.queue, failed.key, failed.attempt) == (name, f"default/{name.lower()}", 1)
    shown = re.escape(f"{name} default/{name.lower()} attempt 1 failed: {type(error).__name__}")
    assert re.fullmatch(rf'{shown}.*\. Fix its .* allow failures: on_failure="retry"\.', str(failed))


def test_a_reconcile_that_takes_too_long_fails_by_its_timeout(sandbox: Sandbox) -> None:
    """It is a failure nevertheless, although no function raised it."""

    async def sleep(request: Request) -> None:
        await asyncio.sleep(600)

    queue = Queue("sleeps", sandbox.redis)
    queue.add("a")
    with pytest.raises(ReconcileFailed, match="sleeps a attempt 1 failed: TimeoutError") as caught:
        sandbox.run_until_idle(Controller(queue, sleep, reconciliation_timeout=0.05))
    assert isinstance(caught.value.__cause__, TimeoutError)


def test_no_reconcile_begins_after_the_failure_that_ends_the_run(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if its next attempt is due soon, and the end takes long."""
    stop = Manager.stop
    monkeypatch.setattr(Manager, "stop", lambda manager: threading.Timer(0.2, stop, [manager]).start())
    attempts: list[int] = []

    def reconcile(request: Request) -> None:
        attempts.append(request.attempt)
        raise RuntimeError("once")

    queue = Queue("once", sandbox.redis, rate_limiter=ItemExponentialFailureRateLimiter(base_delay=1e-6))
    queue.add("a")
    with pytest.raises(ReconcileFailed):
        sandbox.run_until_idle(Controller(queue, reconcile))
    assert attempts == [1]


def test_an_item_may_fail_as_often_as_is_allowed(sandbox: Sandbox) -> None:
    """Each by itself; one more failure ends it, with the last error."""
    attempts: list[tuple[str, int]] = []

    def reconcile(request: Request) -> None:
        attempts.append((request.key, request.attempt))
        if request.attempt < 4:
            raise RuntimeError(f"{request.key} for the {request.attempt}. time")

    queue = Queue("allowed", sandbox.redis)
    controller = Controller(queue, reconcile, concurrency=1)
    queue.add("a", "b")
    sandbox.run_until_idle(controller, on_failure="retry", max_failures=3)
    assert sorted(attempts) == [(key, attempt) for key in "ab" for attempt in (1, 2, 3, 4)]
    queue.add("c")
    with pytest.raises(ReconcileFailed, match="allowed c attempt 3 failed") as caught:
        sandbox.run_until_idle(controller, on_failure="retry", max_failures=2)
    assert str(caught.value.__cause__) == "c for the 3. time"
    assert str(caught.value).endswith("or allow more: max_failures.")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"on_failure": "ignore"}, "bad on_failure: 'ignore'"),
        ({"max_failures": 3}, "max_failures without retries"),
        ({"on_failure": "retry", "max_failures": -1}, "bad max_failures: -1"),
        ({"on_failure": "retry", "max_failures": 1.5}, "bad max_failures: 1.5"),
    ],
)
def test_the_option_for_failures_must_be_known(
    sandbox: Sandbox, arguments: dict[str, Any], message: str
) -> None:
    """It is refused before anything runs."""
    with pytest.raises(ConfigError, match=message):
        sandbox.run_until_idle(Controller("refused", print), **arguments)


def time_runs_out(monkeypatch: pytest.MonkeyPatch, once: Callable[[], object]) -> None:
    """Let the deadline be over a few looks after a condition holds, and never before that."""
    looks = 0

    def monotonic() -> float:
        nonlocal looks
        looks += bool(once())
        return 1e9 if looks > 5 else 0.0

    monkeypatch.setattr("distq.testing.sandbox.time", SimpleNamespace(monotonic=monotonic))
    monkeypatch.setattr("distq.testing.sandbox.GRACE_PERIOD", 0.1)


def test_an_item_that_never_ends_is_reported_with_its_last_error(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timeout names key, state, due time and failures, and has the reconcile's exception as its cause."""

    def fail(request: Request) -> None:
        raise RetryAfter(3600, f"no luck with {request.name}")

    sandbox.client.apply(_map("hopeless", app="hopeless"))
    controller = Controller("hopeless", fail, watches=[For("v1/ConfigMap", label_selector="app=hopeless")])
    inspector = Inspector(sandbox.redis)
    time_runs_out(monkeypatch, lambda: inspector.items("hopeless", state="delayed"))
    with pytest.raises(TimeoutError) as caught:
        sandbox.run_until_idle(controller, timeout=5.0, on_failure="retry")
    pattern = (
        r"not idle after 5 s: default/hopeless of hopeless is delayed and due in (59m|1h)\S+ "
        r"after it failed 1 time: RetryAfter: no luck with hopeless\."
    )
    assert re.fullmatch(pattern, str(caught.value))
    assert str(caught.value.__cause__) == "no luck with hopeless"


def test_items_that_hang_or_wait_are_reported_by_key_and_state(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing failed there, so the states are all there is to say; no test waits for what hangs."""
    began, go = threading.Event(), threading.Event()

    def hang(request: Request) -> None:
        began.set()
        go.wait(600)

    queue = Queue("hangs", sandbox.redis)
    queue.add("a", "b", "c", "d", "e", "f")
    time_runs_out(monkeypatch, began.is_set)
    with pytest.raises(TimeoutError) as caught:
        sandbox.run_until_idle(Controller(queue, hang, concurrency=1), timeout=5.0)
    go.set()
    pattern = (
        r"not idle after 5 s: a of hangs is processing for .*; b of hangs is ready for .*; "
        r"c of hangs is ready for .*; d of hangs is ready for .*; 2 more of hangs ready\."
    )
    assert re.fullmatch(pattern, str(caught.value))


def test_a_paused_queue_is_reported(sandbox: Sandbox) -> None:
    """Its items would wait for ever."""
    queue = Queue("halted", sandbox.redis)
    queue.add("a")
    Inspector(sandbox.redis).pause("halted")
    with pytest.raises(TimeoutError, match=r"halted is paused; a of halted is ready for"):
        sandbox.run_until_idle(Controller(queue, print), timeout=0.5)


def test_hooks_run_and_the_error_of_the_run_itself_is_raised(sandbox: Sandbox) -> None:
    """As under a Manager: before the first reconcile and after the last one."""
    seen: list[str] = []
    queue = Queue("hooked", sandbox.redis)
    queue.add("a")
    controller = Controller(queue, lambda request: seen.append(request.key))

    async def start() -> None:
        seen.append("start")

    sandbox.run_until_idle(controller, on_start=start, on_stop=lambda: seen.append("stop"))
    assert seen == ["start", "a", "stop"]

    def refuse() -> None:
        raise OSError("no such bucket")

    with pytest.raises(OSError, match="no such bucket"):
        sandbox.run_until_idle(controller, on_start=refuse)


def test_a_run_ends_when_its_lease_is_released_also_late(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process is given a time to close; to a test it would mean that a slow machine fails it."""
    monkeypatch.setattr("distq.controller.shutdown.CLOSING_TIME", 0.0)
    seen: list[str] = []
    sandbox.run_until_idle(Controller("closing", lambda each: seen.append(each.key), watches=[WATCH]))
    assert "default/web" in seen
    lease = sandbox.client.get("coordination.k8s.io/v1/Lease", "default/distq-sandbox")
    assert lease is not None
    assert not lease["spec"].get("holderIdentity")


def test_reconciles_begin_when_caches_are_in_step_also_after_a_long_election(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Items that are pending as a run begins would else be reconciled with the cache of the run before."""
    queue, seen = Queue("family", sandbox.redis), list[int]()

    def count(_: Request) -> None:
        seen.append(len(controller.lister("v1/Secret").list()))

    controller = Controller(
        queue,
        count,
        watches=[
            For("v1/ConfigMap", label_selector="app=parent", cached=True),
            Watches("v1/Secret", lambda _: [], cached=True),
        ],
    )
    sandbox.client.create(_map("parent", app="parent"))
    sandbox.run_until_idle(controller)
    sandbox.client.create({**_map("child"), "kind": "Secret"})
    queue.add("default/parent")
    acquire = LeaderElector._acquire

    def acquire_late(elector: LeaderElector, stop: threading.Event) -> bool:
        time.sleep(0.5)
        return acquire(elector, stop)

    monkeypatch.setattr(LeaderElector, "_acquire", acquire_late)
    monkeypatch.setattr(Manager, "_term_begins_within", 0.0)
    sandbox.run_until_idle(controller)
    assert seen == [0, 1]


def test_a_failure_is_not_hidden_by_the_end_of_its_run(sandbox: Sandbox) -> None:
    """An error of on_stop beside it is a note."""

    def fail(request: Request) -> None:
        raise KeyError("spec")

    def refuse() -> None:
        raise OSError("cannot flush")

    queue = Queue("noted", sandbox.redis)
    queue.add("a")
    with pytest.raises(ReconcileFailed) as caught:
        sandbox.run_until_idle(Controller(queue, fail), on_stop=refuse)
    assert caught.value.__notes__ == ["The run itself ended with OSError('cannot flush')."]


def test_a_worker_without_watches_runs_too(sandbox: Sandbox) -> None:
    """Keys may come from anywhere."""
    seen: list[str] = []
    queue = Queue("plain", sandbox.redis)
    controller = Controller(queue, lambda request: seen.append(request.key))
    queue.add("a", "b")
    sandbox.run_until_idle(controller)
    assert sorted(seen) == ["a", "b"]


def test_apply_takes_paths_texts_and_objects(sandbox: Sandbox, tmp_path: Path) -> None:
    """Present objects are changed, objects without a namespace go to default, new kinds are known at once."""
    path = tmp_path / "crd.yaml"
    path.write_text(FOO_DEFINITION)
    foo = {
        "apiVersion": "example.com/v1",
        "kind": "Foo",
        "metadata": {"name": "web"},
        "spec": {"replicas": 1},
    }
    named = sandbox.apply(path, str(path), "\n" + MANIFEST.replace("red", "blue"), foo)
    assert [obj["metadata"]["name"] for obj in named] == ["foos.example.com"] * 2 + ["web", "other", "web"]
    assert sandbox.client.get("v1/ConfigMap", "default/web") == named[2]
    assert named[2]["data"] == {"color": "blue"}
    (changed,) = sandbox.apply({**foo, "spec": {"replicas": 2}})
    assert changed["spec"] == {"replicas": 2}
    assert "namespace" not in foo["metadata"]


def test_apply_leaves_the_fields_of_controllers_to_them(sandbox: Sandbox) -> None:
    """Server-side apply removes what the same manager leaves out, and a test is none of the controllers."""
    sandbox.apply(_map("shared"))
    sandbox.client.apply({**_map("shared"), "data": {"by": "a controller"}})
    (shared,) = sandbox.apply(_map("shared"))
    assert shared["data"] == {"by": "a controller"}


def test_a_manifest_that_cannot_be_applied_has_its_place(sandbox: Sandbox) -> None:
    """And nothing of it is applied where a manifest is none at all."""
    with pytest.raises(ConfigError, match=r"manifest:3:1: an object without apiVersion and metadata"):
        sandbox.apply(_map("unborn"), "\n---\nkind: Foo\n")
    assert sandbox.client.get("v1/ConfigMap", "default/unborn") is None
    with pytest.raises(ConfigError, match="manifest: an object without kind"):
        sandbox.apply({"apiVersion": "v1", "metadata": {"name": "web"}})
    with pytest.raises(NotFound, match=r"example\.com/v1/Unborn") as caught:
        sandbox.apply("\napiVersion: example.com/v1\nkind: Unborn\nmetadata: {name: web}\n")
    assert caught.value.__notes__ == ["applied from manifest:2:1"]


def test_a_missing_manifest_is_reported_before_anything_starts(tmp_path: Path) -> None:
    """The path is checked first."""
    with pytest.raises(ConfigError, match="no manifest"), Sandbox(manifests=[tmp_path / "no.yaml"]):
        pass


def test_a_queue_without_a_connection_is_in_the_sandbox_of_its_time() -> None:
    """Each module of a project's tests has a sandbox of its own, one after the other in a process."""
    for _ in range(2):
        with Sandbox() as inside:
            Queue("foos").add("a")
            assert Inspector(inside.redis).item("foos", "a") is not None


def test_the_environment_is_as_before_afterwards() -> None:
    """Inside, Clients and Queues find the sandbox; outside, nothing remains of it."""
    before = dict(os.environ)
    with Sandbox() as inside:
        assert os.environ["KUBECONFIG"] == inside.environment["KUBECONFIG"]
    assert dict(os.environ) == before


def _map(name: str, app: str = "mine") -> dict[str, object]:
    metadata = {"namespace": "default", "name": name, "labels": {"app": app}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def test_a_server_that_there_is_not_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By its name, or with where its programs were looked for."""
    with pytest.raises(ConfigError, match="bad server"):
        Sandbox(server="minikube")  # type: ignore[arg-type]  # a value that a user may try
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(ConfigError, match="KUBEBUILDER_ASSETS"), Sandbox(server="kube-apiserver"):
        pass


def test_a_definition_is_served_when_it_is_applied(sandbox: Sandbox) -> None:
    """So that its objects can follow it in one manifest."""
    sandbox.apply(FOO_DEFINITION.replace("Foo", "Bar").replace("foo", "bar"))
    bar = {"apiVersion": "example.com/v1", "kind": "Bar", "metadata": {"name": "web"}}
    assert sandbox.apply(bar)[0]["metadata"]["namespace"] == "default"
