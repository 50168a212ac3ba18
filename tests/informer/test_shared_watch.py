"""Several follow one watch, each from a place of its own; what befalls one of them is its own."""

import random
import threading
from collections.abc import Iterator

import pytest

from distq.errors import ApiError, Expired
from distq.informer import shared_watch
from distq.informer.listwatch import ListerWatcher
from distq.informer.shared_listwatch import shared_by
from distq.informer.shared_watch import SharedWatch, WatchLog
from distq.informer.wire import version_of
from distq.testing.fake_clock import FakeClock
from tests.informer.pods import pod
from tests.informer.sharing import Reader, Resource, shared_watch_threads
from tests.support.eventually import eventually

TOO_OLD = b'{"type":"ERROR","object":{"code":410,"reason":"Expired","message":"too old"}}'
GARBAGE = b'{"type":"ADDED","object":'


@pytest.fixture
def resource() -> Resource:
    """Give a resource whose version is 4."""
    resource = Resource()
    resource.happen(4)
    return resource


@pytest.fixture
def members(resource: Resource) -> tuple[ListerWatcher, ListerWatcher]:
    """Give two members of one shared list and watch."""
    one, other = shared_by(2, resource, clock=FakeClock())
    return one, other


@pytest.fixture(autouse=True)
def nothing_left(resource: Resource) -> Iterator[None]:
    """Look after each test whether all watches were closed and their threads ended."""
    yield
    eventually(lambda: not resource.open and not shared_watch_threads(), "nothing is left")


def test_several_follow_one_watch(resource: Resource, members: tuple[ListerWatcher, ListerWatcher]) -> None:
    """Each gets all events and bookmarks; the API server is asked once."""
    with Reader(members[0], "4") as first, Reader(members[1], "4") as second:
        resource.happen(2)
        resource.bookmark()
        assert first.has(5, 6, 7)
        assert second.has(5, 6, 7)
        assert resource.watches() == ["4"]


def test_a_stream_that_comes_later_gets_the_lines_newer_than_its_version(
    resource: Resource, members: tuple[ListerWatcher, ListerWatcher]
) -> None:
    """It may have got part of it by a list, or in another term."""
    with Reader(members[0], "2") as first:
        assert first.has(3, 4)
        with Reader(members[1], "3") as second:
            resource.happen()
            assert second.has(4, 5)
            assert first.has(3, 4, 5)
        assert resource.watches() == ["2"]


def test_a_watch_from_an_earlier_version_takes_the_place_of_the_open_one(
    resource: Resource, members: tuple[ListerWatcher, ListerWatcher]
) -> None:
    """A stream that followed that goes on and gets nothing twice; one watch is open."""
    with Reader(members[0], "3") as late:
        assert late.has(4)
        members[1].version()
        with Reader(members[1], "1") as early:
            assert early.has(2, 3, 4)
            eventually(lambda: len(resource.open) == 1, "the other one is closed")
            resource.happen()
            assert early.has(2, 3, 4, 5)
            assert late.has(4, 5)
    assert resource.watches() == ["3", "1"]


def test_a_stream_that_has_got_nothing_yet_goes_on_where_it_asked_to_begin(
    resource: Resource, members: tuple[ListerWatcher, ListerWatcher]
) -> None:
    """Its version is the one that it came with."""
    with Reader(members[0], "4") as late, Reader(members[1], "1") as early:
        resource.happen()
        assert early.has(2, 3, 4, 5)
        assert late.has(5)


def test_a_refusal_goes_to_the_stream_that_asked(
    resource: Resource, members: tuple[ListerWatcher, ListerWatcher]
) -> None:
    """A version that is too old for one of them is no matter of the others, and nor is any other error."""
    with Reader(members[0], "4") as first:
        for refusal in Expired("too old", status=410), ApiError("no"):
            resource.failures.append(refusal)
            with pytest.raises(type(refusal)):
                members[1].watch("1")
        resource.happen()
        assert first.has(5)
        assert resource.watches() == ["4", "1", "1"]


