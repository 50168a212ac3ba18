"""The history: samples by whichever heartbeat or commit comes first, bounded, and delays no call."""

import json
from collections.abc import Callable

import pytest

from distq.errors import ConfigError, RedisRefused
from distq.inspector import Inspector, Sample
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.contents import findings
from distq.redisio.history import COARSE, FINE, samples
from distq.redisio.round_trips import run
from distq.redisio.stream_store import StreamStore
from distq.testing.embedded_valkey import EmbeddedValkey
from tests.proofs.contents.garbage import TEXTS
from tests.support.counting_connection import CountingConnection
from tests.support.populated import NOW, SECOND, Populated, key

DAY = 24 * 3600


class Past:
    """A populated queue whose heartbeats and commits come when the test says so."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.queue = Populated(connection)
        connection.execute("DEL", key("history"))
        self.now = float(NOW // SECOND // 300 * 300 + 900)
        self.session = self.queue.session
        self.said: dict[str, int | str] = {"done": 0, "failed": 0, "waiting": "-", "working": "-"}
        self.batch = "b0"

    def beat(self, seconds: float = 0, **said: int | str) -> bytes | list[object]:
        """Send a heartbeat so much later, of a process that counted so much."""
        self.pass_time(seconds)
        self.said |= said
        inputs = {"claim_duration": 90 * SECOND, "max_clock_step": 10 * SECOND}
        reply: bytes | list[object] = self.queue.store.run(
            "heartbeat", session=self.session, worker=json.dumps(self.said), **inputs
        )
        return reply

    def commit(self, seconds: float) -> None:
        """Commit nothing so much later, as a leader does each second."""
        self.pass_time(seconds)
        after, self.batch = self.batch, f"{self.batch}+"
        StreamStore(self.connection, "foos", "pods").commit(
            Commit(epoch="7", after=after, new="101", batch=self.batch)
        )

    def pass_time(self, seconds: float) -> None:
        """Let the server's clock go on, or back."""
        self.now += seconds
        self.connection.server_time = round(self.now * SECOND)

    def samples(self, back: float = 3600, every: float = 10) -> list[Sample]:
        """Return what people see."""
        return Inspector(self.connection).history(
            "foos", since=self.now - back, until=self.now + 9, every=every
        )


@pytest.fixture
def past(connection: Connection) -> Past:
    """Begin a history."""
    return Past(connection)


def test_a_sample_has_the_numbers_of_the_queue(past: Past) -> None:
    """As the Inspector counts them; the longest wait; paused or not."""
    past.queue.run("pause")
    past.beat(30)
    (sample,) = past.samples()
    (info,) = Inspector(past.connection).queues()
    for name in ("ready", "delayed", "processing", "dirty", "dead", "failing", "workers", "paused"):
        assert getattr(sample, name) == getattr(info, name), name
    assert (sample.ready, sample.dead, sample.paused) == (5, 1, True)
    assert float(sample.at) == past.now // 1
    assert info.oldest_ready is not None
    assert sample.waited == pytest.approx(past.now - info.oldest_ready, abs=0.001)


def test_the_first_of_ten_seconds_notes_it_for_all(past: Past) -> None:
    """Of any process: a worker, or where none is left the leading informer."""
    for seconds in (0, 3, 3, 3.9):
        past.beat(seconds)
    assert len(past.samples()) == 1
    past.commit(0.2)
    past.commit(1)
    past.beat(8)
    assert len(past.samples()) == 2
    past.commit(10)
    assert len(past.samples()) == 3


def test_the_count_of_settlements_outlives_its_session(past: Past) -> None:
    """Totals grow by what each session reports, with its last word, and once where that is repeated."""
    past.beat(10, done=7, failed=1)  # all that a session had before it is known here is another's
    past.beat(10, done=9, failed=1)
    past.beat(0, done=9, failed=1)
    past.queue.store.run("close", session=past.session, worker='{"done": 14, "failed": 3}')
    past.queue.store.run("close", session=past.session, worker='{"done": 14, "failed": 3}')
    past.commit(10)
    first, second, third = past.samples()
    assert [(each.done, each.failed) for each in (first, second, third)] == [(0, 0), (2, 0), (7, 2)]
    assert (second.done_per_second, second.failed_per_second) == (0.2, 0.0)
    assert (third.done_per_second, third.failed_per_second) == (0.5, 0.2)
    assert first.done_per_second is None


