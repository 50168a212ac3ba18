"""A stream's record says what its leader failed on last, since when it leads, and nothing that is secret."""

import threading

import pytest

from distq.client.objects import Object
from distq.controller.stream.failures import LONGEST, LastError
from distq.controller.stream.relist import Replacement
from distq.controller.watches import Watches
from distq.errors import ApiError
from distq.inspector import Inspector, StreamInfo
from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.testing.fake_clock import FakeClock
from tests.controller.caching import EMULATED
from tests.controller.leading import ON_ALL_SERVERS, QUEUE, Scene
from tests.controller.test_cache_lister import RefusedClient
from tests.controller.test_stream import create
from tests.informer.pods import stepping
from tests.support.eventually import eventually
from tests.support.recording import RecordingClient
from tests.support.samples import config_map
from tests.support.tcp_proxy import TcpProxy


@ON_ALL_SERVERS
class TestInARecord:
    """As an Inspector shows it."""

    def test_the_cause_of_a_first_lists_wait_is_seen_while_it_waits(self, scene: Scene) -> None:
        """A right that is missing: nothing was committed yet, and people look for a reason."""
        client = RefusedClient(scene.kubeconfig)
        leader = scene.leader(client=client)
        leader.start()
        eventually(lambda: shown(scene))
        (stream,) = shown(scene)
        assert (stream.leader, stream.synced, stream.version) == ("leader-1", False, None)
        assert stream.last_error == "configmaps is forbidden"
        assert stream.failing_since is not None
        assert stream.last_error_at is not None
        assert stream.leader_since is not None
        assert stream.leader_since <= stream.failing_since <= stream.last_error_at
        client.refuses = False
        eventually(lambda: shown(scene)[0].synced and shown(scene)[0].failing_since is None)
        (healed,) = shown(scene)
        assert healed.last_error == "configmaps is forbidden"
        leader.stop()
        assert leader.error is None

    def test_a_refusal_of_redis_is_reported_afterwards(
        self, scene: Scene, redis_server: EmbeddedValkey
    ) -> None:
        """While it lasts nothing can be written there; then people learn that it was, and is over."""
        with TcpProxy(("127.0.0.1", redis_server.port)) as proxy:
            connection = Connection(f"redis://127.0.0.1:{proxy.port}")
            with scene.leading(connection=connection) as leader:
                proxy.mode = "refuse"
                leader.client.create(config_map(scene.namespace, "a"))
                eventually(lambda: leader.stream.last_error.about(round).get("error"))
                proxy.mode = "pass"
                eventually(lambda: shown(scene)[0].last_error)
                (stream,) = shown(scene)
                assert stream.last_error is not None
                assert stream.last_error.startswith(f"no Redis at 127.0.0.1:{proxy.port}")
                eventually(lambda: shown(scene)[0].failing_since is None)
            connection.close()

    def test_a_quiet_stream_works_again_once_its_watch_lasts(self, scene: Scene) -> None:
        """No event has to come for it, and no list."""
        with scene.leading():
            pass
        client = RecordingClient(scene.kubeconfig)
        client.refusals.append(ApiError("watch configmaps: 500 it burns", status=500))
        with scene.leading(epoch="2", client=client) as leader:
            eventually(lambda: shown(scene)[0].last_error)
            assert shown(scene)[0].last_error == "watch configmaps: 500 it burns"
            eventually(lambda: shown(scene)[0].failing_since is None)
            assert leader.stream.lists == 0

    def test_a_stream_that_does_not_go_on_reports_the_error(self, scene: Scene) -> None:
        """A function of the watch that raises, and ``on_error="stop"``."""
        works: list[bool] = []

        def keys(obj: Object) -> list[str]:
            if obj["metadata"]["name"] == "odd" and not works:
                raise ValueError("no owner")
            return ["owner"]

        client = scene.leader().client
        with scene.leading(Watches("v1/ConfigMap", keys, on_error="stop")) as leader:
            client.create(config_map(scene.namespace, "odd"))
            eventually(lambda: shown(scene)[0].failing_since)
            assert "no owner" in str(shown(scene)[0].last_error)
            works.append(True)
            eventually(lambda: shown(scene)[0].failing_since is None)
            assert leader.error is None


