"""What only the emulated server has: history to forget, requests to count, garbage to collect."""

import asyncio
import contextlib
import gc
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from distq.client import Client
from distq.errors import ApiError, ConfigError
from distq.testing import EmulatedApiServer
from distq.testing.apiserver.manifests import read_manifest
from tests.support.eventually import eventually
from tests.testing.conftest import Api, changes, config_map, names, version_of, wait_until_gone

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"


@pytest.fixture
def emulator() -> Iterator[EmulatedApiServer]:
    """Run a server of the test's own, with a short history and frequent bookmarks."""
    with EmulatedApiServer(history=5, bookmark_period=0.2) as emulator:
        yield emulator


@pytest.fixture
def own(emulator: EmulatedApiServer, tmp_path: Path) -> Api:
    """Give plain requests to the test's own server."""
    return Api(Client(emulator.kubeconfig(tmp_path / "kubeconfig")))


def test_old_versions_leave_the_window(own: Api) -> None:
    """Only the last events of a resource can be resumed from; a quiet resource keeps all of its own."""
    quiet = own.version(SECRETS)
    versions = [str(version_of(own.create(CONFIG_MAPS, config_map(f"c{number}")))) for number in range(7)]
    own.create(SECRETS, {"metadata": {"name": "s"}})
    (error,) = own.watch(CONFIG_MAPS, 5, resourceVersion=versions[0])
    assert error["object"]["message"] == f"too old resource version: {versions[0]} ({versions[1]})"
    assert changes(own.watch(CONFIG_MAPS, 1, resourceVersion=versions[1])) == [("ADDED", "c2")]
    assert changes(own.watch(SECRETS, 1, resourceVersion=quiet)) == [("ADDED", "s")]


def test_compact_forgets_all_history(emulator: EmulatedApiServer, own: Api) -> None:
    """Watches and exact lists from before are 410; the newest version still works."""
    before = str(version_of(own.create(CONFIG_MAPS, config_map("a"))))
    newest = str(version_of(own.create(CONFIG_MAPS, config_map("b"))))
    emulator.compact()
    (error,) = own.watch(CONFIG_MAPS, 5, resourceVersion=before)
    assert (error["type"], error["object"]["code"]) == ("ERROR", 410)
    exact = {"resourceVersion": before, "resourceVersionMatch": "Exact"}
    status = own.refused("GET", CONFIG_MAPS, **exact)
    assert (status["code"], status["reason"]) == (410, "Expired")
    assert names(own.get(CONFIG_MAPS, resourceVersion=newest, resourceVersionMatch="Exact")) == ["a", "b"]


def test_an_expired_continue_token_comes_with_another(emulator: EmulatedApiServer, own: Api) -> None:
    """The 410 carries a token that goes on with the present objects, at another version."""
    for name in "abc":
        own.create(CONFIG_MAPS, config_map(name))
    page = own.get(CONFIG_MAPS, limit="1")
    own.create(CONFIG_MAPS, config_map("bb"))
    emulator.compact()
    status = own.refused("GET", CONFIG_MAPS, **{"limit": "1", "continue": page["metadata"]["continue"]})
    assert (status["code"], status["reason"]) == (410, "Expired")
    rest = own.get(CONFIG_MAPS, **{"limit": "9", "continue": status["metadata"]["continue"]})
    assert names(rest) == ["b", "bb", "c"]
    assert version_of(rest) > version_of(page)


def test_restarted_watches_end_and_cannot_resume(
    emulator: EmulatedApiServer, own: Api, tmp_path: Path
) -> None:
    """As after a restart of the server: streams end, older versions are 410, exact lists go on."""
    before = str(version_of(own.create(CONFIG_MAPS, config_map("a"))))
    own.create(CONFIG_MAPS, config_map("b"))
    client = Client(emulator.kubeconfig(tmp_path / "kubeconfig"))
    query = {"watch": "true", "resourceVersion": before}
    with client.stream(CONFIG_MAPS, query=query, read_timeout=20) as stream:
        lines = iter(stream)
        assert b'"ADDED"' in next(lines)
        emulator.restart_watches()
        assert list(lines) == []
    (error,) = own.watch(CONFIG_MAPS, 5, resourceVersion=before)
    assert error["object"]["code"] == 410
    assert names(own.get(CONFIG_MAPS, resourceVersion=before, resourceVersionMatch="Exact")) == ["a"]


