"""Requests and streams as bytes, and what networks do to them."""

import http.server
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from email.utils import formatdate
from pathlib import Path

import msgspec
import pytest

from distq.client import Client
from distq.errors import ApiError, ConfigError, Expired, NotFound, TooManyRequests
from tests.support.api_servers import ApiServer, write_kubeconfig
from tests.support.eventually import eventually
from tests.support.samples import config_map
from tests.support.tcp_proxy import TcpProxy

SILENCE = 0.5
PROMPT = 10.0


def watch_path(namespace: str) -> str:
    """Return the path of a namespace's ConfigMaps."""
    return f"/api/v1/namespaces/{namespace}/configmaps"


def watching(**more: str) -> dict[str, str]:
    """Return the query of a watch from now on."""
    return {"watch": "true", "allowWatchBookmarks": "true", **more}


def version_now(client: Client, namespace: str) -> str:
    """Return the version that a watch of nothing but news starts from."""
    body = client.request("GET", watch_path(namespace), query={"limit": "1"})
    return str(msgspec.json.decode(body)["metadata"]["resourceVersion"])


def test_request_returns_the_servers_bytes(client: Client, namespace: str) -> None:
    """The body comes as the server sent it."""
    body = client.request("GET", watch_path(namespace), query={"limit": "1"})
    assert msgspec.json.decode(body)["kind"] == "ConfigMapList"


def test_request_asks_for_the_representation(client: Client, namespace: str) -> None:
    """``accept`` reaches the server: metadata only comes as such."""
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    body = client.request("GET", watch_path(namespace), accept=accept)
    assert msgspec.json.decode(body)["kind"] == "PartialObjectMetadataList"


def test_request_raises_by_status(client: Client, namespace: str) -> None:
    """Refusals are typed by status and carry the server's Status object."""
    with pytest.raises(NotFound) as caught:
        client.request("GET", f"{watch_path(namespace)}/absent")
    assert caught.value.answer["details"]["name"] == "absent"
    with pytest.raises(NotFound, match=r"GET /apis/example\.com/v1/foos: 404"):
        client.request("GET", "/apis/example.com/v1/foos")
    with pytest.raises(ConfigError, match="bad object"):
        client.request("POST", watch_path(namespace), body={"data": object()})


def test_stream_yields_whole_lines_as_they_come(client: Client, namespace: str) -> None:
    """Each event is one line, short or longer than any buffer, seen while the stream is open."""
    version = version_now(client, namespace)
    with client.stream(
        watch_path(namespace), query=watching(resourceVersion=version), read_timeout=30
    ) as stream:
        lines = iter(stream)
        for size in (1, 700_000, 2):
            client.create(config_map(namespace, f"web-{size}", text="x" * size))
            event = msgspec.json.decode(next(lines))
            assert event["type"] == "ADDED"
            assert len(event["object"]["data"]["text"]) == size


def test_stream_ends_when_the_server_ends_it(client: Client, namespace: str) -> None:
    """A watch that is over is no error."""
    query = watching(timeoutSeconds="1", resourceVersion=version_now(client, namespace))
    with client.stream(watch_path(namespace), query=query, read_timeout=30) as stream:
        kinds = {msgspec.json.decode(line)["type"] for line in stream}
    assert kinds <= {"BOOKMARK"}


def test_stream_closed_by_another_thread_ends_at_once(client: Client, namespace: str) -> None:
    """Closing wakes a reader that waits for its next line, without an error."""
    query = watching(resourceVersion=version_now(client, namespace))
    with client.stream(watch_path(namespace), query=query, read_timeout=120) as stream:
        lines: list[bytes] = []
        reader = threading.Thread(target=lambda: lines.extend(stream))
        reader.start()
        client.create(config_map(namespace, "web"))
        eventually(lambda: bool(lines))
        stream.close()
        reader.join(PROMPT)
        assert not reader.is_alive()
        stream.close()


def test_stream_closed_before_it_is_read_yields_nothing(client: Client, namespace: str) -> None:
    """Bytes that had arrived before a close are not handed out after it."""
    client.create(config_map(namespace, "web"))
    with client.stream(watch_path(namespace), query=watching(), read_timeout=120) as stream:
        stream.close()
        assert list(stream) == []