def test_too_old_in_an_accepted_watch_is_for_the_stream_that_opened_it(
    resource: Resource, members: tuple[ListerWatcher, ListerWatcher]
) -> None:
    """So API servers say it: 200, then an ERROR event. The others ask for themselves, and list nothing."""
    resource.forget()
    with Reader(members[0], "4") as first, Reader(members[1], "1") as second:
        resource.send(TOO_OLD)
        assert second.has("bad")
        assert first.is_sent_back()
        assert first.got == []
        with Reader(members[0], "4") as again:
            resource.happen()
            assert again.has(5)
    assert resource.watches() == ["4", "1", "4"]


def test_an_error_event_goes_to_all_streams_that_follow(
    resource: Resource, members: tuple[ListerWatcher, ListerWatcher]
) -> None:
    """Each judges for itself what it means."""
    with Reader(members[0], "4") as first, Reader(members[1], "4") as second:
        resource.happen()
        resource.send(TOO_OLD)
        assert first.has(5, "bad")
        assert second.has(5, "bad")


def test_no_stream_joins_a_watch_with_a_bad_line(
    resource: Resource, members: tuple[ListerWatcher, ListerWatcher]
) -> None:
    """A stream that comes back after it asks the API server, and does not get the line in the log again."""
    with Reader(members[0], "4") as first, Reader(members[1], "4") as second:
        resource.send(GARBAGE)
        assert first.has("bad")
        assert second.has("bad")
        with Reader(members[0], "4") as again:
            resource.happen()
            assert again.has(5)
            assert second.has("bad", 5)
    assert resource.watches() == ["4", "4"]


@pytest.mark.parametrize("error", [None, ApiError("reset")])
def test_the_end_comes_after_the_lines_before_it(
    resource: Resource, members: tuple[ListerWatcher, ListerWatcher], error: ApiError | None
) -> None:
    """To each that follows, as the error that it was, or in order; the next ones open one watch again."""
    with Reader(members[0], "4") as first, Reader(members[1], "4") as second:
        resource.happen()
        resource.end_watches(error)
        for reader in first, second:
            assert reader.has(5)
            eventually(lambda reader=reader: reader.ended)  # type: ignore[misc]
            assert reader.error is error
    with Reader(members[0], "5"), Reader(members[1], "5"):
        assert resource.watches() == ["4", "5"]


