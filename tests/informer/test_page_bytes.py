"""A list of large objects takes as little memory as one page."""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from distq.client import page_size
from distq.client.client import Client
from distq.client.http_answer import AnswerTooLarge
from distq.clock import SYSTEM_CLOCK
from distq.informer.listwatch import ListWatch
from distq.informer.pager import Pages, list_in_pages
from distq.redisio.limits import PAGE_SIZE
from tests.support.api_servers import ApiServer
from tests.support.recording import Recorder
from tests.support.samples import config_map

CONFIG_MAPS = "v1/ConfigMap"
BYTES = 64 * 1024


class Measuring(Client):
    """A Client that notes how many objects lists ask for, and how many bytes each answer has."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.limits: list[int] = []
        self.answers: list[int] = []

    def request(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, **rest: Any
    ) -> bytes:
        """Note what is asked and answered."""
        if query and "limit" in query:
            self.limits.append(int(query["limit"]))
        answer = super().request(method, path, query=query, **rest)
        self.answers.append(len(answer))
        return answer


@pytest.fixture
def client(api_server: ApiServer) -> Measuring:
    """Give a Client that measures."""
    return Measuring(api_server.kubeconfig)


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a page have 64 KiB."""
    monkeypatch.setattr(page_size, "LIST_BYTES", BYTES)


def names_of(client: Client, namespace: str) -> list[str]:
    """Return the keys that a whole list of an informer shows, in its order."""
    pages = Pages(ListWatch(client, CONFIG_MAPS, namespace=namespace))
    names: list[str] = []
    while not pages.ended:
        if (page := pages.next_page()) is not None:
            names += [obj.key for obj in page.objects]
    return names


def create(client: Client, namespace: str, sizes: Sequence[int]) -> list[str]:
    """Create a ConfigMap of each size, in the order of their names; return their keys."""
    names = [f"map-{number:03}" for number in range(len(sizes))]
    for name, size in zip(names, sizes, strict=True):
        client.create({**config_map(namespace, name), "data": {"text": "x" * size}})
    return [f"{namespace}/{name}" for name in names]


def listed(client: Client, namespace: str) -> list[str]:
    """Return the keys that the client itself lists."""
    return [f"{namespace}/{obj['metadata']['name']}" for obj in client.list(CONFIG_MAPS, namespace)]


def listed_async(client: Client, namespace: str) -> list[str]:
    """Return the keys that the client lists for a coroutine."""

    async def keys() -> list[str]:
        objects = client.aio.list(CONFIG_MAPS, namespace)
        return [f"{namespace}/{obj['metadata']['name']}" async for obj in objects]

    return asyncio.run(keys())


Listing = Callable[[Client, str], list[str]]


@pytest.mark.bound("LIST_BYTES")
@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("listing", [names_of, listed, listed_async])
def test_no_page_of_a_list_has_more_bytes_than_its_limit(
    client: Measuring, namespace: str, listing: Listing
) -> None:
    """If objects are large, or grow within the list, fewer are asked for at a time."""
    keys = create(client, namespace, [10] * 60 + [20_000] * 20 + [100_000] * 2 + [10] * 5)
    client.limits, client.answers = [], []
    assert listing(client, namespace) == keys
    assert client.limits[0] == 50
    assert 1 in client.limits  # the two that are larger than a page
    assert sorted(client.answers)[-2] > BYTES >= sorted(client.answers)[-3]


@pytest.mark.bound("PAGE_SIZE")
@pytest.mark.parametrize("listing", [names_of, listed])
def test_pages_grow_while_their_objects_are_small(
    client: Measuring, namespace: str, listing: Listing
) -> None:
    """So a list of usual objects takes two requests more than one in whole pages."""
    keys = create(client, namespace, [10] * 760)
    client.limits = []
    assert listing(client, namespace) == keys
    assert client.limits == [50, 200, PAGE_SIZE, PAGE_SIZE]


@pytest.mark.usefixtures("small_pages")
def test_the_sink_is_asked_between_two_requests(client: Measuring, namespace: str) -> None:
    """Each may take long: where several answers in a row are too large, its thread still goes on."""
    keys = create(client, namespace, [20_000] * 20)
    sink, since, most = Recorder(), 0, 0

    def position() -> str:
        nonlocal since, most
        since, most = len(client.limits), max(most, len(client.limits) - since)
        return ""

    sink.position = sink.on_page = position  # type: ignore[assignment,method-assign]
    client.limits = []
    list_watch = ListWatch(client, CONFIG_MAPS, namespace=namespace)
    list_in_pages(list_watch, sink, SYSTEM_CLOCK, threading.Event())
    assert sink.listed() == {*keys}
    assert client.limits[:3] == [50, 12, 3]
    assert most == 1


def test_an_answer_that_is_too_large_is_not_read_to_its_end(client: Measuring, namespace: str) -> None:
    """The next request has an answer of its own: no byte that was left unread."""
    create(client, namespace, [200_000] * 2)
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    with pytest.raises(AnswerTooLarge):
        client.request("GET", path, max_bytes=100_000)
    assert len(client.request("GET", path, max_bytes=1_000_000)) > 400_000