def test_stream_that_is_refused_raises(client: Client) -> None:
    """A refused watch is a typed error before any line."""
    with pytest.raises(NotFound):
        client.stream("/apis/example.com/v1/foos", query=watching(), read_timeout=5)


def test_expired_watch_says_so_in_its_stream(client: Client, namespace: str) -> None:
    """Lines that report errors are lines: an answer of 200 is not judged here."""
    query = watching(resourceVersion="abc")
    with pytest.raises(ApiError) as caught:
        client.stream(watch_path(namespace), query=query, read_timeout=5)
    assert caught.value.status >= 400


def test_many_streams_leave_room_for_requests(client: Client, namespace: str) -> None:
    """Watches hold connections for ever, and requests do not wait for them."""
    query = watching(resourceVersion=version_now(client, namespace))
    with ExitStack() as streams:
        for _ in range(80):
            streams.enter_context(client.stream(watch_path(namespace), query=query, read_timeout=60))
        assert client.get("v1/ConfigMap", f"{namespace}/absent") is None


def test_broken_stream_raises(proxy: TcpProxy, proxied: Client, namespace: str) -> None:
    """A connection that breaks under a watch is an ApiError without status, not a quiet end."""
    query = watching(resourceVersion=version_now(proxied, namespace))
    with proxied.stream(watch_path(namespace), query=query, read_timeout=30) as stream:
        threading.Timer(0.1, proxy.reset).start()
        with pytest.raises(ApiError, match=r"no answer from 127\.0\.0\.1") as caught:
            list(stream)
    assert caught.value.status == 0


def test_silent_stream_ends_at_its_read_timeout(proxy: TcpProxy, proxied: Client, namespace: str) -> None:
    """A half-open connection is noticed by ``read_timeout``."""
    query = watching(resourceVersion=version_now(proxied, namespace))
    with proxied.stream(watch_path(namespace), query=query, read_timeout=SILENCE) as stream:
        proxy.mode = "hang"
        with pytest.raises(ApiError, match="silence for too long") as caught:
            list(stream)
    assert caught.value.status == 0


def test_get_outlives_a_connection_that_broke_while_idle(
    proxy: TcpProxy, proxied: Client, namespace: str
) -> None:
    """Old connections of the pool cause no error: the GET goes over a new one."""
    query = watching(resourceVersion=version_now(proxied, namespace))
    with ExitStack() as streams:
        for _ in range(5):
            streams.enter_context(proxied.stream(watch_path(namespace), query=query, read_timeout=60))
    for _ in range(20):
        assert proxied.get("v1/ConfigMap", f"{namespace}/absent") is None
        proxy.reset()


@pytest.mark.parametrize(
    ("mode", "cause"), [("refuse", "refused"), ("reset", "reset|aborted"), ("hang", "silence|in time")]
)
def test_unreachable_server_is_one_kind_of_error(
    proxy: TcpProxy, proxied: Client, namespace: str, mode: str, cause: str
) -> None:
    """Refused, reset and silent: an ApiError with status 0 that names the server; then it recovers."""
    proxied.resolve("v1/ConfigMap")
    proxy.mode = mode  # type: ignore[assignment]  # one of its modes, as a parameter
    for act in (
        lambda: proxied.get("v1/ConfigMap", f"{namespace}/web"),
        lambda: proxied.create(config_map(namespace, "web")),
        lambda: proxied.stream(watch_path(namespace), query=watching(), read_timeout=SILENCE),
    ):
        with pytest.raises(
            ApiError, match=rf"no answer from 127\.0\.0\.1:{proxy.port}: .*Check that"
        ) as caught:
            act()
        assert caught.value.status == 0
        assert "\n" not in str(caught.value)
    proxy.mode = "pass"
    proxied.apply(config_map(namespace, "web"))


def test_a_write_is_sent_once(proxy: TcpProxy, proxied: Client, namespace: str) -> None:
    """A write whose connection broke is not repeated: it may have been done."""
    proxied.resolve("v1/ConfigMap")
    proxy.mode = "reset"
    before = proxy.accepted
    with pytest.raises(ApiError):
        proxied.create(config_map(namespace, "web"))
    assert proxy.accepted <= before + 1