def test_bookmarks_come_each_period(own: Api) -> None:
    """They carry the version of now, and come where they are allowed only."""
    start = own.version(CONFIG_MAPS)
    written = version_of(own.create(SECRETS, {"metadata": {"name": "s"}}))
    bookmarks = own.watch(CONFIG_MAPS, 3, resourceVersion=start, allowWatchBookmarks="true")
    assert {event["type"] for event in bookmarks} == {"BOOKMARK"}
    assert all(version_of(event["object"]) >= written for event in bookmarks)
    assert own.watch(CONFIG_MAPS, 3, resourceVersion=start, timeoutSeconds="1") == []


def test_bookmarks_come_two_seconds_and_one_before_the_end(tmp_path: Path) -> None:
    """So that a client resumes from as late as it can."""
    with EmulatedApiServer() as emulator:
        own = Api(Client(emulator.kubeconfig(tmp_path / "kubeconfig")))
        start = own.version(CONFIG_MAPS)
        query = {"resourceVersion": start, "allowWatchBookmarks": "true", "timeoutSeconds": "3"}
        events = own.watch(CONFIG_MAPS, 5, **query)
        assert [event["type"] for event in events] == ["BOOKMARK", "BOOKMARK"]


def test_requests_can_be_counted(emulator: EmulatedApiServer, own: Api, tmp_path: Path) -> None:
    """Each has verb, path and client; full lists differ from looks at the version."""
    other = Api(Client(emulator.kubeconfig(tmp_path / "other", user="informer-2")))
    emulator.requests.clear()
    other.get(CONFIG_MAPS, limit="500")
    other.version(CONFIG_MAPS)
    other.watch(CONFIG_MAPS, 1, timeoutSeconds="1")
    own.create(CONFIG_MAPS, config_map("a"))
    own.get(f"{CONFIG_MAPS}/a")
    own.merge(f"{CONFIG_MAPS}/a", {})
    own.put(f"{CONFIG_MAPS}/a", config_map("a"))
    own.delete(f"{CONFIG_MAPS}/a")
    own.delete(CONFIG_MAPS)
    theirs = [request for request in emulator.requests if request.user == "informer-2"]
    assert [request.verb for request in theirs] == ["list", "list", "watch"]
    assert [request.full_list for request in theirs] == [True, False, False]
    mine = [request for request in emulator.requests if request.user == "admin"]
    assert [request.verb for request in mine] == [
        "create",
        "get",
        "patch",
        "update",
        "delete",
        "deletecollection",
    ]
    assert mine[1].path == f"{CONFIG_MAPS}/a"
    assert mine[1].user_agent


def owned(name: str, *owners: dict[str, Any]) -> dict[str, Any]:
    """Return a ConfigMap with owners."""
    references = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": each["metadata"]["name"],
            "uid": each["metadata"]["uid"],
        }
        for each in owners
    ]
    return config_map(name, metadata={"ownerReferences": references})


def test_an_object_without_owners_is_collected(own: Api) -> None:
    """Dependents go after their last owner, and theirs after them; one owner left keeps an object."""
    first, second = (own.create(CONFIG_MAPS, config_map(name)) for name in ("first", "second"))
    child = own.create(CONFIG_MAPS, owned("child", first))
    own.create(CONFIG_MAPS, owned("grandchild", child))
    own.create(CONFIG_MAPS, owned("shared", first, second))
    own.delete(f"{CONFIG_MAPS}/first")
    wait_until_gone(own, f"{CONFIG_MAPS}/child")
    wait_until_gone(own, f"{CONFIG_MAPS}/grandchild")
    eventually(lambda: len(own.get(f"{CONFIG_MAPS}/shared")["metadata"]["ownerReferences"]) == 1)
    own.delete(f"{CONFIG_MAPS}/second")
    wait_until_gone(own, f"{CONFIG_MAPS}/shared")


