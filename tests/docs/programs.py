"""What runs the programs and tests that the pages show."""

import contextlib
import io
import json
import os
import re
import runpy
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from distq import Controller, Manager, Queue, Request, key_of, set_controller_reference
from distq.config import Settings
from distq.errors import Conflict, TooManyRequests
from distq.inspector import Inspector
from tests.docs.pages import ROOT
from tests.docs.reader import TIMEOUT, Reader, line_of, runs
from tests.support import signalled_thread
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.samples import custom_resource

_SIGNALLED_THREAD = ("env", f"PYTHONPATH={ROOT}", *signalled_thread.COMMAND)

WITHOUT_SERVERS = ("test_leading.py", "test_pods.py", "test_thumbs.py", "test_worker.py")
"""Tests that need neither Redis nor a cluster."""


@runs("# foos.py")
def the_controller_works(text: str, reader: Reader) -> None:
    """Run it until its Foo has a Deployment, and again until that follows a change."""
    client = reader.sandbox.client
    controller: Controller = runpy.run_path(str(reader.folder / "foos.py"))["controller"]
    reader.sandbox.run_until_idle(controller)
    deployment = client.get("apps/v1/Deployment", "default/web")
    assert deployment is not None
    assert deployment["metadata"]["ownerReferences"][0]["name"] == "web"
    client.patch("example.com/v1/Foo", "default/web", {"spec": {"replicas": 3}})
    reader.sandbox.run_until_idle(controller)
    changed = client.get("apps/v1/Deployment", "default/web")
    assert changed is not None
    assert changed["spec"]["replicas"] == 3


@runs("# test_foos.py")
def the_users_test_passes(text: str, reader: Reader) -> None:
    """Run the test as its author would."""
    reader.test("test_foos.py")


@runs("# test_certificates.py")
def the_kinds_that_a_test_names_are_served(text: str, reader: Reader) -> None:
    """Run the test as its author would."""
    reader.test("test_certificates.py")


@runs("# conftest.py")
def the_users_own_sandbox_is_taken(text: str, reader: Reader) -> None:
    """Run a test with it; tests/testing/test_sandbox.py has the real server."""
    reader.test("test_foos.py")


@runs("# thumbs.py", "# producer.py")
def the_plain_worker_works(text: str, reader: Reader) -> None:
    """Let ``distq worker thumbs`` render what the producer adds, and end it by SIGTERM."""
    with reader.started("distq", "worker", "thumbs") as worker:
        reader.run(sys.executable, "producer.py")
        assert line_of(worker) == "rendering cat.jpg\n"
        worker.terminate()
        worker.communicate(timeout=TIMEOUT)
        assert worker.returncode == 0


@runs("# import_foos.py")
def the_buffered_adds_arrive(text: str, reader: Reader) -> None:
    """Run it, and look for the keys."""
    reader.run(sys.executable, "import_foos.py")
    assert Queue("imported", reader.sandbox.redis).depth() == 2


@runs("# traced.py")
def the_reconcile_is_printed(text: str, reader: Reader) -> None:
    """Let ``distq worker traced`` reconcile an item, end it, and read its spans from what it printed."""
    Queue("traced", reader.sandbox.redis).add("a")
    with reader.started("distq", "worker", "traced") as worker:
        eventually(lambda: not Inspector(reader.sandbox.redis).item("traced", "a"))
        worker.terminate()
        printed, _ = worker.communicate(timeout=TIMEOUT)
    spans = {span["name"]: span for span in json_objects(printed)}
    assert spans["render"]["parent_id"] == spans["reconcile traced"]["context"]["span_id"]
    assert spans["reconcile traced"]["attributes"]["distq.outcome"] == "success"
    assert "turn traced" in spans


def json_objects(text: str) -> Iterator[Any]:
    """Yield the objects that a text is made of."""
    decoder, text = json.JSONDecoder(), text.lstrip()
    while text:
        found, end = decoder.raw_decode(text)
        yield found
        text = text[end:].lstrip()


@runs("# loop.py")
def the_loop_works(text: str, reader: Reader) -> None:
    """Run it in several threads until a failure is counted, then shut them down."""
    synced: list[str] = []

    def sync(key: str) -> None:
        synced.append(key)
        if key == "bad":
            raise ValueError("no")

    program = runpy.run_path(str(reader.folder / "loop.py"), {"sync": sync})
    queue = Queue("loop", reader.sandbox.redis)
    program["run_worker"].__globals__["queue"] = queue
    threads = [threading.Thread(target=program["run_worker"]) for _ in range(3)]
    for thread in threads:
        thread.start()
    queue.add("a", "b", "bad")
    eventually(lambda: {"a", "b"} <= set(synced) and queue.num_requeues("bad") > 1)
    queue.shut_down()
    for thread in threads:
        thread.join(TIMEOUT)
    assert queue.shut_down_with_drain(0)