def test_timeout_of_a_call_is_kept(proxy: TcpProxy, proxied: Client, namespace: str) -> None:
    """A call's own timeout wins over the client's."""
    proxied.cluster_id()
    proxy.mode = "hang"
    started = time.monotonic()
    with pytest.raises(ApiError):
        proxied.request("GET", watch_path(namespace), timeout=0.2)
    assert time.monotonic() - started < 2.0


def test_unknown_host_is_named(tmp_path: Path) -> None:
    """A host that does not exist is an error of one line that names the kubeconfig."""
    kubeconfig = tmp_path / "kubeconfig"
    write_kubeconfig(kubeconfig, cluster={"server": "http://no-such-host.invalid:6443"}, user={})
    with pytest.raises(
        ApiError, match=f"no-such-host.invalid:6443: unknown host.*kubeconfig {kubeconfig} is right"
    ):
        Client(kubeconfig).request("GET", "/version")


def test_an_untrusted_certificate_is_named_as_the_cause(api_server: ApiServer, tmp_path: Path) -> None:
    """A server whose certificate is of an unknown authority is refused with that cause."""
    if api_server.kind == "emulator":
        pytest.skip("the emulated server speaks no TLS")
    kubeconfig = tmp_path / "kubeconfig"
    write_kubeconfig(kubeconfig, cluster={"server": api_server.url}, user={"token": "sesame"})
    with pytest.raises(ApiError, match="certificate not trusted"):
        Client(kubeconfig).request("GET", "/version")


def test_client_works_in_a_forked_child(api_server: ApiServer, namespace: str) -> None:
    """Parent and child share no connection after a fork."""
    program = f"""
import os
from distq.client import Client
client = Client({str(api_server.kubeconfig)!r})
assert client.get("v1/Namespace", "default")
child = os.fork()
name = "parent" if child else "child"
about = {{"name": name, "namespace": {namespace!r}}}
for turn in range(50):  # writes, since nothing repeats those that break
    config_map = {{"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": {{"turn": str(turn)}}}}
    stored = client.apply(config_map)
    assert (stored["metadata"]["name"], stored["data"]) == (name, {{"turn": str(turn)}})
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=60)


def test_a_child_forked_while_another_thread_makes_a_request_makes_its_own_and_ends(
    api_server: ApiServer,
) -> None:
    """A lock that the thread holds at the fork is not released in the child, which would wait for ever."""
    program = f"""
import os, signal, sys, threading
from distq.client import Client
client = Client({str(api_server.kubeconfig)!r})
client.get("v1/Namespace", "default")
at_line, goes_on, lines = threading.Semaphore(0), threading.Semaphore(0), []

def stop(frame, event, _):
    code = frame.f_code
    line = os.path.basename(code.co_filename), code.co_name, frame.f_lineno
    if line[:2] in stops and line not in lines:
        lines.append(line)
        at_line.release()
        goes_on.acquire()
    return stop

def ask():
    sys.settrace(stop)
    client.get("v1/Namespace", "default")
    sys.settrace(None)
    lines.append(None)
    at_line.release()

stops = [("resources.py", "resolve"), ("http_pool.py", "get"), ("http_pool.py", "put"), ("queue.py", "get")]
threading.Thread(target=ask, daemon=True).start()
while at_line.acquire() and lines[-1]:
    if not (child := os.fork()):
        signal.alarm(10)
        client.get("v1/Namespace", "default")
        sys.exit()  # it closes its copies of the parent's connections
    if os.waitpid(child, 0)[1]:
        print("a child hangs:", lines[-1], file=sys.stderr, flush=True)
        os._exit(1)  # the end of this process would wait for the lock, too
    goes_on.release()
assert len({{line[:2] for line in lines if line}}) > 1, lines
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=120)


