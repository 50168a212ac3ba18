"""What networks and machines do to leaders, on real API servers and the machine's clock."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from distq.client import Client
from distq.leaderelection import LeaseLock
from tests.leaderelection.competitor import Competitor
from tests.leaderelection.participants import (
    LEASE,
    SHORT,
    Enter,
    Participant,
    end_all,
    one_acts_at_most,
)
from tests.support.api_servers import ApiServer, kubeconfig_through
from tests.support.eventually import eventually
from tests.support.tcp_proxy import Mode, TcpProxy


@pytest.fixture
def enter(namespace: str, proxy: TcpProxy) -> Iterator[Enter]:
    """Give a function that makes participants with short leases, and end them all before the proxy."""
    entered: list[Participant] = []

    def make(identity: str, client: Client, **settings: Any) -> Participant:
        made = Participant(LeaseLock(client, namespace, LEASE, identity=identity), **(SHORT | settings))
        entered.append(made)
        return made

    yield make
    end_all(entered)


@pytest.fixture
def proxied(api_server: ApiServer, proxy: TcpProxy, tmp_path: Path) -> Client:
    """Give a client that reaches the API server through ``proxy`` only."""
    return Client(kubeconfig_through(api_server, proxy.port, tmp_path / "kubeconfig"))


@pytest.mark.conformance("LE-05")
@pytest.mark.parametrize("mode", ["hang", "reset", "refuse"])
def test_a_leader_cut_off_stops_before_another_starts(
    enter: Enter, client: Client, proxied: Client, proxy: TcpProxy, mode: Mode
) -> None:
    """Its packets vanish, or its connections break; it stops by its own clock."""
    ada, bob = enter("ada", proxied).lead(), enter("bob", client).follow()
    with one_acts_at_most(ada, bob):
        proxy.mode = mode
        eventually(lambda: not ada.elector.may_act())
        assert bob.epochs == []
        eventually(bob.elector.may_act)
        proxy.mode = "pass"
        ada.thread.join(20)
        assert not ada.thread.is_alive()
    assert (ada.stopped, ada.terms[0].is_set(), ada.error) == (1, True, None)
    assert bob.elector.may_act()


def test_a_short_outage_costs_no_term(
    enter: Enter, proxied: Client, proxy: TcpProxy, caplog: pytest.LogCaptureFixture
) -> None:
    """Refused connections are tried again until the deadline."""
    ada = enter("ada", proxied, lease_duration=15.0, renew_deadline=10.0).lead()
    proxy.mode = "refuse"
    eventually(lambda: "Trying again" in caplog.text)
    proxy.mode = "pass"
    renewed = ada.elector._renewed_at
    eventually(lambda: ada.elector._renewed_at > renewed)
    assert (len(ada.epochs), ada.stopped) == (1, 0)
    assert ada.elector.may_act()


@pytest.mark.parametrize("mode", ["hang", "reset", "refuse"])
def test_followers_survive_outages(
    enter: Enter,
    client: Client,
    proxied: Client,
    proxy: TcpProxy,
    *,
    mode: Mode,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """They go on trying, and lead when they can."""
    ada, bob = enter("ada", client).lead(), enter("bob", proxied).follow()
    proxy.mode = mode
    ada.end()
    eventually(lambda: "Trying again" in caplog.text)
    assert bob.thread.is_alive()
    proxy.mode = "pass"
    eventually(bob.elector.may_act)
    assert bob.error is None


def test_an_elector_waits_for_the_api_server(
    enter: Enter, proxied: Client, proxy: TcpProxy, caplog: pytest.LogCaptureFixture
) -> None:
    """Also at its start; the failure is reported."""
    proxy.mode = "refuse"
    ada = enter("ada", proxied).start()
    eventually(lambda: "Trying again" in caplog.text)
    proxy.mode = "pass"
    eventually(ada.elector.may_act)


def competing(api_server: ApiServer, namespace: str) -> Competitor:
    """Return a process of ours that competes for the tests' Lease."""
    return Competitor(
        "ours",
        "ada",
        kubeconfig=api_server.kubeconfig,
        namespace=namespace,
        lease=LEASE,
        times=(SHORT["lease_duration"], SHORT["renew_deadline"], SHORT["retry_period"]),
    )


@pytest.mark.conformance("LE-09")
def test_a_killed_process_is_replaced(
    enter: Enter, api_server: ApiServer, client: Client, namespace: str
) -> None:
    """When its lease has ended, which the Lease says in whole seconds."""
    with competing(api_server, namespace) as ada:
        eventually(lambda: bool(ada.acts))
        bob = enter("bob", client).follow()
        assert bob.epochs == []
        ada.kill()
    eventually(bob.elector.may_act)
    assert time.monotonic() > ada.acts[-1] / 1e9 + 1.0


@pytest.mark.conformance("LE-05")
def test_a_stopped_process_does_not_act_when_it_goes_on(
    enter: Enter, api_server: ApiServer, client: Client, namespace: str
) -> None:
    """Its last act was before its successor's first, even after a long freeze."""
    with competing(api_server, namespace) as ada:
        eventually(lambda: bool(ada.acts))
        bob = enter("bob", client).follow()
        ada.freeze()
        eventually(bob.elector.may_act)
        began = time.monotonic_ns()
        ada.thaw()
        eventually(ada.ended)
        assert ada.acts[-1] < began
        assert ada.process.returncode == 0
    assert bob.elector.may_act()