@runs("# orders.py")
def the_limiter_decides(text: str, reader: Reader) -> None:
    """Fail with each kind of error; look when the items come back, and what the 21st failure does."""
    program = runpy.run_path(str(reader.folder / "orders.py"))
    queue = program["controller"].queue
    queue.bind(reader.sandbox.redis)
    queue.add("timeout", "conflict", "busy", "asked", "other")
    errors = {
        "timeout": (TimeoutError(), 0.1),
        "conflict": (Conflict("changed"), 1.0),
        "busy": (TooManyRequests("slow down"), 5.0),
        "asked": (TooManyRequests("slow down", retry_after=60), 60.0),
        "other": (ValueError("bad"), 0.005),
    }
    inspector = Inspector(reader.sandbox.redis)
    for request in [queue.get(TIMEOUT) for _ in errors]:
        error, delay = errors[request.key]
        queue.settle(request, error)
        item = inspector.item("orders", request.key)
        assert item is not None
        assert item.due is not None
        assert item.due == pytest.approx((item.last_error_at or 0) + delay, abs=0.001)
    for _ in range(19):
        queue.add_rate_limited("asked")
    queue.add("asked")
    while (request := queue.get(TIMEOUT)).key != "asked":
        queue.settle(request)
    assert request.attempt == 21
    queue.settle(request, errors["asked"][0])
    queue.close()
    item = inspector.item("orders", "asked")
    assert item is not None
    assert (item.state, item.last_error) == ("dead", "TooManyRequests: slow down")