@contextmanager
def answering(status: int, body: bytes, **headers: str) -> Iterator[str]:
    """Serve one answer to everything, as proxies before API servers do; yield the URL."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in {"Content_Length": str(len(body)), **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def client_of(server: str, folder: Path) -> Client:
    """Return a Client of an anonymous user."""
    write_kubeconfig(folder / "kubeconfig", cluster={"server": server}, user={})
    return Client(folder / "kubeconfig")


@pytest.mark.parametrize(
    ("headers", "least", "most"),
    [
        ({"Retry_After": "7"}, 7.0, 7.0),
        ({"Retry_After": formatdate(time.time() + 36000, usegmt=True)}, 30000.0, 36000.0),
        ({"Retry_After": "soon"}, 1.0, 1.0),
        ({"Retry_After": "inf"}, 1.0, 1.0),
        ({"Retry_After": "-5"}, 0.0, 0.0),
        ({}, 1.0, 1.0),
    ],
)
def test_retry_after_is_read(tmp_path: Path, headers: dict[str, str], least: float, most: float) -> None:
    """Seconds, dates, nonsense and nothing: 429 always says when to repeat."""
    with answering(429, b"too many", **headers) as server, pytest.raises(TooManyRequests) as caught:
        client_of(server, tmp_path).request("GET", "/version")
    assert least <= caught.value.retry_after <= most


@pytest.mark.parametrize(("headers", "seconds"), [({"Retry_After": "7"}, 7.0), ({}, None)])
def test_other_refusals_have_the_time_to_repeat_too(
    tmp_path: Path, headers: dict[str, str], seconds: float | None
) -> None:
    """A server that is overloaded or starting says so with 503, with or without a time."""
    with answering(503, b"starting", **headers) as server, pytest.raises(ApiError) as caught:
        client_of(server, tmp_path).request("GET", "/version")
    assert caught.value.retry_after == seconds


def test_retry_after_in_the_body_is_read(tmp_path: Path) -> None:
    """Without the header the Status object's seconds count."""
    body = b'{"kind": "Status", "reason": "TooManyRequests", "details": {"retryAfterSeconds": 4}}'
    with answering(429, body) as server, pytest.raises(TooManyRequests) as caught:
        client_of(server, tmp_path).request("GET", "/version")
    assert caught.value.retry_after == 4.0


def test_answers_of_other_servers_than_api_servers_are_named_as_such(tmp_path: Path) -> None:
    """HTML, redirects and broken JSON give one line each, never a decoding error."""
    with answering(502, b"<html>\n<h1>Bad\nGateway</h1>") as server:
        with pytest.raises(ApiError, match="502 <html> <h1>Bad Gateway</h1>") as caught:
            client_of(server, tmp_path).request("GET", "/version")
        assert (caught.value.status, caught.value.reason) == (502, "Bad Gateway")
    with answering(302, b"", Location="/login") as server, pytest.raises(ApiError) as caught:
        client_of(server, tmp_path).request("GET", "/version")
    assert caught.value.status == 302
    with answering(200, b"<html>") as server, pytest.raises(ApiError, match="not JSON"):
        client_of(server, tmp_path).get("v1/Pod", "default/web")
    with answering(410, b"gone") as server, pytest.raises(Expired):
        client_of(server, tmp_path).request("GET", "/version")


def test_stream_without_chunks_yields_lines_at_once(tmp_path: Path) -> None:
    """Also a body of known or unknown length comes line by line, and its end within a line is an error."""
    with answering(200, b"one\ntwo\nhal") as server:
        lines: list[bytes] = []
        stream = client_of(server, tmp_path).stream("/watch", query={}, read_timeout=PROMPT)
        with stream, pytest.raises(ApiError, match="ended within a line"):
            lines.extend(stream)
        assert lines == [b"one", b"two"]
    with answering(200, b"one\n", Content_Length="1000") as server:
        client = client_of(server, tmp_path)
        with client.stream("/watch", query={}, read_timeout=PROMPT) as stream:
            assert next(iter(stream)) == b"one"


def test_truncated_answer_is_no_answer(tmp_path: Path) -> None:
    """Half a body is an ApiError, not half an object."""
    with answering(200, b'{"half', Content_Length="1000") as server, pytest.raises(ApiError) as caught:
        client_of(server, tmp_path).request("GET", "/version", timeout=1.0)
    assert caught.value.status == 0


def test_constructing_a_client_reads_nothing(tmp_path: Path) -> None:
    """A Client may be made before there is a cluster; its kubeconfig is read when used."""
    client = Client(tmp_path / "later")
    listing = client.list("v1/Pod")
    with pytest.raises(ConfigError, match=f"kubeconfig {tmp_path / 'later'} does not exist"):
        next(listing)
    assert not list(tmp_path.iterdir())
