"""What lists and watches ask for."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from distq.client import Client
from distq.client.raw import WatchResponse
from distq.errors import ApiError, ConfigError, NotFound
from distq.informer.listwatch import ListWatch
from distq.testing.fake_list_watch import FakeListWatch
from tests.informer.pods import pod
from tests.support.api_servers import ApiServer
from tests.support.eventually import eventually
from tests.support.recording import CONFIG_MAPS, Recorder, RecordingClient, running
from tests.support.samples import config_map


class Asking(RecordingClient):
    """A Client that notes the queries, and opens no watch."""

    def __init__(self, kubeconfig: Path) -> None:
        super().__init__(kubeconfig)
        self.queries: list[Mapping[str, str]] = []

    def request(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, **rest: Any
    ) -> bytes:
        """Note the query of a list."""
        if "/configmaps" in path:
            self.queries.append(query or {})
        return super().request(method, path, query=query, **rest)

    def stream(self, path: str, *, query: Mapping[str, str], **rest: Any) -> WatchResponse:  # noqa: ARG002
        """Note the query."""
        self.queries.append(query)
        raise ApiError("not in this test")


@pytest.fixture
def asking(api_server: ApiServer) -> Asking:
    """Give a Client that notes the queries."""
    return Asking(api_server.kubeconfig)


@pytest.mark.conformance("RF-02")
def test_a_watch_asks_for_bookmarks_and_for_an_end_at_random(asking: Asking) -> None:
    """After 5 to 10 minutes, so that an API server's clients do not all come back at once."""
    for _ in range(50):
        with pytest.raises(ApiError):
            ListWatch(asking, CONFIG_MAPS).watch("7")
    ends = {int(query["timeoutSeconds"]) for query in asking.queries}
    assert len(ends) > 10
    assert ends <= set(range(300, 601))
    assert all(query["allowWatchBookmarks"] == "true" for query in asking.queries)


@pytest.mark.conformance("RF-03")
def test_a_list_asks_for_the_newest_state(asking: Asking, namespace: str) -> None:
    """No version is named: not "0", for any that a cache may have."""
    asking.create(config_map(namespace, "a"))
    asking.queries.clear()
    page = ListWatch(asking, CONFIG_MAPS, namespace=namespace).page(limit=500)
    assert [obj.key for obj in page.objects] == [f"{namespace}/a"]
    assert asking.queries == [{"limit": "500"}]


@pytest.mark.conformance("RF-16")
def test_an_event_of_an_unknown_type_is_left_out_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The next events are handed over."""
    source, sink = FakeListWatch(), Recorder()
    with running(source, sink):
        eventually(sink.noted("end", "connected"))
        source.add(pod("a"))
        source.modify(pod("a", app="web"))
        source.send(b'{"type":"MOVED","object":{"metadata":{"name":"b","resourceVersion":"9"}}}')
        source.delete(pod("a"))
        eventually(sink.noted("DELETED prod/a"))
    assert [note for note in sink.notes if " " in note] == [
        "ADDED prod/a",
        "MODIFIED prod/a",
        "DELETED prod/a",
    ]
    assert "unknown event type 'MOVED' ignored" in caplog.text


@pytest.mark.parametrize("resource", ["Pod", "", "v1/", "a/b/c/d", None])
def test_a_text_that_is_no_resource_is_refused_before_anything_runs(resource: Any) -> None:
    """It would be unseen in the thread that follows it, and its caller would wait for the cache for ever."""
    message = r"bad resource .* no version or kind\. Give e\.g\. apps/v1/Deployment or v1/Pod\."
    with pytest.raises(ConfigError, match=message):
        ListWatch(Client(), resource)
    with pytest.raises(ConfigError, match=message):
        FakeListWatch(resource)


@pytest.mark.parametrize("resource", ["v1/configmaps", "v1/configmap", "v1/ConfigMaps", "v1/configMap"])
def test_an_error_for_a_plural_names_the_kind(api_server: ApiServer, resource: str) -> None:
    """Its definition needs no applying."""
    with pytest.raises(NotFound) as raised:
        ListWatch(api_server.client(), resource).page()
    assert str(raised.value) == (
        f"cannot watch {resource}: unknown to the API server. Give its kind: v1/ConfigMap."
    )


def test_a_fake_resource_changes_and_deletes_only_present_objects() -> None:
    """A test that names the wrong object gets an error; the last state is the one that was kept."""
    source = FakeListWatch()
    for change in source.modify, source.delete:
        with pytest.raises(NotFound, match=r"fake Pod prod/a: there is none. Add it first"):
            change(pod("a"))
    assert source.version() == "0"
    source.add(pod("a", app="web"))
    assert source.delete(pod("a")) == pod("a", 2, app="web")