@EMULATED
def test_a_list_that_goes_on_is_slow_and_does_not_fail(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that ends since it was not listed in time would name an error that was over long before."""
    is_handed_over, goes_on, end = threading.Event(), threading.Event(), Replacement.end

    def end_late(replacement: Replacement, version: str) -> int:
        is_handed_over.set()
        assert goes_on.wait(20)
        return end(replacement, version)

    monkeypatch.setattr(Replacement, "end", end_late)
    create(scene, "a")
    client = RefusedClient(scene.kubeconfig)
    leader = scene.leader(client=client)
    leader.start()
    eventually(lambda: leader.stream.last_error.lasting == "configmaps is forbidden")
    client.refuses = False
    assert is_handed_over.wait(20)
    assert leader.stream.last_error.lasting == ""
    goes_on.set()
    leader.stop()


@ON_ALL_SERVERS
def test_each_leader_says_since_when_it_leads_and_nothing_of_the_one_before(scene: Scene) -> None:
    """By the server's clock; the term began before the stream did."""
    clock = FakeClock()
    client = RefusedClient(scene.kubeconfig)
    leader = scene.leader(clock=clock, client=client)
    clock.step(100)
    leader.start()
    eventually(stepping(clock, lambda: bool(shown(scene))))
    leader.stop()
    (first,) = shown(scene)
    assert first.leader_since is not None
    assert first.last_error_at is not None
    assert first.last_error_at - first.leader_since >= 100
    with scene.leading(epoch="2"):
        (second,) = shown(scene)
    assert second.leader_since is not None
    assert second.leader_since > first.leader_since
    assert second.last_error is None


def shown(scene: Scene) -> list[StreamInfo]:
    """Return the queue's streams."""
    return Inspector(scene.connection).streams(QUEUE)


class TestAlone:
    """What it makes of errors and of time."""

    def test_it_fails_since_the_first_error_after_it_worked(self) -> None:
        """The last one counts, and the time of the first."""
        clock = FakeClock()
        last = LastError(clock)
        last.over()
        assert last.about(round) == {}
        for text in "one", "two":
            clock.step(10)
            last.failed(ApiError(text))
        assert last.about(float) == {"error": "two", "error_at": 20, "failing_since": 10}
        last.over()
        assert last.about(float) == {"error": "two", "error_at": 20}
        clock.step(10)
        last.failed(ApiError("three"))
        assert last.about(float) == {"error": "three", "error_at": 30, "failing_since": 30}

    @pytest.mark.parametrize(
        ("error", "shown_error"),
        [
            (
                ApiError("no answer from https://bob:pass@10.0.0.1:6443/a: refused"),
                "no answer from https://…@10.0.0.1:6443/a: refused",
            ),
            (
                ApiError("no answer from redis://bob:p@ss@10.0.0.1:6379/0: refused"),
                "no answer from redis://…@10.0.0.1:6379/0: refused",
            ),
            (
                ApiError("a proxy said <a href='https://sso/login?token=abc&b=c'>: 502"),
                "a proxy said <a href='https://sso/login?…'>: 502",
            ),
            (ApiError("is it https://host/? Check it"), "is it https://host/? Check it"),
            (KeyError("spec"), "KeyError: 'spec'"),
            (ApiError("two\nlines"), "two lines"),
            (ApiError("x" * 5000), "x" * (LONGEST - 1) + "…"),
            (ApiError("https://" * 250_000), ("https://" * LONGEST)[: LONGEST - 1] + "…"),  # in one pass
            (ApiError("://" + "@" * 250_000), "://…@"),
            (ApiError("see http://a/b:http://c/d?e=f"), "see http://a/b:http://c/d?…"),
        ],
    )
    def test_it_is_one_bounded_line_without_secrets(self, error: Exception, shown_error: str) -> None:
        """It travels with each commit, and all users with access to Redis read it."""
        last = LastError(FakeClock())
        last.failed(error)
        assert last.about(float)["error"] == shown_error