def test_a_child_of_a_dead_owner_is_collected(own: Api) -> None:
    """A controller that creates for an owner just deleted leaves nothing behind."""
    owner = own.create(CONFIG_MAPS, config_map("owner"))
    own.delete(f"{CONFIG_MAPS}/owner")
    own.create(CONFIG_MAPS, owned("late", owner))
    wait_until_gone(own, f"{CONFIG_MAPS}/late")


def test_foreground_deletion_takes_dependents_first(own: Api) -> None:
    """The owner waits, marked, until its dependents and their finalizers are gone."""
    owner = own.create(CONFIG_MAPS, config_map("owner"))
    held = owned("child", owner)
    held["metadata"]["finalizers"] = ["example.com/hold"]
    own.create(CONFIG_MAPS, held)
    marked = own.delete(f"{CONFIG_MAPS}/owner", {"propagationPolicy": "Foreground"})
    assert marked["metadata"]["finalizers"] == ["foregroundDeletion"]
    eventually(lambda: "deletionTimestamp" in own.get(f"{CONFIG_MAPS}/child")["metadata"])
    assert own.get(f"{CONFIG_MAPS}/owner")
    own.merge(f"{CONFIG_MAPS}/child", {"metadata": {"finalizers": None}})
    wait_until_gone(own, f"{CONFIG_MAPS}/owner")


def test_orphans_stay(own: Api) -> None:
    """With the policy Orphan the dependents lose the reference, not their life."""
    owner = own.create(CONFIG_MAPS, config_map("owner"))
    own.create(CONFIG_MAPS, owned("child", owner))
    own.delete(f"{CONFIG_MAPS}/owner", {"propagationPolicy": "Orphan"})
    wait_until_gone(own, f"{CONFIG_MAPS}/owner")
    assert "ownerReferences" not in own.get(f"{CONFIG_MAPS}/child")["metadata"]


def test_large_pages_hold_together(own: Api) -> None:
    """Two thousand objects come back complete and in order, as they were at the first page."""
    expected = [f"c{number:04}" for number in range(2000)]
    for name in expected:
        own.create(CONFIG_MAPS, config_map(name))
    page_size = "700"
    page = own.get(CONFIG_MAPS, limit=page_size)
    listed = names(page)
    own.delete(f"{CONFIG_MAPS}/c1999")
    while token := page["metadata"].get("continue"):
        page = own.get(CONFIG_MAPS, **{"limit": page_size, "continue": token})
        listed += names(page)
    assert listed == expected


def test_a_port_in_use_is_a_clear_error(emulator: EmulatedApiServer) -> None:
    """Nothing hangs, and the message names the address."""
    second = EmulatedApiServer(port=emulator.port)
    with pytest.raises(ConfigError, match=rf"cannot serve on 127\.0\.0\.1:{emulator.port}: .+\."):
        second.start()
    second.stop()


def test_a_stopped_server_answers_no_request(tmp_path: Path) -> None:
    """Stop ends open streams and the port; it may be called twice."""
    emulator = EmulatedApiServer()
    emulator.start()
    client = Client(emulator.kubeconfig(tmp_path / "kubeconfig"))
    with client.stream(CONFIG_MAPS, query={"watch": "true"}, read_timeout=20) as stream:
        emulator.stop()
        assert list(stream) == []
    emulator.stop()
    with pytest.raises(ApiError) as caught:
        client.request("GET", CONFIG_MAPS)
    assert caught.value.status == 0


