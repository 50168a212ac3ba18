"""The HTTP endpoints by themselves: addresses, answers, clients that misbehave."""

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
import urllib3
from prometheus_client import CollectorRegistry

from distq.config import Settings
from distq.controller.endpoints import MOST_CONNECTIONS, Endpoints, ManagerPages, serving
from distq.errors import ConfigError
from distq.prometheus import PrometheusMetrics
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.slow_clients import slow_clients

Serve = Callable[..., Endpoints]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve probes without problems, and no metrics, unless given."""
    with ExitStack() as stack:

        def start(address: str = "127.0.0.1:0", **pages: object) -> Endpoints:
            parts: dict[str, object] = {"health": list, "readiness": list, "metrics": None, **pages}
            return stack.enter_context(serving(address, ManagerPages(**parts)))  # type: ignore[arg-type]

        yield start


def get(endpoints: Endpoints, path: str, method: str = "GET") -> tuple[int, str]:
    """Ask, and return status and body."""
    answer = urllib3.request(method, endpoints.url + path, timeout=20, retries=False)
    return answer.status, answer.data.decode()


def test_probes_answer_with_their_problems(serve: Serve) -> None:
    """None is a 200; each is a line of a 503."""
    endpoints = serve(readiness=lambda: ["no Redis", "no leader"])
    assert get(endpoints, "/healthz") == (200, "ok\n")
    assert get(endpoints, "/readyz") == (503, "no Redis\nno leader\n")


def test_other_requests_are_refused(serve: Serve) -> None:
    """Other paths, other methods, and metrics without a provider."""
    endpoints = serve()
    assert get(endpoints, "/")[0] == 404
    assert get(endpoints, "/healthz/x")[0] == 404
    assert get(endpoints, "/healthz", "POST")[0] == 405
    status, why = get(endpoints, "/metrics")
    assert status == 404
    assert "distq[metrics]" in why


def test_the_child_of_a_fork_shares_no_address_with_its_parent() -> None:
    """It is refused there, as any other process: no thread of the child would answer."""
    program = f"""
import os, signal
from distq.controller.endpoints import ManagerPages, serving
from distq.errors import ConfigError
pages = ManagerPages(list, list, None)
with serving("127.0.0.1:{free_port()}", pages) as endpoints:
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        try:
            serving(endpoints.url.removeprefix("http://"), pages).__enter__()
        except ConfigError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""
    run_forking(program)


def test_the_child_of_a_fork_does_not_keep_the_address() -> None:
    """A process that was killed can start again there while the child lives, as a pool's worker does."""
    run_forking(f"""
import os, signal
from distq.controller.endpoints import ManagerPages, serving
address, pages = "127.0.0.1:{free_port()}", ManagerPages(list, list, None)
reading, writing = os.pipe()
parent = os.fork()
if parent == 0:
    with serving(address, pages):
        if os.fork() == 0:
            os.write(writing, b"%d" % os.getpid())
        signal.pause()
child = int(os.read(reading, 100))
os.kill(parent, signal.SIGKILL)
os.waitpid(parent, 0)
try:
    with serving(address, pages):
        pass
finally:
    os.kill(child, signal.SIGKILL)
""")


def test_an_end_frees_the_address_though_a_child_has_not_yet_closed_it() -> None:
    """A child that was just forked may get no processor until the next Manager, or process, listens there."""
    run_forking(f"""
import os, signal
os.register_at_fork(after_in_child=signal.pause)  # before distq's own
from distq.controller.endpoints import ManagerPages, serving
address, pages = "127.0.0.1:{free_port()}", ManagerPages(list, list, None)
with serving(address, pages):
    child = os.fork()
try:
    with serving(address, pages):
        pass
finally:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
""")


def run_forking(program: str) -> None:
    """Run a program that forks: Python 3.12 warns of every fork beside threads."""
    ignored = "ignore:This process:DeprecationWarning"
    subprocess.run([sys.executable, "-W", "error", "-W", ignored, "-c", program], check=True, timeout=60)


def test_a_silent_client_holds_up_no_other_client(serve: Serve) -> None:
    """Each connection has a thread of its own."""
    endpoints = serve()
    host, _, port = endpoints.url.removeprefix("http://").partition(":")
    with (
        socket.create_connection((host, int(port))) as silent,
        socket.create_connection((host, int(port))) as rude,
    ):
        silent.sendall(b"GET /heal")
        rude.sendall(b"\x00\xff\r\n\r\n")
        rude.close()
        assert get(endpoints, "/healthz") == (200, "ok\n")


