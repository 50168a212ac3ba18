"""Each page of a list is asked for once, and none is older than its taker's question for the version."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from distq.client.resources import Resource
from distq.errors import ApiError, Expired
from distq.informer import shared_listwatch
from distq.informer.listwatch import ListerWatcher
from distq.informer.pager import Pages
from distq.informer.shared_listwatch import shared_by
from distq.informer.wire import Page, decode_page
from distq.redisio.limits import PAGE_SIZE
from distq.testing.fake_clock import FakeClock
from distq.testing.fake_list_watch import FakeListWatch
from tests.informer.pods import pod
from tests.support.eventually import eventually

PODS = Resource("v1", "Pod", "pods", namespaced=True)
PAGES = 8


class Paged(FakeListWatch):
    """A resource of eight pages, one object each, which answers while ``answering`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.pages: list[str] = []
        self.answering = threading.Event()
        self.answering.set()

    def page(self, next_token: str = "", *, limit: int = PAGE_SIZE) -> Page:
        """Note the token and answer."""
        self.pages.append(next_token or "first")
        self.answering.wait(10)
        self._answer("list")
        number = int(next_token or 1)
        more = str(number + 1) if number < PAGES else ""
        metadata = {"resourceVersion": "100", "continue": more}
        body = {"metadata": metadata, "items": [pod(f"pod-{number}-{limit}", 10 + number)]}
        return decode_page(msgspec.json.encode(body), PODS)


@pytest.fixture
def resource() -> Paged:
    """Give a resource of eight pages."""
    return Paged()


@pytest.fixture
def clock() -> FakeClock:
    """Give a clock that the test steps."""
    return FakeClock()


@pytest.fixture
def members(resource: Paged, clock: FakeClock) -> tuple[ListerWatcher, ListerWatcher]:
    """Give two members of one shared list and watch."""
    one, other = shared_by(2, resource, clock=clock)
    return one, other


@pytest.fixture
def pool() -> Any:
    """Give threads."""
    with ThreadPoolExecutor(4) as pool:
        yield pool


def whole_list(member: ListerWatcher) -> list[str]:
    """Return the keys of a whole list."""
    pages, keys = Pages(member), []
    while not pages.ended:
        if (page := pages.next_page()) is not None:
            keys += [obj.key for obj in page.objects]
    return keys


def following(*members: ListerWatcher) -> None:
    """Let members watch: they are not about to list."""
    for member in members:
        member.watch("0").close()


def is_asked(resource: Paged, *pages: str) -> bool:
    """Wait until so many pages were asked for; return whether they were these."""
    eventually(lambda: len(resource.pages) >= len(pages))
    return resource.pages == list(pages)


def test_those_on_their_way_are_waited_for_then_each_page_is_asked_for_once(
    resource: Paged, members: tuple[ListerWatcher, ListerWatcher], clock: FakeClock, pool: ThreadPoolExecutor
) -> None:
    """At a term's start the order of the streams is unknown; each gets the whole list."""
    first = pool.submit(whole_list, members[0])
    eventually(clock.waiters)
    assert not resource.pages
    second = pool.submit(whole_list, members[1])
    limits = [50, 200, *[PAGE_SIZE] * (PAGES - 2)]  # pages grow while they are small
    expected = [f"prod/pod-{number}-{limit}" for number, limit in enumerate(limits, 1)]
    assert first.result(10) == second.result(10) == expected
    assert resource.pages == ["first", *map(str, range(2, PAGES + 1))]


def test_a_stream_that_does_not_come_is_not_waited_for_long(
    resource: Paged, members: tuple[ListerWatcher, ListerWatcher], clock: FakeClock, pool: ThreadPoolExecutor
) -> None:
    """As one whose Redis does not answer."""
    page = pool.submit(members[0].page)
    eventually(clock.waiters)
    clock.step(shared_listwatch.GATHER_TIME - 0.01)
    assert not resource.pages
    clock.step(0.02)
    assert page.result(10).version == "100"


def test_a_stream_that_begins_to_watch_instead_is_waited_for_no_longer(
    resource: Paged, members: tuple[ListerWatcher, ListerWatcher], clock: FakeClock, pool: ThreadPoolExecutor
) -> None:
    """It resumed, and needs no list."""
    page = pool.submit(members[0].page)
    eventually(clock.waiters)
    following(members[1])
    assert page.result(10).version == "100"
    assert resource.pages == ["first"]


def test_a_list_beside_watches_waits_for_no_other(
    resource: Paged, members: tuple[ListerWatcher, ListerWatcher]
) -> None:
    """A resync of one stream does not involve the others."""
    following(*members)
    assert members[0].page().version == "100"
    assert resource.pages == ["first"]


def test_a_list_that_is_asked_for_is_not_shared_with_later_streams(
    resource: Paged, members: tuple[ListerWatcher, ListerWatcher], pool: ThreadPoolExecutor
) -> None:
    """It may be older than the version of the resource that the later one got meanwhile."""
    following(*members)
    resource.answering.clear()
    first = pool.submit(members[0].page)
    assert is_asked(resource, "first")
    members[1].version()
    second = pool.submit(members[1].page)
    assert is_asked(resource, "first", "first")
    resource.answering.set()
    assert first.result(10).version == second.result(10).version == "100"


def test_streams_that_asked_for_the_version_list_together(
    resource: Paged, members: tuple[ListerWatcher, ListerWatcher], clock: FakeClock, pool: ThreadPoolExecutor
) -> None:
    """So streams whose watch came to its end together list together, where they have to."""
    following(*members)
    for member in members:
        member.version()
    pages = [pool.submit(members[0].page)]
    eventually(clock.waiters)
    pages.append(pool.submit(members[1].page))
    assert [page.result(10).version for page in pages] == ["100", "100"]
    assert resource.pages == ["first"]


def test_a_page_under_way_is_waited_for(
    resource: Paged, members: tuple[ListerWatcher, ListerWatcher], pool: ThreadPoolExecutor
) -> None:
    """Its token means the same objects for each stream; another limit is another page."""
    following(*members)
    resource.answering.clear()
    pages: list[Future[Page]] = [pool.submit(members[0].page, "2")]
    assert is_asked(resource, "2")
    pages.append(pool.submit(members[1].page, "2"))
    larger = pool.submit(members[1].page, "2", limit=2000)
    assert is_asked(resource, "2", "2")
    resource.answering.set()
    assert {page.result(10).objects[0].key for page in pages} == {f"prod/pod-2-{PAGE_SIZE}"}
    assert larger.result(10).objects[0].key == "prod/pod-2-2000"


def test_some_pages_are_kept_while_any_stream_lists(
    resource: Paged, members: tuple[ListerWatcher, ListerWatcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream that is a little late gets them, a later one asks for itself; in the end none is kept."""
    monkeypatch.setattr(shared_listwatch, "KEPT", 4)
    following(*members)
    members[1].page()
    tokens = [str(number) for number in range(2, PAGES)]
    for token in tokens:
        members[0].page(token)
    asked = len(resource.pages)
    late = [members[1].page(token).objects[0].key for token in tokens[-shared_listwatch.KEPT :]]
    assert late == [f"prod/pod-{token}-{PAGE_SIZE}" for token in tokens[-shared_listwatch.KEPT :]]
    assert len(resource.pages) == asked
    assert members[1].page(tokens[0]).objects[0].key == f"prod/pod-2-{PAGE_SIZE}"
    assert len(resource.pages) == asked + 1
    for member in members:
        member.page(str(PAGES))
    members[0].page(tokens[-1])
    assert resource.pages[-1] == tokens[-1]


@pytest.mark.parametrize("error", [ApiError("no", status=500), Expired("too old", status=410)])
def test_an_error_reaches_each_stream_that_waits_and_is_not_kept(
    resource: Paged, members: tuple[ListerWatcher, ListerWatcher], error: ApiError, pool: ThreadPoolExecutor
) -> None:
    """The next one asks again, for a first page as for any other."""
    following(*members)
    for token in "", "2":
        resource.pages.clear()
        resource.answering.clear()
        for member in members:
            member.version()
        pages = [pool.submit(member.page, token) for member in members]
        assert is_asked(resource, token or "first")
        resource.failures.append(error)
        eventually(lambda: sum(page.running() for page in pages) == 2)  # noqa: B023 - used here
        resource.answering.set()
        assert [page.exception(10) for page in pages] == [error, error]
    following(*members)
    members[1].page()  # so that pages are kept
    resource.failures.append(error)
    with pytest.raises(type(error)):
        members[0].page("2")
    assert members[0].page("2").version == "100"


def test_streams_that_share_a_page_share_no_decoded_object(
    resource: Paged, members: tuple[ListerWatcher, ListerWatcher]
) -> None:
    """A predicate may change the object that it gets; no other stream sees it."""
    following(*members)
    members[1].page()
    (mine,), (theirs,) = (member.page("2").objects for member in members)
    assert resource.pages == ["first", "2"]
    mine.metadata["labels"] = {"changed": "yes"}
    assert theirs.metadata["labels"] == {}
    assert mine.decode() == theirs.decode()


def test_large_pages_are_kept_up_to_a_number_of_bytes(
    resource: Paged, members: tuple[ListerWatcher, ListerWatcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of pages that have more bytes than one page may have, only the newest is kept."""
    monkeypatch.setattr(shared_listwatch, "LIST_BYTES", 1)
    members[1].page("1")  # so that pages are kept
    for token in ("2", "3", "3", "2"):
        members[0].page(token)
    assert resource.pages == ["1", "2", "3", "2"]