def test_a_rate_over_a_time_when_nothing_ran_is_none(past: Past) -> None:
    """The first sample after minutes without any has totals, and no rate that is spread over them."""
    past.beat(10)
    past.beat(10, done=1)
    past.beat(20, done=3)
    past.beat(240, done=27)
    past.beat(10, done=28)
    assert [each.done_per_second for each in past.samples()] == [None, 0.1, 0.1, None, 0.1]
    assert [each.failed_per_second for each in past.samples()] == [None, 0.0, 0.0, None, 0.0]
    assert None in [each.done_per_second for each in past.samples(every=60)][1:]
    for _ in range(2 * DAY // 300):
        past.beat(300, done=28)
    rates = [each.done_per_second for each in past.samples(back=3 * DAY, every=300)]
    assert rates.count(None) <= 2, "where only one in five minutes is left, each of them is none too far"
    past.beat(2 * 3600, done=40)
    assert past.samples(back=3 * DAY, every=300)[-1].done_per_second is None
    assert past.samples(back=3 * DAY, every=3600)[-1].done_per_second is not None


def test_a_day_is_kept_by_tens_of_seconds_and_a_week_more_by_five_minutes(past: Past) -> None:
    """And nothing beyond: the oldest gives way on every queue."""
    for _ in range(10 * DAY // 300):
        past.beat(290)
        past.beat(10)
    (fields,) = past.queue.store.read(("HLEN", "history"))
    assert fields <= FINE.chunks + COARSE.chunks + 3
    samples = past.samples(back=20 * DAY)
    assert 8 * DAY < past.now - samples[0].at <= 8 * DAY + 3600
    last_day = [sample for sample in samples if past.now - sample.at < DAY]
    assert len(last_day) == 2 * DAY // 300
    by_the_hour = past.samples(back=20 * DAY, every=3600)
    assert len(by_the_hour) == pytest.approx(8 * 24, abs=2)
    until = past.now - 2 * DAY
    for every in (10, 300):  # a moment that is past has what is left of it, however fine that was to be
        left = Inspector(past.connection).history("foos", since=until - DAY, until=until, every=every)
        assert len(left) == pytest.approx(DAY // 300, abs=1)


def test_a_chunk_has_as_many_lines_as_it_has_room_for(past: Past) -> None:
    """Thirty of ten seconds, with any number of heartbeats."""
    for _ in range(3 * 300 // 3):
        past.beat(3)
    chunks = past.connection.execute("HGETALL", key("history"))
    fine = [value for name, value in zip(chunks[::2], chunks[1::2], strict=True) if name.startswith(b"10s ")]
    assert max(chunk.count(b"\n") - 1 for chunk in fine) == 30


def test_how_long_items_waited_and_were_held_is_in_the_next_sample(past: Past) -> None:
    """By what processes say of themselves, once each, also with their last word; None where nothing was."""
    past.beat(10, waiting="c5", working="k1")  # all that a session had before it is known here is another's
    past.beat(10, waiting="c5m100", working="k1")
    past.beat(0, waiting="c5m100", working="k1")
    last_words = json.dumps(past.said | {"waiting": "c5m101", "working": "b2k1"})
    past.beat(10)
    past.queue.store.run("close", session=past.session, worker=last_words)
    past.queue.store.run("close", session=past.session, worker=last_words)
    past.commit(10)
    first, second, third, last = past.samples()
    assert (first.waiting_p50, first.working_p50) == (None, None)
    assert (second.waiting_p50, second.waiting_p99) == (3.072, 4.0755)
    assert second.working_p99 is None
    assert (third.waiting_p50, third.working_p50) == (None, None)
    assert (last.waiting_p50, last.working_p50, last.working_p99) == (3.072, 0.0015, 0.002)


def test_a_fleet_counts_together(past: Past) -> None:
    """One half of it is quick and the other slow; a process of 0.1.0 among them says nothing."""
    others = [past.queue.open(nonce) for nonce in ("quick", "slow", "old")]
    times = {"claim_duration": 90 * SECOND, "max_clock_step": 10 * SECOND}
    quick, slow = {"working": "d50"}, {"working": "p50"}
    for said in (({"working": "-"}, {"working": "-"}, {"done": 0}), (quick, slow, {"done": 9})):
        for session, worker in zip(others, said, strict=True):
            past.queue.store.run("heartbeat", session=session, worker=json.dumps(worker), **times)
    past.beat(10)
    sample = past.samples()[-1]
    assert (sample.working_p50, sample.working_p99) == (0.008, 32.4403)


@pytest.mark.slow
def test_durations_are_in_one_sample_each_for_any_resolution(past: Past) -> None:
    """Within a day and beyond it, and where one becomes the other: nothing is left out or counted twice."""
    past.beat(10)
    since = past.now
    for number in range(26 * 3600 // 10):
        past.beat(10, waiting=f"e{number + 1}")
    for every, most in ((10, 2 * 12 + DAY // 10), (60, 2 * 12 + DAY // 60), (300, 26 * 12), (3600, 26)):
        first, *others = run(past.connection, samples(past.queue.store, since, past.now, every=every))
        counted = sum(int(str(sample.waiting).removeprefix("e")) for sample in others)
        assert counted == (others[-1].at - first.at) / 10, every
        assert len(others) == pytest.approx(most, rel=0.05), every


@pytest.mark.parametrize("step", [-20, -3600, -3 * DAY, 3600, 400 * DAY])
def test_a_clock_that_jumps_leaves_a_history(past: Past, step: float) -> None:
    """Back or ahead: one sample in ten seconds, and nothing of another time is shown."""
    for _ in range(12):
        past.beat(10)
    past.pass_time(step)
    for _ in range(12):
        past.beat(10)
    found = past.samples(back=600 if step < 0 else 110)
    slots = [sample.at // 10 for sample in found]
    assert slots == sorted(set(slots))
    assert found[-1].at >= past.now - 30


def test_any_time_is_read_by_one_command(past: Past, redis_server: EmbeddedValkey) -> None:
    """An hour, a day or all of it."""
    past.beat(10)
    counting = CountingConnection(redis_server.url)
    inspector = Inspector(counting)
    for count, back in enumerate((3600, DAY, 9 * DAY), 1):
        assert inspector.history("foos", since=past.now - back, until=past.now)
        assert counting.round_trips == count
    counting.close()


def _of_a_wrong_type(past: Past) -> None:
    past.connection.execute("DEL", key("history"))
    past.connection.execute("SET", key("history"), "by hand")


def _full_of_garbage(past: Past) -> None:
    for text in TEXTS:
        past.connection.execute("HSET", key("history"), text, text)
    for place, name in enumerate(past.connection.execute("HKEYS", key("history"))):
        past.connection.execute("HSET", key("history"), name, TEXTS[place % len(TEXTS)])


@pytest.mark.parametrize("spoil", [_of_a_wrong_type, _full_of_garbage])
def test_a_history_that_is_spoilt_stops_nothing(past: Past, spoil: Callable[[Past], None]) -> None:
    """The queue goes on, and so does the history once it is a history again."""
    past.beat(10)
    spoil(past)
    assert past.beat(10, done=3) != b"LOST"
    past.commit(10)
    if spoil is _of_a_wrong_type:
        assert list(findings(past.connection)) == [
            f"WARN  {key('history')} is a string, where distq keeps a hash: none is kept. RENAME it."
        ]
        with pytest.raises(RedisRefused, match=f"WRONGTYPE {key('history')} is a string"):
            past.samples()
        past.connection.execute("DEL", key("history"))
    past.beat(10)
    assert float(past.samples()[-1].at) == past.now // 1
    past.queue.store.run("close", session=past.session, worker='{"done": 9}')


def test_spoilt_durations_cost_no_sample(past: Past) -> None:
    """In the stored ones, or in a process's report: the counts beside them stay, and the next are right."""
    long = b"a1" * 10_000
    for text in (
        *TEXTS,
        long + b" b2",
        long,
        b"z99999999999999999999 a1",
        b"a b",
        b"a-1 --",
        b"A1 b1",
        b"a1 - -",
    ):
        for ring in ("10s", "5m"):
            past.connection.execute("HSET", key("history"), f"{ring} durations", text)
        past.commit(10)
        assert float(past.samples()[-1].at) == past.now // 1, text
        past.beat(0, waiting=text.decode(errors="replace"), working="z99999999999999999999")
        past.beat(10, waiting="-", working="-")
        past.beat(10, waiting="d3", working="-")
        sample = past.samples()[-1]
        assert (float(sample.at), sample.ready, sample.waiting_p50) == (past.now // 1, 5, 0.006), text
        past.said["waiting"] = "-"
    chunks = past.connection.execute("HVALS", key("history"))
    assert max(map(len, chunks)) < 30 * 1100


@pytest.mark.parametrize(
    ("since", "until", "every"), [(5, 4, 10), (-1, 4, 10), (float("nan"), 4, 10), (1, 4, 0), (1, 1e12, 10)]
)
def test_a_time_that_is_none_is_refused(
    connection: Connection, since: float, until: float, every: float
) -> None:
    """Before anything is read."""
    with pytest.raises(ConfigError, match="bad history from"):
        Inspector(connection).history("foos", since=since, until=until, every=every)
