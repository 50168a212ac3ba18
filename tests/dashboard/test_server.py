"""The dashboard on a socket."""

import http.client
import json
import logging
import os
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from distq.dashboard import create_server, serve
from distq.dashboard.server import MOST_CONNECTIONS
from distq.errors import ConfigError
from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.queue import Queue
from tests.dashboard.conftest import HOSTILE_KEYS, NOWHERE, dashboard, dashboard_of
from tests.dashboard.test_users import UNMATCHED_HASH, file_of
from tests.support.signalled import in_a_callback
from tests.support.slow_clients import slow_clients

OFFLINE = Inspector(NOWHERE)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "10.1.2.3", "example.com"])  # noqa: S104 - refused
def test_only_loopback_is_bound(host: str) -> None:
    """Any address that others could reach is refused in one line that names the way round."""
    with pytest.raises(
        ConfigError, match=r"^cannot bind the dashboard to .*: .* loopback only\. .*port-forward.*$"
    ):
        create_server(OFFLINE, host=host, port=0)


def test_a_taken_port_is_said() -> None:
    """A port that another program has is a configuration error, in one line."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            ConfigError, match=f"^cannot bind the dashboard to 127.0.0.1:{port}: .* Choose another"
        ):
            create_server(OFFLINE, port=port)


def test_a_server_shows_hostile_keys(served: str, queue: Queue) -> None:
    """Over a socket too, where ``%2F`` is decoded before routing, every row links to its item."""
    queue.add(*HOSTILE_KEYS)
    for row in get(served, "/0/data/jobs/foos/queued/25/asc/1.json")["jobs"]:
        assert get(served, f"/0/data/job/{row['id']}.json")["description"] == row["description"]


def test_a_server_does_not_name_its_software(served: str) -> None:
    """The Server header stays away, and foreign Host headers get nothing."""
    with closing(http.client.HTTPConnection(urlsplit(served).netloc, timeout=30)) as connection:
        connection.request("GET", "/", headers={"Host": "evil.example"})
        answer = connection.getresponse()
        assert (answer.status, answer.getheader("Server")) == (421, None)


def test_sigterm_ends_a_server_well() -> None:
    """A dashboard that is asked to stop does so, with status 0; Ctrl-C stays an interruption."""
    for number, status in ((signal.SIGTERM, 0), (signal.SIGINT, -signal.SIGINT)):
        with dashboard_of(NOWHERE) as (_, process):
            process.send_signal(number)
            assert process.wait(timeout=30) == status


def test_a_signal_at_any_moment_ends_a_server(caplog: pytest.LogCaptureFixture) -> None:
    """Also in a callback of Python, which prints the exception of a signal's handler and goes on."""

    class Interrupted(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:  # noqa: ARG002 - the handler's signature
            in_a_callback(lambda: signal.raise_signal(signal.SIGTERM))

    log, handler = logging.getLogger("distq.dashboard"), Interrupted()
    second = threading.Timer(5, os.kill, [os.getpid(), signal.SIGTERM])
    caplog.set_level(logging.INFO, log.name)
    log.addHandler(handler)
    second.start()
    try:
        serve(OFFLINE, port=0)
        assert second.is_alive()  # one was enough
    finally:
        second.cancel()
        log.removeHandler(handler)


@pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True)
def test_slow_clients_do_not_keep_people_waiting(served: str) -> None:
    """The client with the longest unfinished request makes room for the newest client."""
    where = urlsplit(served)
    above_all_limits = 2 * MOST_CONNECTIONS + 50
    with slow_clients(where.hostname or "", where.port or 0, above_all_limits):
        for _ in range(5):
            assert get(served, "/0/data/queues.json")["queues"] is not None


@pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True)
def test_two_hundred_at_once_are_all_answered(served: str) -> None:
    """Each of 200 who came and then ask together gets an answer, and none a reset."""
    where = urlsplit(served).netloc
    clients = [http.client.HTTPConnection(where, timeout=60) for _ in range(200)]
    together = threading.Barrier(len(clients))

    def ask(client: http.client.HTTPConnection) -> int:
        client.connect()
        together.wait(60)  # all are connected before the first of them asks
        client.request("GET", "/0/data/queues.json")
        with closing(client):
            return client.getresponse().status

    with ThreadPoolExecutor(len(clients)) as pool:
        assert set(pool.map(ask, clients)) == {200}


@pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True)
def test_a_large_form_of_a_stranger_is_refused_in_chunks_too(
    connection: Connection, redis_server: EmbeddedValkey, tmp_path: Path
) -> None:
    """Without a length it is counted while it comes, and not parsed."""
    users = file_of(tmp_path, f"ada:operator:{UNMATCHED_HASH}")
    with (
        dashboard(redis_server, "--users", str(users)) as url,
        closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)) as client,
    ):
        chunks = (b"a&" * 5_000 for _ in range(10))
        client.request("POST", "/login", body=chunks)  # an iterable is sent in chunks
        assert client.getresponse().status == 413


def get(url: str, path: str) -> Any:
    """Return the JSON that the server answers."""
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        return json.load(answer)


@pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True)
def test_a_proxy_speaks_over_a_socket(queue: Queue, redis_server: EmbeddedValkey) -> None:
    """Of a trusted peer name, address and TLS are taken; odd spellings and doubled headers name no user."""
    queue.add("a")
    choices = ["--trusted-header", "X-Forwarded-User", "--trusted-proxy", "127.0.0.1", "--role", "operator"]
    with dashboard(redis_server, *choices, "--allowed-host", "distq.example") as url:
        fine = {"X-Forwarded-User": "ada", "X-Forwarded-Proto": "https", "Host": "distq.example"}
        page = fetch(url, "/queues/foos", fine)
        assert (page.status, "Secure" in page.cookie) == (200, True)
        assert "ada" in page.text
        for headers in (
            {},
            {"X_Forwarded_User": "ada"},
            {"x-forwarded_user": "ada"},
            {"X-Forwarded-User": ""},
            {"X-Forwarded-User": "eve, ada"},
            {"Forwarded": "for=ada"},
        ):
            assert fetch(url, "/", headers).status == 403, headers
        assert fetch(url, "/login", fine).status == 404, "there is no password to give"


@pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True)
def test_headers_of_an_untrusted_client_change_nothing(
    connection: Connection, redis_server: EmbeddedValkey, tmp_path: Path
) -> None:
    """Without a trusted proxy its headers change nothing: no name, no address, no TLS."""
    users = file_of(tmp_path, f"ada:operator:{UNMATCHED_HASH}")
    with dashboard(redis_server, "--users", str(users)) as url:
        headers = {"X-Forwarded-User": "ada", "X-Forwarded-Proto": "https", "X-Forwarded-For": "10.0.0.1"}
        assert fetch(url, "/", headers).status == 302
        page = fetch(url, "/login", headers)
        assert (page.status, "Secure" in page.cookie) == (200, False)


@pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True)
def test_a_prefix_is_part_of_every_url(connection: Connection, redis_server: EmbeddedValkey) -> None:
    """Below a prefix, or behind a proxy that strips it, links and cookies have it, and no path leads out."""
    with dashboard(redis_server, "--url-prefix", "/distq", "--actions") as url:
        root = url.removesuffix("/distq")
        assert url.endswith("/distq")
        for start in (url, root):  # as it is asked for by a browser, and by a proxy that strips
            text = fetch(start, "/workers").text
            assert 'href="/distq/informers"' in text
            assert 'href="/workers"' not in text
        for path in ("/distq/../login", "/distq/..%2f..%2fetc/passwd", "/distq/distq/..%2fdistq.css"):
            assert fetch(root, path).status == 404
        for path in ("/distq/%2e%2e/%2e%2e/app.py", "/distq/..%5capp.py", "//etc/passwd"):
            assert fetch(root + "/distq", path).status in {404, 308}


class Answer(NamedTuple):
    """What the server says."""

    status: int
    cookie: str
    text: str


def fetch(url: str, path: str, headers: dict[str, str] | None = None) -> Answer:
    """Ask for a path below a URL, as it is written."""
    where = urlsplit(url)
    with closing(http.client.HTTPConnection(where.netloc, timeout=30)) as connection:
        connection.request("GET", where.path + path, headers=headers or {})
        answer = connection.getresponse()
        return Answer(answer.status, answer.getheader("Set-Cookie") or "", answer.read().decode())