@runs("# pods.py")
def the_cache_fills(text: str, reader: Reader) -> None:
    """Run it with a Pod there, and look at what it prints; without a cluster it fails."""
    done = subprocess.run(
        [sys.executable, "pods.py"],
        cwd=reader.folder,
        env=reader.bare,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 1
    assert "no cluster: KUBECONFIG unset" in done.stderr
    spec = {"containers": [{"name": "web", "image": "nginx"}], "nodeName": "node-1"}
    metadata = {"name": "web", "namespace": "default", "labels": {"app": "web"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    for other in reader.sandbox.client.list("v1/Pod"):  # of blocks that this process ran before
        reader.sandbox.client.delete("v1/Pod", key_of(other), grace_period=0)
    reader.sandbox.client.create(pod)
    with reader.started(*_SIGNALLED_THREAD, "pods") as informer:
        printed = line_of(informer) + line_of(informer)  # by two threads, whose letters may mix
        assert sorted(printed) == sorted("new: web\non node-1: ['web']\n"), printed
        reader.sandbox.client.delete("v1/Pod", "default/web", grace_period=0)
        assert line_of(informer) == "gone: web\n"
        informer.send_signal(signal.SIGUSR1)
        assert informer.communicate(timeout=TIMEOUT)[0] == ""
        assert informer.returncode == 0


@runs("# janitor.py")
def the_janitor_leads(text: str, reader: Reader) -> None:
    """Run it until it leads, look for its lease, and stop it."""
    with reader.started(sys.executable, "janitor.py") as janitor:
        assert line_of(janitor).startswith("leading in term ")
        lease = reader.sandbox.client.get("coordination.k8s.io/v1/Lease", "default/janitor")
        assert lease is not None
        assert lease["spec"]["holderIdentity"]
        janitor.terminate()
        assert janitor.communicate(timeout=TIMEOUT)[0].endswith("over\n")
        assert janitor.returncode == 0
    released = reader.sandbox.client.get("coordination.k8s.io/v1/Lease", "default/janitor")
    assert released is not None
    assert not released["spec"]["holderIdentity"]


@runs("# both.py")
def both_locks_are_taken(text: str, reader: Reader) -> None:
    """Let an elector lead with it, and look for both records."""
    program = (
        text
        + """
import threading
from distq.leaderelection import LeaderElectionConfig, LeaderElector
stop = threading.Event()
LeaderElector(LeaderElectionConfig(
    lock=lock, on_started_leading=lambda over: stop.set(), on_stopped_leading=lambda: None,
    release_on_cancel=False,
)).run(stop)
"""
    )
    client = reader.sandbox.client
    client.delete("coordination.k8s.io/v1/Lease", "default/janitor")
    reader.run(sys.executable, "-c", program)
    lease = client.get("coordination.k8s.io/v1/Lease", "default/janitor")
    annotated = client.get("v1/ConfigMap", "default/janitor")
    assert lease is not None
    assert annotated is not None
    record = json.loads(annotated["metadata"]["annotations"]["control-plane.alpha.kubernetes.io/leader"])
    assert record["holderIdentity"] == lease["spec"]["holderIdentity"] == os.uname().nodename


@runs("# main.py")
def the_manager_runs(text: str, reader: Reader) -> None:
    """Run it until the Foo has its Deployment again, and end it by SIGTERM."""
    client = reader.sandbox.client
    with reader.started(sys.executable, "main.py") as manager:
        eventually(lambda: client.get("apps/v1/Deployment", "default/web"))
        client.delete("apps/v1/Deployment", "default/web")
        eventually(lambda: client.get("apps/v1/Deployment", "default/web"))
        manager.terminate()
        manager.communicate(timeout=TIMEOUT)
        assert manager.returncode == 0


@runs("# shared_session.py")
def one_session_serves_all_controllers(text: str, reader: Reader) -> None:
    """Run it beside the API that it asks, until that was asked for both queues; then end it by SIGTERM."""
    asked: list[str] = []

    class Api(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(b'{"state": "done"}')

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Api) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"EXPORTS_URL=http://127.0.0.1:{server.server_port}"
        with reader.started("env", address, sys.executable, "shared_session.py") as manager:
            for queue in ("nightly", "weekly"):
                reader.run("distq", "add", queue, f"of-{queue}")
            eventually(lambda: {"/of-nightly", "/of-weekly"} <= set(asked))
            manager.terminate()
            manager.communicate(timeout=TIMEOUT)
            assert manager.returncode == 0
        server.shutdown()
    inspector = Inspector(reader.sandbox.redis)
    assert [item for queue in ("nightly", "weekly") for item in inspector.items(queue)] == []


@runs("# exports.py")
def each_outcome_has_its_effect(text: str, reader: Reader) -> None:
    """Run it on a key of each state, and look what became of the items."""
    controller: Controller = runpy.run_path(str(reader.folder / "exports.py"))["controller"]
    manager = Manager([controller], redis=reader.sandbox.redis, settings=Settings())
    inspector = Inspector(reader.sandbox.redis)
    thread = threading.Thread(target=manager.run)
    thread.start()
    try:
        controller.queue.add("a", "b", "c", "d")
        eventually(lambda: {item.state for item in inspector.items("exports")} == {"delayed", "dead"})
    finally:
        manager.stop()
        thread.join(TIMEOUT)
    assert inspector.item("exports", "d") is None
    left = {item.key: (item.state, item.last_error) for item in inspector.items("exports")}
    assert left == {
        "a": ("delayed", None),
        "b": ("delayed", "RetryAfter: the API is busy"),
        "c": ("dead", "TerminalError: there is no such export"),
    }


@runs("# watching.py")
def each_watch_gives_its_keys(text: str, reader: Reader) -> None:
    """Run it beside a ConfigMap that names Foos, one without the label, and a Foo that the Every finds."""
    controller: Controller = runpy.run_path(str(reader.folder / "watching.py"))["controller"]
    for name, labels in {"wanted": {"for": "foos"}, "other": {}}.items():
        metadata = {"name": name, "namespace": "default", "labels": labels}
        data = {"foos": f"{name}-1 {name}-2"}
        reader.sandbox.client.create(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        )
    seen: list[str] = []
    controller.reconcile = lambda request: seen.append(request.key)
    reader.sandbox.run_until_idle(controller)
    assert {"default/web", "default/wanted-1", "default/wanted-2"} <= set(seen)
    assert not any("other" in key for key in seen)


@runs("# selecting.py")
def a_reconcile_selects_by_the_selector_of_its_object(text: str, reader: Reader) -> None:
    """Give a Foo a selector, and Pods: its own, an orphan, another's, and one of other labels."""
    client = reader.sandbox.client
    spec = {"selector": {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["front"]}]}}
    about = {"name": "chosen", "namespace": "selecting"}
    client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "selecting"}})
    foo = client.create({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": about, "spec": spec})
    another = client.get_or_raise("example.com/v1/Foo", "default/web")
    another["metadata"]["namespace"] = "selecting"
    for name, (tier, owner) in {
        "own": ("front", foo),
        "orphan": ("front", None),
        "anothers": ("front", another),
        "other": ("back", None),
    }.items():
        metadata = {"name": name, "namespace": "selecting", "labels": {"tier": tier}}
        containers = [{"name": "main", "image": "nginx"}]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}}
        if owner is not None:
            set_controller_reference(owner, pod)
        client.create(pod)
    program = runpy.run_path(str(reader.folder / "selecting.py"))
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        reader.sandbox.run_until_idle(program["controller"])
    lines = set(printed.getvalue().splitlines())
    assert lines >= {"selecting/chosen: 1 of its own, 1 to adopt", "default/web: 0 of its own, 0 to adopt"}
    client.delete("example.com/v1/Foo", "selecting/chosen")


