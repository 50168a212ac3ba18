"""The dashboard on a socket."""

import http.client
import json
import signal
import socket
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import pytest

from distq.dashboard import create_server
from distq.errors import ConfigError
from distq.inspector import Inspector
from distq.workqueue.queue import Queue
from tests.dashboard.conftest import HOSTILE_KEYS, NOWHERE, dashboard_of
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


@pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True)
def test_slow_clients_do_not_keep_people_waiting(served: str) -> None:
    """Who has asked for longest without coming to an end makes room for who asks now."""
    where = urlsplit(served)
    with slow_clients(where.hostname or "", where.port or 0):
        for _ in range(20):
            assert get(served, "/0/data/queues.json")["queues"] is not None


def get(url: str, path: str) -> Any:
    """Return the JSON that the server answers."""
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        return json.load(answer)
