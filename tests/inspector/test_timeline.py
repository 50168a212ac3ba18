"""The timeline of an item, from its trace on each kind of Redis."""

import json
import re
from collections.abc import Iterator

import pytest

from distq.errors import ConfigError, TerminalError
from distq.inspector import Inspector, TraceEvent, Wanted
from distq.redisio import scripts
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.stream_store import StreamStore
from distq.wording import rfc3339
from distq.workqueue.interface import Result
from distq.workqueue.queue import Queue

NOW = 1_795_000_000_000_000
SECOND = 1_000_000
NESTED: list[object] = []
for _ in range(600):
    NESTED = [NESTED]


def words(script: str, **chosen: object) -> list[object]:
    """Return arguments of a script as an entry has them: those that are chosen, and zeros."""
    return [chosen.get(name, "0") for name in scripts.load(script).arguments]


class Play:
    """A traced queue, whose time goes on by the second."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        connection.server_time = NOW
        self.inspector = Inspector(connection)
        self.queue, self.other = Queue("foos", connection), Queue("foos", connection)
        self.queue.add("first")
        self.queue.settle(self.queue.get(0))

    def later(self, seconds: float) -> None:
        """Let time pass."""
        self.connection.server_time += round(seconds * SECOND)

    def forge(self, entry: dict[str, object], entry_id: str = "*") -> None:
        """Add an entry to the trace, as of a script of this version."""
        text = json.dumps({"asks": scripts.load(str(entry["call"])).asks, **entry})
        self.connection.execute("XADD", "distq:{foos}:trace", entry_id, "entry", text)

    def timeline(self, key: str | None) -> list[TraceEvent]:
        """Return the timeline of an item, of the queue for None."""
        return [event for event in self.inspector.trace("foos") if event.key == key]

    def words(self, key: str | None) -> list[str]:
        """Return it in words."""
        return [event.event for event in self.timeline(key)]


@pytest.fixture
def play(connection: Connection) -> Iterator[Play]:
    """Trace a queue."""
    play = Play(connection)
    play.inspector.trace_on("foos", seconds=3600)
    yield play
    play.queue.close()
    play.other.close()


def test_an_entry_of_another_version_is_shown_as_that(play: Play) -> None:
    """Its turn had other arguments; the states of items may have changed meanwhile."""
    play.queue.add("a")
    old = '{"call":"turn","args":["0","7-x","op","","0","1","","","","1","a","9"],"reply":["9",0,0,"",null]}'
    play.connection.execute("XADD", "distq:{foos}:trace", "*", "entry", old)
    play.queue.add("b")
    (noted,) = [event for event in play.timeline(None) if "version" in event.event]
    assert (noted.kind, noted.event) == ("queue", "an entry of another version of distq")
    assert (play.words("a"), play.words("b")) == (["added"], ["added"])


@pytest.mark.parametrize(
    "forged",
    [
        {"call": "turn", "args": ["0"], "reply": ["9"]},
        {"call": "turn", "args": 7, "reply": {"a": 1}},
        {"call": "add", "args": [], "reply": None},
        {"call": "commit", "args": ["0"], "reply": [7]},
        {"call": "open", "args": [], "reply": "7-x"},
        {"call": "requeue", "taken_back": [["a", "one"]]},
        {"call": "requeue", "cut": "long"},
        {"call": "turn", "args": [], "reply": NESTED},
        {"call": "commit", "args": words("commit", about="{}", unrouted="[" * 100_000), "reply": ["OK", 0]},
        {"call": "add", "args": words("add", items=5), "reply": [1, 1]},
        {"call": "turn", "args": words("turn")[:-1], "reply": ["9", 0, 0, None, None, [5, "1"]]},
        {"call": "pause", "taken_back": [[5, 1, "released"]]},
        {"call": "open", "args": words("open", worker='{"id": "a"}'), "reply": "9" * 5000},
    ],
)
def test_an_entry_of_a_shape_that_no_script_writes_is_shown_as_that(
    play: Play, forged: dict[str, object]
) -> None:
    """Whoever may write to Redis can forge one; the events before and behind it are shown."""
    play.queue.add("a")
    play.forge(forged)
    play.queue.add("b")
    (noted,) = [event for event in play.timeline(None) if event.event != "trace on"]
    assert noted.kind == "queue"
    assert (play.words("a"), play.words("b")) == (["added"], ["added"])


def test_a_time_that_no_date_has_is_forged(play: Play) -> None:
    """The time of an entry that has none of its own is its ID, and a fence is a time, too."""
    settled = [*words("turn", n_ok="1", settlements="a"), "9" * 18]
    play.forge({"call": "turn", "args": settled, "reply": ["9", 0, 0, None, [], []]})
    play.forge({"call": "pause"}, f"{2**64 - 9}-1")
    *_, turn, pause = play.inspector.trace("foos")
    assert (turn.event[:9], pause.event) == ("succeeded", "paused")
    assert all(rfc3339(at) for at in (turn.at, turn.since, pause.at) if at is not None)


def test_a_story_says_how_long_each_part_took(play: Play) -> None:
    """Since when an item waited when it was claimed, and for how long it was held."""
    play.queue.add("a")
    play.later(2)
    request = play.queue.get(0)
    play.later(1.5)
    play.queue.settle(request, ValueError("no luck"))
    play.later(3)
    play.queue.settle(play.queue.get(0), TerminalError("no use"))
    added, claimed, failed, due, again, parked = play.timeline("a")
    assert [each.event for each in (added, claimed, due)] == [
        "added",
        "claimed, waited 2 s",
        "its delay ended",
    ]
    assert failed.event == "failed after 1.5 s: ValueError: no luck; back in 5 ms"
    assert again.event == "claimed, waited 3 s"
    assert parked.event == "failed for good after 0 µs: TerminalError: no use; dead"
    kinds = [each.kind for each in (added, claimed, failed, due, again, parked)]
    assert kinds == ["added", "claimed", "settled", "promoted", "claimed", "settled"]
    assert failed.since == claimed.at == request.fence / 1e6
    assert (failed.at - failed.since, failed.worker) == (1.5, claimed.worker)
    assert (added.since, claimed.since, added.worker) == (None, None, None)


def test_a_story_has_the_effect_of_an_add(play: Play) -> None:
    """A place in the queue, a higher one, nothing new, or one more run."""
    for priority in (0, 0, 3, 1):
        play.queue.add("a", priority=priority)
    request = play.queue.get(0)
    play.queue.add("a")
    play.queue.settle(request, Result(requeue_after=60))
    assert play.words("a")[:4] == [
        "added",
        "added, and was pending",
        "raised from priority 0 to 3",
        "added at priority 1, and was pending",
    ]
    assert play.words("a")[5:] == ["added, to run again", "succeeded after 0 µs"]
    play.queue.add("b", after=60)
    assert play.words("b") == ["added, to wait 1m0s"]
    assert play.timeline("a")[2].kind == "raised"


def test_a_story_names_the_informer_and_its_version(play: Play) -> None:
    """What the commit says of its stream and leader."""
    StreamStore(play.connection, "foos", "v1/Pod").commit(
        Commit(
            epoch="7",
            after="",
            new="4711",
            batch="b",
            keys=["a"],
            priority=-100,
            about={"leader": "informer-1"},
            unrouted={b"bad": "why"},
        )
    )
    assert play.words("a") == ["added at priority -100 by v1/Pod at 4711 of informer-1"]
    assert play.words("bad") == ["a function of its watch failed: v1/Pod at 4711 of informer-1"]


@pytest.mark.parametrize(
    ("position", "says"),
    [
        ("4711", "at 4711"),
        ("4711~7f3a:2", "after 4711"),
        ("!~7f3a:2", "in a list"),
        ("~7f3a:2", "in a list"),
    ],
)
def test_a_story_names_the_resource_and_the_position_of_its_stream(
    play: Play, position: str, says: str
) -> None:
    """The resource, as people write it; in the midst of a list no version is reached yet."""
    StreamStore(play.connection, "foos", "foo-8a7c06").commit(
        Commit(
            epoch="7", after="", new=position, batch="b", keys=["a"], about={"resource": "example.com/v1/Foo"}
        )
    )
    assert play.words("a") == [f"added by example.com/v1/Foo {says}"]


def test_a_story_says_why_a_commit_was_refused(play: Play) -> None:
    """A later leader, or a stream that another program moved."""
    store = StreamStore(play.connection, "foos", "v1/Pod")
    store.commit(Commit(epoch="7", after="", new="4711", batch="a", keys=["a"]))
    store.commit(Commit(epoch="6", after="a", new="4712", batch="b", keys=["a"]))
    store.commit(Commit(epoch="7", after="z", new="4713", batch="c", keys=["a"]))
    assert play.words(None)[1:] == [
        "commit by v1/Pod at 4712 refused: epoch 7 leads",
        "commit by v1/Pod at 4713 refused: its stream is at 4711",
    ]


def test_a_story_says_when_the_queue_was_paused_and_the_trace_switched(play: Play) -> None:
    """The actions on the queue, and not the names of scripts."""
    play.inspector.pause("foos")
    play.inspector.resume("foos")
    play.inspector.trace_off("foos")
    assert play.words(None) == ["trace on", "paused", "resumed", "trace off"]


def test_a_story_names_the_worker_from_which_an_item_was_taken_back(play: Play) -> None:
    """The claim of a worker that died ends there, as it does in the picture."""
    play.queue.add("a")
    request = play.queue.get(0)
    for _ in range(5):
        play.later(10)
        play.other.turn([], 0)
    claimed, taken = play.timeline("a")[-2:]
    assert re.match(r"taken back after [345]0 s, (crashed|released)$", taken.event)
    assert (taken.kind, taken.worker, taken.fence) == ("taken back", claimed.worker, request.fence)
    assert taken.since == pytest.approx(claimed.at, abs=1e-4)  # a fence may be ahead of the time


def test_a_story_has_the_actions_of_people(play: Play) -> None:
    """And to how many of those that they named."""
    play.queue.add("a")
    play.inspector.park("foos", "a", "none")
    play.inspector.requeue("foos", "a")
    play.inspector.delete("foos", "a")
    assert [text for text in play.words("a") if "by hand" in text] == [
        "parked by hand, 1 of 2 items",
        "requeued by hand, 1 of 1 item",
        "deleted by hand, 1 of 1 item",
    ]
    play.queue.add("a")
    assert play.words("a")[-1] == "added"


def test_a_trace_of_some_items_shows_them_alone(play: Play) -> None:
    """No half timeline of the others is shown, though they share calls with these."""
    play.inspector.trace_on("foos", seconds=600, match="prod/*")
    play.queue.add("prod/web", "test/web")
    play.queue.add("test/db")
    play.queue.settle(play.queue.get(0))
    assert play.words("prod/web")[0] == "added"
    assert play.words("prod/web")[-1].startswith("succeeded after ")
    assert (play.words("test/web"), play.words("test/db")) == ([], [])


def test_a_look_at_one_item_passes_over_items_that_were_added_with_it(play: Play) -> None:
    """It shows all of the item and each claim of the queue; others' adds and repairs it leaves out."""
    play.inspector.trace_on("foos")
    keys = [f"ns/{number}" for number in range(50)]
    play.queue.add(*keys, priority=7)
    play.queue.add(*keys, priority=9)
    play.queue.settle(play.queue.get(0), TerminalError("no"))
    play.queue.settle(play.queue.get(0))
    play.inspector.park("foos", *keys)
    play.inspector.requeue("foos", *keys)
    (found,) = play.inspector.view("foos", Wanted(key="ns/7", calls=True)).queues
    assert [event for event in found.events if event.key == "ns/7"] == play.timeline("ns/7") != []
    claims = {"claimed", "settled"}
    others = [event for event in found.events if event.key not in {"ns/7", None}]
    assert (
        others
        == [each for each in play.inspector.trace("foos") if each.kind in claims and each.key != "ns/7"]
        != []
    )


def test_the_end_of_a_trace_is_shown(play: Play) -> None:
    """It ends by itself, or when a person ends it."""
    (info,) = play.inspector.queues()
    assert info.traced_until == NOW / 1e6 + 3600
    play.later(3600)
    assert play.inspector.queues()[0].traced_until is None


@pytest.mark.parametrize("match", ["two\nlines", "x" * 257, "\u20ac" * 100, "\ud800"])
def test_a_match_that_is_none_is_refused(connection: Connection, match: str) -> None:
    """Before anything is traced."""
    queue = Queue("foos", connection)
    queue.add("a")
    with pytest.raises(ConfigError, match="bad match"):
        Inspector(connection).trace_on("foos", match=match)
    assert Inspector(connection).traced_until("foos") is None