@runs("# shops.py")
def a_reconcile_counts_by_index(text: str, reader: Reader) -> None:
    """Give the Foo of the sandbox two Pods of its label, one of them running; two others are not its own."""
    program = runpy.run_path(str(reader.folder / "shops.py"))
    client = reader.sandbox.client
    foo = client.get("example.com/v1/Foo", "default/web")
    assert foo is not None
    spec = {"containers": [{"name": "main", "image": "nginx"}]}
    shops = {"default/a": "web", "default/b": "web", "default/c": "other", "kube-public/d": "web"}
    for key, shop in shops.items():
        namespace, name = key.split("/")
        metadata = {"name": name, "namespace": namespace, "labels": {"shop": shop}}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        if namespace == "default":
            set_controller_reference(foo, pod)
        client.create(pod)
        if name != "b":
            client.patch("v1/Pod", key, {"status": {"phase": "Running"}}, status=True)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        reader.sandbox.run_until_idle(program["controller"])
    assert "default/web: 1 of 2 pods are running" in printed.getvalue()
    for key in shops:
        client.delete("v1/Pod", key, grace_period=0)


@runs("# finalizing.py")
def the_finalizer_holds_until_the_bucket_is_gone(text: str, reader: Reader) -> None:
    """Create a Foo, look for finalizer and event, and delete it."""
    program = runpy.run_path(str(reader.folder / "finalizing.py"))
    client, controller, buckets = reader.sandbox.client, program["controller"], program["buckets"]
    metadata = {"name": "data", "namespace": "default"}
    spec = {"image": "nginx", "replicas": 1}
    client.create({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": metadata, "spec": spec})
    reader.sandbox.run_until_idle(controller)
    foo = client.get("example.com/v1/Foo", "default/data")
    assert foo is not None
    assert foo["metadata"]["finalizers"] == ["example.com/bucket"]
    assert "default/data" in buckets
    assert any(event["reason"] == "BucketCreated" for event in client.list("v1/Event", "default"))
    client.delete("example.com/v1/Foo", "default/data")
    reader.sandbox.run_until_idle(controller)
    assert client.get("example.com/v1/Foo", "default/data") is None
    assert "default/data" not in buckets


@runs("# reporting.py")
def the_widget_reports_its_color_once(text: str, reader: Reader) -> None:
    """Create a Widget, change its color, and look that a reconcile without a change writes nothing."""
    program = runpy.run_path(str(reader.folder / "reporting.py"))
    client, controller, resource = reader.sandbox.client, program["controller"], program["WIDGET"]
    client.create(custom_resource("example.com"))
    metadata = {"name": "web", "namespace": "default"}
    client.create(
        {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": {"color": "red"}}
    )
    for color in ("red", "blue"):
        client.patch(resource, "default/web", {"spec": {"color": color}})
        reader.sandbox.run_until_idle(controller)
        widget, config_map = client.get(resource, "default/web"), client.get("v1/ConfigMap", "default/web")
        assert widget is not None
        assert config_map is not None
        assert widget["status"]["color"] == config_map["data"]["color"] == color
        [condition] = widget["status"]["conditions"]
        assert condition["observedGeneration"] == widget["metadata"]["generation"]
    program["reconcile"](Request("default/web"))
    assert client.get(resource, "default/web") == widget
    assert client.get("v1/ConfigMap", "default/web") == config_map


@runs("# awaiting.py")
def the_coroutine_labels_its_foo(text: str, reader: Reader) -> None:
    """Run it until its Foo has the label, with its own hook at the end."""
    program = runpy.run_path(str(reader.folder / "awaiting.py"))
    client = program["client"]
    reader.sandbox.run_until_idle(program["controller"], on_stop=client.aio.aclose)
    foo = client.get("example.com/v1/Foo", "default/web")
    assert foo is not None
    assert foo["metadata"]["labels"] == {"image": "nginx"}


@runs("# joining.py")
def the_coroutine_reads_its_cache_and_adds(text: str, reader: Reader) -> None:
    """Run it until the whole team is reported."""
    program = runpy.run_path(str(reader.folder / "joining.py"))
    for name in ("red", "blue"):
        metadata = {"name": name, "namespace": "default", "labels": {"team": "colors"}}
        foo = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": metadata}
        reader.sandbox.client.create({**foo, "spec": {"image": "nginx", "replicas": 1}})
    program["reports"].bind(reader.sandbox.redis)
    reader.sandbox.run_until_idle(program["controller"])
    items = Inspector(reader.sandbox.redis).items("reports")
    assert {"default/red", "default/blue"} <= {item.key for item in items}
    for name in ("red", "blue"):
        reader.sandbox.client.delete("example.com/v1/Foo", f"default/{name}")


@runs("# inventory.py")
def the_manager_runs_its_runnables(text: str, reader: Reader) -> None:
    """Let ``distq run inventory`` count the Foos, and serve that with the program's check; end it."""
    address = f"127.0.0.1:{free_port()}"

    def get(path: str) -> str:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{address}{path}") as answer:
            return str(answer.read().decode())
        return ""

    with reader.started("distq", "run", "inventory", "--http-address", address) as manager:
        eventually(lambda: 'inventory_synced_total{namespace="default"} ' in get("/metrics"))
        eventually(lambda: re.search(r"^inventory_foos [1-9]", get("/metrics"), re.MULTILINE))
        eventually(lambda: get("/readyz") == "ok\n")
        manager.terminate()
        manager.communicate(timeout=TIMEOUT)
        assert manager.returncode == 0


@runs("# typed.py")
def the_typed_api_lists(text: str, reader: Reader) -> None:
    """Let it print a Deployment of the sandbox."""
    metadata = {"name": "typed", "namespace": "default"}
    labels = {"app": "typed"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": pod}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
    reader.sandbox.client.create(deployment)
    assert "typed 2" in reader.run(sys.executable, "typed.py").splitlines()


@runs("# steps.py")
def client_gos_own_calls_work(text: str, reader: Reader) -> None:
    """Run it until a key that always fails is given up, and shut it down."""
    attempts: list[str] = []

    def sync(key: str) -> None:
        attempts.append(key)
        if key == "bad":
            raise ValueError("no")

    program = runpy.run_path(str(reader.folder / "steps.py"), {"sync": sync})
    queue = program["queue"]
    thread = threading.Thread(target=program["run_worker"])
    thread.start()
    queue.add("good", "bad")
    eventually(lambda: attempts.count("bad") == 6 and not queue.held())
    queue.shut_down()
    thread.join(TIMEOUT)
    assert attempts.count("good") == 1
    assert queue.num_requeues("bad") == queue.depth() == 0
    queue.close()


@runs("# drain.py")
def the_loop_ends_by_a_signal(text: str, reader: Reader) -> None:
    """Let it sync one key, and end it, by Ctrl-C and by a SIGTERM that another thread receives."""
    for key, number in (("default/first", signal.SIGINT), ("default/second", signal.SIGUSR1)):
        with reader.started(*_SIGNALLED_THREAD, "drain") as loop:
            reader.run("distq", "add", "foos", key)
            assert line_of(loop).startswith("syncing ")
            loop.send_signal(number)
            loop.communicate(timeout=TIMEOUT)
            assert loop.returncode == 0


@runs("# test_changes.py", "# test_failures.py")
def the_fixture_serves_many_tests(text: str, reader: Reader) -> None:
    """Run the tests that use it, as their author would."""
    reader.test("test_changes.py", "test_failures.py")


@runs(*(f"# {file}" for file in WITHOUT_SERVERS))
def the_tests_without_servers_pass(text: str, reader: Reader) -> None:
    """Run all of them at once, as their author would."""
    reader.test(*WITHOUT_SERVERS)


@runs("# in examples/cluster_secret.py")
def the_example_has_it(text: str, reader: Reader) -> None:
    """Find it in the example, letter for letter; tests/examples tries that."""
    _, _, shown = text.partition("\n")
    assert f"\n{shown}" in (ROOT / "examples" / "cluster_secret.py").read_text()


@runs("# expiry.py", "# subscriber.py")
def the_timer_is_set_and_keys_come_from_outside(text: str, reader: Reader) -> None:
    """Run the timer until its Foo waits for it, then give that key to the subscriber."""
    with reader.started("distq", "run", "expiry") as timer:
        assert line_of(timer) == "looking at default/web\n"
        inspector = Inspector(reader.sandbox.redis)

        def waits() -> bool:
            item = inspector.item("expiry", "default/web")
            return item is not None and item.state == "delayed"

        eventually(waits)
        reader.run(sys.executable, "subscriber.py", text="default/web\n")
        while (line := line_of(timer)) != "looking at default/web\n":
            assert line.startswith("looking at ")
        timer.terminate()
        timer.communicate(timeout=TIMEOUT)
        assert timer.returncode == 0