def test_a_stream_that_does_not_keep_up_is_sent_back_and_harms_no_other(
    resource: Resource, members: tuple[ListerWatcher, ListerWatcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets watches of its own until it has caught up, even if these end: the others' stays open."""
    monkeypatch.setattr(shared_watch, "WATCH_LINES", 3)
    monkeypatch.setattr(shared_watch, "AT_ONCE", 1)
    with Reader(members[0], "4") as quick, Reader(members[1], "4") as slow:
        slow.go_on.clear()
        for version in range(5, 11):
            resource.happen()
            assert quick.has(*range(5, version + 1))
            assert slow.has(5)  # it has read the first line, and stops there
        slow.go_on.set()
        assert slow.is_sent_back()
        assert slow.got == ["5"]
        for _ in range(2):
            with Reader(members[1], "5") as own:
                assert own.has(6, 7, 8, 9, 10)
        with Reader(members[1], "8") as together:
            resource.happen()
            assert together.has(9, 10, 11)
            assert quick.has(*range(5, 12))
    assert resource.watches() == ["4", "5", "5"]


def test_a_stream_that_fell_behind_opens_no_watch_for_others(
    resource: Resource, members: tuple[ListerWatcher, ListerWatcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor where it is the first that comes back after an end of the watch: they would get its backlog."""
    monkeypatch.setattr(shared_watch, "WATCH_LINES", 3)
    monkeypatch.setattr(shared_watch, "AT_ONCE", 1)
    with Reader(members[0], "4") as quick, Reader(members[1], "4") as slow:
        slow.go_on.clear()
        for version in range(5, 11):
            resource.happen()
            assert quick.has(*range(5, version + 1))
            assert slow.has(5)  # it has read the first line, and stops there
        slow.go_on.set()
        assert slow.is_sent_back()
    with Reader(members[1], "5") as own, Reader(members[0], "10") as quick:
        resource.happen()
        assert own.has(*range(6, 12))
        assert quick.has(11)
    assert resource.watches() == ["4", "5", "10"]


def test_a_stream_that_comes_back_late_harms_no_other(
    resource: Resource, members: tuple[ListerWatcher, ListerWatcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example one whose Redis was gone for long: the lines that it missed are sent to it alone."""
    monkeypatch.setattr(shared_watch, "WATCH_LINES", 3)
    with Reader(members[0], "4") as stays:
        with Reader(members[1], "4"):
            pass
        for version in range(5, 11):
            resource.happen()
            assert stays.has(*range(5, version + 1))
        with Reader(members[1], "4") as own:
            assert own.has(5, 6, 7, 8, 9, 10)
            assert len(resource.open) == 2
        assert not stays.ended
    assert resource.watches() == ["4", "4"]


def test_a_stream_that_had_all_of_a_watch_that_ended_opens_the_next_one_for_all(
    resource: Resource, members: tuple[ListerWatcher, ListerWatcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if others still follow the ended one; a stream that had not all of it stays alone."""
    monkeypatch.setattr(shared_watch, "WATCH_LINES", 3)
    with Reader(members[0], "4") as first, Reader(members[1], "4") as second:
        for version in range(5, 11):
            resource.happen()
            assert first.has(*range(5, version + 1))
            assert second.has(*range(5, version + 1))
            if version == 9:
                second.go_on.clear()
        resource.end_watches(None)
        assert first.is_sent_back()
        with Reader(members[0], "5") as alone, Reader(members[0], "10") as one:
            second.close()
            with Reader(members[1], "10") as other:
                resource.happen()
                assert one.has(11)
                assert other.has(11)
                assert alone.has(*range(6, 12))
    assert resource.watches() == ["4", "5", "10"]


def test_no_stream_joins_a_watch_that_begins_behind_its_version(
    resource: Resource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log may drop lines while a stream waits to ask: a stream behind them is sent back."""
    monkeypatch.setattr(shared_watch, "WATCH_LINES", 3)
    monkeypatch.setattr(shared_watch, "AT_ONCE", 1)
    shared = SharedWatch(resource)
    with shared.open("4", present="4") as quick, shared.open("4", present="4") as slow:
        each_quick, each_slow = iter(quick), iter(slow)
        resource.happen()
        assert [version_of(next(lines)) for lines in (each_quick, each_slow)] == ["5", "5"]
        for version in range(6, 11):
            resource.happen()
            assert version_of(next(each_quick)) == str(version)
        monkeypatch.setattr(shared_watch, "WATCH_LINES", 100)  # what follows is not about pace
        with shared.open("6", present="10") as asks:
            assert next(each_slow, None) is None
            resource.happen()
            each_asks = iter(asks)
            assert [version_of(next(each_asks)) for _ in range(5)] == ["7", "8", "9", "10", "11"]
            assert version_of(next(each_quick)) == "11"


@pytest.mark.bound("WATCH_LINES", "WATCH_BYTES")
@pytest.mark.parametrize(("bound", "value"), [("WATCH_LINES", 4), ("WATCH_BYTES", 600)])
def test_lines_that_come_faster_than_any_stream_reads_wait(
    resource: Resource,
    members: tuple[ListerWatcher, ListerWatcher],
    bound: str,
    value: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a backlog after a change of leaders: the quickest is never sent back, nor one near it."""
    monkeypatch.setattr(shared_watch, bound, value)
    monkeypatch.setattr(shared_watch, "AT_ONCE", 1)
    with Reader(members[0], "4") as first, Reader(members[1], "4") as second:
        first.go_on.clear()
        second.go_on.clear()
        resource.happen(20)
        assert first.has(5)
        assert second.has(5)
        first.go_on.set()
        second.close()
        assert first.has(*range(5, 25))
    assert resource.watches() == ["4"]


@pytest.mark.parametrize("unread", [1, 3])
def test_a_long_line_waits_until_the_quickest_has_the_lines_that_it_pushes_out(
    resource: Resource,
    members: tuple[ListerWatcher, ListerWatcher],
    unread: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Be it longer than the whole log: one large object sends back no stream that keeps up."""
    monkeypatch.setattr(shared_watch, "WATCH_BYTES", 2000)
    monkeypatch.setattr(shared_watch, "AT_ONCE", 1)
    with Reader(members[0], "4") as only:
        only.go_on.clear()
        resource.happen()
        assert only.has(5)
        resource.happen(unread)
        resource.add(pod("large", large="<" * 3000))
        resource.happen(2)
        only.go_on.set()
        assert only.has(*range(5, 9 + unread))
    assert resource.watches() == ["4"]


def test_a_stream_that_leaves_lets_the_watch_end_that_waits_for_it(
    resource: Resource, members: tuple[ListerWatcher, ListerWatcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing waits for a stream that is gone."""
    monkeypatch.setattr(shared_watch, "WATCH_LINES", 4)
    monkeypatch.setattr(shared_watch, "AT_ONCE", 1)
    with Reader(members[0], "4") as only:
        only.go_on.clear()
        resource.happen(20)
        assert only.has(5)
    eventually(lambda: not shared_watch_threads(), "the watch's thread ends")


def test_the_log_has_its_newest_line_of_any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds are kept, and no stream falls out of the log by a line that it could not have taken."""
    monkeypatch.setattr(shared_watch, "WATCH_BYTES", 10)
    log = WatchLog("4")
    assert log.covers("4")
    assert not log.covers("3")
    for _ in range(3):
        log.append(b"x" * 100)
    assert (log.first, log.end) == (2, 3)
    assert log.after(2) == [b"x" * 100]
    assert not log.covers("1000")  # what it dropped bore no version


def test_a_log_covers_all_after_the_last_line_that_it_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that has that line has missed nothing; by numbers, not by text."""
    monkeypatch.setattr(shared_watch, "WATCH_LINES", 1)
    log = WatchLog("4")
    for version in 9, 10:
        log.append(b'{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"%d"}}}' % version)
    assert [log.covers(version) for version in ("8", "9", "10", "11")] == [False, True, True, True]


def test_a_stream_that_is_past_a_cluster_that_was_put_back_is_sent_back(
    resource: Resource, members: tuple[ListerWatcher, ListerWatcher]
) -> None:
    """It asks for the version itself; in the other's watch it would wait for its own for ever."""
    resource.happen(3)
    with Reader(members[0], "6") as late:
        assert late.has(7)
        resource.put_back(to=2)
        assert members[1].version() == "2"
        with Reader(members[1], "2") as early:
            assert late.is_sent_back()
            resource.happen()
            assert early.has(3)


def test_the_last_one_closes_the_watch(
    resource: Resource, members: tuple[ListerWatcher, ListerWatcher]
) -> None:
    """The first one that leaves closes nothing."""
    with Reader(members[0], "4") as stays:
        with Reader(members[1], "4"):
            pass
        resource.happen()
        assert stays.has(5)
    eventually(lambda: not resource.open)


def test_a_streamed_list_is_not_shared(
    resource: Resource, members: tuple[ListerWatcher, ListerWatcher]
) -> None:
    """Nor is a stream from a version that is no number: its next events are unknown."""
    with Reader(members[0], "4"), members[1].watch("", stream_list=True) as lines:
        assert resource.asked == ["watch 4", "stream"]
        lines.close()


def test_one_question_is_under_way_at_a_time(
    resource: Resource, members: tuple[ListerWatcher, ListerWatcher]
) -> None:
    """A stream that comes while another opens the watch waits for that, and joins."""
    resource.answering.clear()
    readers: list[Reader] = []
    threads = [
        threading.Thread(target=lambda member=member: readers.append(Reader(member, "4")))
        for member in members
    ]
    for thread in threads:
        thread.start()
    resource.answering.set()
    for thread in threads:
        thread.join(10)
    assert resource.watches() == ["4"]
    for reader in readers:
        reader.close()


@pytest.mark.parametrize("seed", range(10))
def test_each_gets_each_event_after_its_version_once_and_in_order(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through slow streams, cuts, errors, refusals, bad lines, 410, and positions that go back."""
    monkeypatch.setattr(shared_watch, "WATCH_LINES", 5)
    monkeypatch.setattr(shared_watch, "AT_ONCE", 2)
    chance, resource = random.Random(seed), Resource()
    follow = list(map(Following, shared_by(4, resource, clock=FakeClock())))
    for one in follow:
        one.start()
    for _ in range(300):
        one = chance.choice(follow)
        chance.choices(
            [
                resource.happen,
                resource.bookmark,
                one.go_on.clear,
                one.go_on.set,
                one.go_back,
                resource.break_watches,
                lambda: resource.end_watches(ApiError("reset")),
                lambda: resource.failures.append(ApiError("unavailable")),
                lambda: resource.send(GARBAGE),
                lambda: resource.send(TOO_OLD),
                resource.compact,
            ],
            weights=[50, 10, 6, 12, 3, 3, 3, 3, 2, 2, 2],
        )[0]()
        if chance.random() < 0.4:
            eventually(lambda: all(one.is_settled(resource) for one in follow), "all are at the last version")
    for one in follow:
        one.go_on.set()
    resource.happen()
    eventually(lambda: all(one.is_settled(resource) for one in follow), "all are at the last version")
    for one in follow:
        one.end()
    assert [one.wrong for one in follow if one.wrong] == []
    assert sum(one.received for one in follow) > 300
    eventually(lambda: not resource.open and not shared_watch_threads(), "nothing is left")


class Following:
    """Follows a member for ever and notes what it should not have got; each version is one event here."""

    def __init__(self, member: ListerWatcher) -> None:
        self.version = 0
        self.received = 0
        self.wrong = ""
        self.go_on = threading.Event()
        self.go_on.set()
        self._member = member
        self._goes_back = False
        self._stopped = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def is_settled(self, resource: Resource) -> bool:
        """Return whether it got all that it can get, or something wrong."""
        return self.version == resource.newest or not self.go_on.is_set() or bool(self.wrong)

    def go_back(self) -> None:
        """Let it be at an earlier version next, as where Redis went back."""
        self._goes_back = True

    def end(self) -> None:
        """Leave."""
        self._stopped = True
        self._lines.close()
        self._thread.join(10)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopped:
            try:
                self._follow()
            except Expired:
                self._list()
            except ApiError:
                pass

    def _follow(self) -> None:
        self._member.version()
        with self._member.watch(str(self.version)) as lines:
            self._lines = lines
            for line in lines if not self._stopped else ():
                version = int(self._member.decode(line).version)
                if version != self.version + 1:
                    self.wrong = f"{version} after {self.version}"
                self.version = version
                self.received += 1
                self.go_on.wait(30)
                if self._goes_back:
                    self.version, self._goes_back = max(0, self.version - 7), False
                    return

    def _list(self) -> None:
        try:
            listed = int(self._member.page().version)
        except ApiError:
            return
        if listed < self.version:
            self.wrong = f"listed {listed} after {self.version}"
        self.version = listed