@pytest.mark.parametrize(
    "address", ["", "8080", "127.0.0.1", "127.0.0.1:http", ":99999", "::1:80", "a b:1", ":", "http://a:1"]
)
def test_an_address_that_is_none_is_refused_with_the_settings(address: str) -> None:
    """Before anything runs."""
    with pytest.raises(ConfigError, match=r"bad http_address: .* Give ADDRESS:PORT"):
        Settings(http_address=address)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_all_addresses_are_those_of_ipv6_too(serve: Serve, host: str) -> None:
    """A kubelet asks at the address that the pod has."""
    port = serve(":0").url.rpartition(":")[2]
    assert urllib3.request("GET", f"http://{host}:{port}/healthz", timeout=20, retries=False).status == 200


@pytest.mark.parametrize(("address", "url"), [("[::1]:0", "http://[::1]:"), ("0.0.0.0:0", "http://0.0.0.0:")])
def test_addresses_may_be_ipv6_or_all_of_ipv4(serve: Serve, address: str, url: str) -> None:
    """Brackets as in a URL; 0.0.0.0 is every one of IPv4."""
    if "::1" in address and not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    assert Settings(http_address=address).http_address == address
    endpoints = serve(address)
    assert endpoints.url.startswith(url)
    assert get(endpoints, "/healthz")[0] == 200


def test_an_address_in_use_is_said(serve: Serve) -> None:
    """With the remedy, not a traceback."""
    taken = serve().url.removeprefix("http://")
    with pytest.raises(ConfigError, match=r"cannot listen on .* Choose another http_address"):
        serve(taken)


@pytest.mark.slow
def test_slow_clients_do_not_keep_the_kubelet_waiting(serve: Serve) -> None:
    """The client with the longest unfinished request makes room; the number of threads is bounded, too."""
    endpoints = serve()
    host, _, port = endpoints.url.removeprefix("http://").partition(":")
    before = threading.active_count()
    with slow_clients(host, int(port), 4 * MOST_CONNECTIONS):
        for _ in range(20):
            assert get(endpoints, "/healthz") == (200, "ok\n")
        eventually(lambda: threading.active_count() < before + 2 * MOST_CONNECTIONS)


def test_clients_that_do_not_read_make_room_too(serve: Serve) -> None:
    """An answer that is not read holds up no other."""

    def endless(environ: object, start_response: Callable[..., object]) -> list[bytes]:
        start_response("200 OK", [])
        return [b"x" * 10_000_000]

    endpoints = serve(metrics=endless)
    host, _, port = endpoints.url.removeprefix("http://").partition(":")
    before = threading.active_count()
    with ExitStack() as stack:
        for _ in range(3 * MOST_CONNECTIONS):
            client = stack.enter_context(socket.create_connection((host, int(port))))
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert get(endpoints, "/healthz") == (200, "ok\n")
        eventually(lambda: threading.active_count() < before + 2 * MOST_CONNECTIONS, timeout=8)


def test_managers_of_one_process_share_an_address(serve: Serve) -> None:
    """A probe passes where those of all pass; the address is free when the last one has ended."""
    port = free_port()
    address = f"127.0.0.1:{port}"
    first = serve(address, readiness=lambda: ["no leader", "no Redis"])
    with serving(address, ManagerPages(list, lambda: ["no Redis", "stopping"], None)) as second:
        assert second is first
        assert get(first, "/healthz") == (200, "ok\n")
        assert get(first, "/readyz") == (503, "no leader\nno Redis\nstopping\n")
    assert get(first, "/readyz") == (503, "no leader\nno Redis\n")


def test_the_address_is_free_when_the_last_manager_has_ended() -> None:
    """In any order of their ends."""
    address = f"127.0.0.1:{free_port()}"
    with ExitStack() as first, ExitStack() as second:
        first.enter_context(serving(address, ManagerPages(list, list, None)))
        endpoints = second.enter_context(serving(address, ManagerPages(list, list, None)))
        first.close()
        assert get(endpoints, "/healthz") == (200, "ok\n")
        second.close()
        with serving(address, ManagerPages(list, list, None)) as anew:
            assert anew is not endpoints


def test_the_address_is_free_where_no_thread_could_start(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine may have no more threads for a moment: the next try gets the same address."""
    address = f"127.0.0.1:{free_port()}"

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            serve(address)
    assert get(serve(address), "/healthz") == (200, "ok\n")


def test_managers_that_share_an_address_share_their_metrics() -> None:
    """One page cannot show two registries, which may have the same names."""
    address = f"127.0.0.1:{free_port()}"
    registry = CollectorRegistry()
    page, same = PrometheusMetrics(registry).page, PrometheusMetrics(registry).page
    other = PrometheusMetrics(CollectorRegistry()).page
    with (
        serving(address, ManagerPages(list, list, None)) as endpoints,
        serving(address, ManagerPages(list, list, page)),
        serving(address, ManagerPages(list, list, same)),
    ):
        assert get(endpoints, "/metrics")[0] == 200
        with (
            pytest.raises(ConfigError, match="other metrics"),
            serving(address, ManagerPages(list, list, other)),
        ):
            pass
        assert get(endpoints, "/healthz") == (200, "ok\n")