def test_a_server_that_stops_closes_each_connection_that_it_accepted() -> None:
    """One that it forgot would be found as garbage in some later test."""
    for _ in range(20):
        with EmulatedApiServer() as server:
            clients = [threading.Thread(target=connect_until_refused, args=(server.port,)) for _ in range(2)]
            for client in clients:
                client.start()
            time.sleep(0.01)
        for client in clients:
            client.join()
    gc.collect()


def test_a_server_that_stops_closes_a_connection_whose_client_does_not_read(tmp_path: Path) -> None:
    """As that of a frozen process: it would wait for the rest of its answer, for ever."""
    with EmulatedApiServer() as server:
        own = Api(Client(server.kubeconfig(tmp_path / "kubeconfig")))
        for number in range(12):
            own.create(CONFIG_MAPS, {**config_map(f"c{number}"), "data": {"large": "x" * 900_000}})
        frozen = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        frozen.sendall(f"GET {CONFIG_MAPS} HTTP/1.1\r\nHost: frozen\r\n\r\n".encode())
        assert frozen.recv(1) == b"H"
    with frozen:
        while frozen.recv(1 << 20):
            pass


def connect_until_refused(port: int) -> None:
    """Open connections for as long as a server takes them, then close them."""
    with contextlib.ExitStack() as opened, contextlib.suppress(OSError):
        while True:
            opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=1))
            time.sleep(0.001)


def test_manifests_are_loaded(emulator: EmulatedApiServer, own: Api, tmp_path: Path) -> None:
    """Several documents a file; an unknown kind is a clear error."""
    manifest = tmp_path / "objects.yaml"
    manifest.write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {date: 2026-01-02}\n---\n"
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n"
    )
    emulator.load(manifest)
    assert own.get(f"{CONFIG_MAPS}/a")["data"] == {"date": "2026-01-02"}
    assert own.get("/api/v1/namespaces/team")
    manifest.write_text("apiVersion: example.com/v1\nkind: Foo\nmetadata: {name: a}\n")
    with pytest.raises(
        ConfigError, match=r"cannot load Foo: no such kind in example.com/v1\. Load its CRD first"
    ):
        emulator.load(manifest)


def test_it_runs_as_a_program(tmp_path: Path) -> None:
    """It writes a kubeconfig, serves until SIGTERM, and exits 0."""
    kubeconfig = tmp_path / "kubeconfig"
    command = [sys.executable, "-m", "distq.testing.apiserver", "--port=0", f"--kubeconfig={kubeconfig}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("emulated Kubernetes API at http://127.0.0.1:")
        assert Client(kubeconfig).get("v1/Namespace", "default")
        process.terminate()
        assert process.wait(10) == 0


def test_the_kubeconfig_can_name_another_address(emulator: EmulatedApiServer, tmp_path: Path) -> None:
    """For clients that see the server elsewhere, as from another container."""
    written = emulator.kubeconfig(tmp_path / "deep" / "kubeconfig", server="http://api:8001", user="web")
    config = json.loads(written.read_text())
    assert config["clusters"][0]["cluster"] == {"server": "http://api:8001"}
    assert config["users"] == [{"name": "web", "user": {"token": "web"}}]


def test_a_watcher_that_leaves_during_a_write_is_no_error(
    emulator: EmulatedApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The connection is gone, and the server notices it in the write of an event: no traceback is logged."""
    with socket.create_connection(("127.0.0.1", emulator.port)) as watcher:
        watcher.sendall(f"GET {CONFIG_MAPS}?watch=1 HTTP/1.1\r\nHost: emulator\r\n\r\n".encode())
        assert watcher.recv(100)

        def leave_before_an_event() -> None:
            watcher.close()
            # one turn of the loop sees the end of the connection and wakes the stream
            web = read_manifest(config_map("web"))
            asyncio.get_running_loop().call_soon(lambda: emulator._create_all(web))

        emulator._call(leave_before_an_event)
    emulator.stop()  # waits for the handlers
    assert not [record for record in caplog.records if record.name.startswith("aiohttp")]
