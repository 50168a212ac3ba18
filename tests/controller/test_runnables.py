"""What a Manager runs beside its controllers: with the term or with the process, and when it raises."""

import asyncio
import functools
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from distq.client.client import Client
from distq.config import Settings
from distq.controller import runnables
from distq.controller.controller import Controller
from distq.controller.manager import Manager
from distq.controller.runnables import Runnables
from distq.controller.term_work import TermWork
from distq.controller.worker.event_loop import EventLoop
from distq.errors import ConfigError, Stalled
from distq.testing import EmulatedApiServer
from distq.workqueue.memory import MemoryQueue
from tests.controller.test_manager import holder, managing, settings  # noqa: F401  a fixture
from tests.support.eventually import eventually


@pytest.fixture
def namespace() -> str:
    """Give the one namespace of these tests."""
    return "default"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """Give a client of an empty cluster."""
    with EmulatedApiServer() as server:
        yield Client(server.kubeconfig(tmp_path / "kubeconfig"))


def manager(client: Client | None = None, settings: Settings | None = None, **options: Any) -> Manager:  # noqa: F811
    """Return a Manager of one controller that watches nothing, whose queue is in memory."""
    controller = Controller(MemoryQueue("foos"), lambda _: None)
    return Manager([controller], client=client, settings=settings or Settings(grace_period=20.0), **options)


class Runs:
    """Runnables that say when they begin and end, by name."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def plain(self, name: str) -> Callable[[threading.Event], None]:
        """Return a plain runnable."""

        def run(stop: threading.Event) -> None:
            self.seen.append(f"{name} begins")
            stop.wait()
            self.seen.append(f"{name} ends")

        return run

    def asynchronous(self, name: str) -> Callable[[], Any]:
        """Return an ``async def`` runnable, which takes a moment to end."""

        async def run() -> None:
            self.seen.append(f"{name} begins")
            try:
                await asyncio.sleep(600)
            finally:
                await asyncio.sleep(0.01)
                self.seen.append(f"{name} ends")

        return run

    def of(self, kind: str, name: str) -> Any:
        """Return a runnable of this kind."""
        return self.plain(name) if kind == "plain" else self.asynchronous(name)


KINDS = pytest.mark.parametrize("kind", ["plain", "async"])


@KINDS
def test_the_leader_alone_runs_it_for_its_term(kind: str, client: Client, settings: Settings) -> None:  # noqa: F811
    """It begins with the term and has ended when the next process leads, also where nothing is watched."""
    runs = Runs()
    first, second = manager(client, settings), manager(client, settings)
    first.add(runs.of(kind, "first"))
    second.add(runs.of(kind, "second"))
    with managing(first) as running:
        eventually(lambda: runs.seen == ["first begins"])
        with managing(second):
            eventually(lambda: second._candidate and second._candidate._elector.get_leader())
            assert not second.is_leader()
            running.stop()
            eventually(lambda: len(runs.seen) == 3)
        assert runs.seen == ["first begins", "first ends", "second begins", "second ends"]
    assert running.error is None
    assert holder(client, "default") == ""


def test_the_lease_is_held_until_it_has_ended(client: Client, settings: Settings) -> None:  # noqa: F811
    """Another process that led meanwhile would run it, too."""
    stopping, go = threading.Event(), threading.Event()

    def report(stop: threading.Event) -> None:
        stop.wait()
        stopping.set()
        go.wait(60)

    slow = manager(client, settings)
    slow.add(report)
    with managing(slow):
        eventually(lambda: slow._leader_runnables.running)
        slow.stop()
        assert stopping.wait(20)
        assert holder(client, "default") != ""
        assert slow.is_leader()
        go.set()
    assert holder(client, "default") == ""


@KINDS
def test_a_runnable_without_leader_election_runs_in_each_process(kind: str) -> None:
    """From the begin of its work to its end, without a cluster."""
    runs = Runs()
    both = manager(), manager()
    for number, each in enumerate(both):
        each.add(runs.of(kind, str(number)), need_leader_election=False)
    with managing(both[0]), managing(both[1]):
        eventually(lambda: sorted(runs.seen) == ["0 begins", "1 begins"])
    assert sorted(runs.seen) == ["0 begins", "0 ends", "1 begins", "1 ends"]


def test_it_runs_neither_before_on_start_has_returned_nor_after_on_stop() -> None:
    """What the hooks open and close is there for it."""
    runs = Runs()
    one = manager(on_start=lambda: runs.seen.append("start"), on_stop=lambda: runs.seen.append("stop"))
    one.add(runs.plain("it"), need_leader_election=False)
    with managing(one):
        eventually(lambda: "it begins" in runs.seen)
    assert runs.seen == ["start", "it begins", "it ends", "stop"]


def test_a_worker_without_an_informer_does_not_run_the_leaders_runnables() -> None:
    """It competes for no Lease; the process that does runs it."""
    runs = Runs()
    one = manager()
    one.add(runs.plain("leader"))
    one.add(runs.plain("each"), need_leader_election=False)
    with managing(one, informer=False):
        eventually(lambda: "each begins" in runs.seen)
    assert runs.seen == ["each begins", "each ends"]


@KINDS
def test_an_error_is_logged_and_ends_no_process(
    kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Data that it cannot read would end each process of a fleet; it is called again instead."""
    monkeypatch.setattr(runnables, "FIRST_PAUSE", 0.001)
    calls: list[str] = []
    errors = iter([ValueError("bad data"), SystemExit(3), ConfigError("no such index")])

    def call() -> None:
        calls.append("")
        if (error := next(errors, None)) is not None:
            raise error

    async def report_async() -> None:
        call()

    def report(stop: threading.Event) -> None:
        call()

    one = manager()
    one.add(report if kind == "plain" else report_async, need_leader_election=False)
    with managing(one) as running:
        eventually(lambda: len(calls) == 4)
        eventually(lambda: not one._runnables.running)
        assert not running.ended()
    assert running.error is None
    assert len(calls) == 4, "one that returns is not called again"
    logged = [record.getMessage() for record in caplog.records if "failed; it begins again" in record.message]
    assert len(logged) == 3
    assert "ValueError: bad data" in caplog.text
    assert "in call" in caplog.text


def test_an_error_at_the_end_is_logged_alone(caplog: pytest.LogCaptureFixture) -> None:
    """The Manager stops for another reason."""

    def report(stop: threading.Event) -> None:
        stop.wait()
        raise OSError("cannot flush")

    one = manager()
    one.add(report, need_leader_election=False)
    with managing(one) as running:
        eventually(lambda: one._runnables.running)
    assert running.error is None
    assert "report failed at its end" in caplog.text
    assert "cannot flush" in caplog.text


def term_work(group: Runnables, over: threading.Event) -> TermWork:
    """Return the work of a term of a process that goes on."""
    return TermWork("lease", group, over=over, stopping=threading.Event())


@KINDS
def test_it_runs_again_in_a_later_term_of_the_process(kind: str) -> None:
    """As where the leader withdrew because it reached no Redis; never twice at a time."""
    runs, group = Runs(), Runnables(EventLoop())
    group.add(runs.of(kind, "it"))
    for term in (1, 2):
        over = threading.Event()
        work = term_work(group, over)
        work.begin_runnables()
        eventually(lambda term=term: len(runs.seen) == 2 * term - 1)  # type: ignore[misc]
        with pytest.raises(Stalled, match="runs on"):
            term_work(group, threading.Event()).begin_runnables()
        over.set()
        work.end(20.0, lambda error: pytest.fail(str(error)))
        assert runs.seen == ["it begins", "it ends"] * term


def test_where_one_has_no_thread_the_others_end_with_the_term(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would else run on beside those of the next leader."""
    runs, group = Runs(), Runnables(EventLoop())
    for name in ("first", "second"):
        group.add(runs.plain(name))
    start = threading.Thread.start

    def start_but_one(thread: threading.Thread) -> None:
        if runs.seen:
            raise RuntimeError("can't start new thread")
        start(thread)
        eventually(lambda: runs.seen)

    monkeypatch.setattr(threading.Thread, "start", start_but_one)
    work = term_work(group, threading.Event())
    with pytest.raises(RuntimeError, match="can't start"):
        work.begin_runnables()
    work.end(20.0, lambda error: pytest.fail(str(error)))
    eventually(lambda: runs.seen == ["first begins", "first ends"])


def test_one_that_outlives_its_term_ends_the_process() -> None:
    """Nothing else ends a thread, and the next leader runs it, too: the term waits for it."""
    go, over, errors = threading.Event(), threading.Event(), list[BaseException]()

    def report(stop: threading.Event) -> None:
        go.wait(60)

    group = Runnables(EventLoop())
    group.add(report)
    work = term_work(group, over)
    work.begin_runnables()
    over.set()
    ending = threading.Thread(target=work.end, args=(0.01, errors.append))
    ending.start()
    eventually(lambda: errors)
    assert isinstance(errors[0], Stalled)
    assert "lease: the term ended, and " in str(errors[0])
    assert "report runs on" in str(errors[0])
    assert ending.is_alive()
    go.set()
    ending.join(20)
    assert not ending.is_alive()


@pytest.mark.usefixtures("patient_shutdown")
def test_one_that_outlives_the_grace_period_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end says which."""
    monkeypatch.setattr("distq.controller.shutdown.CLOSING_TIME", 0.1)
    go = threading.Event()
    one = manager(settings=Settings(grace_period=0.1))

    def report(stop: threading.Event) -> None:
        go.wait(60)

    one.add(report, need_leader_election=False)
    with managing(one) as running:
        eventually(lambda: one._runnables.running)
    go.set()
    assert "report runs on" in str(running.error)


def test_a_coroutine_runs_on_the_loop_of_the_reconciles() -> None:
    """So it uses what they use."""
    loops: list[asyncio.AbstractEventLoop] = []

    async def note(_: object = None) -> None:
        loops.append(asyncio.get_running_loop())
        await asyncio.sleep(600)

    queue = MemoryQueue("foos")
    queue.add("a")
    one = Manager([Controller(queue, note)], settings=Settings(grace_period=0.0))
    one.add(functools.partial(note), need_leader_election=False)
    with managing(one):
        eventually(lambda: len(loops) == 2)
    assert loops[0] is loops[1]


def test_one_that_is_added_later_begins_at_once(client: Client, settings: Settings) -> None:  # noqa: F811
    """In the running term, and in a running process."""
    runs = Runs()
    one = manager(client, settings)
    one.add(runs.plain("first"))
    with managing(one):
        eventually(lambda: runs.seen == ["first begins"])
        one.add(runs.plain("second"))
        one.add(runs.plain("third"), need_leader_election=False)
        eventually(lambda: len(runs.seen) == 3)
    with pytest.raises(ConfigError, match="is stopping"):
        one.add(runs.plain("fourth"), need_leader_election=False)


def test_without_a_lease_nothing_is_added_to_the_leader() -> None:
    """It would never run: the Manager had nothing to watch when it began."""
    one = manager()
    with managing(one):
        eventually(lambda: one._is_working)
        with pytest.raises(ConfigError, match=r"cannot add .*plain.*competes for no Lease"):
            one.add(Runs().plain("it"))


def steps(stop: threading.Event) -> Iterator[None]:
    """Yield, as a user of the context would."""
    yield


async def of_one(stop: threading.Event) -> None:
    """Await nothing."""


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (5, "bad runnable: 5 is not callable. Give a function of one Event, or an async def."),
        (
            lambda: None,
            r"bad runnable: <lambda>: too many positional arguments. Give a function of one Event",
        ),
        (steps, "bad runnable: steps is a generator function"),
        (of_one, "bad runnable: of_one: missing a required argument: 'stop'. Give an async def without arg"),
    ],
)
def test_a_value_that_cannot_run_is_refused(function: Any, message: str) -> None:
    """By name, before anything runs."""
    with pytest.raises(ConfigError) as caught:
        manager().add(function)
    assert message in str(caught.value)
    with pytest.raises(ConfigError, match="leave it out for a Controller"):
        manager().add(Controller(MemoryQueue("bars"), print), need_leader_election=False)


def test_to_end_it_twice_does_not_interrupt_its_cleaning_up() -> None:
    """The end of the process and that of the term may both ask."""
    runs = Runs()
    group = Runnables(EventLoop())
    group.add(runs.asynchronous("it"))
    group.begin()
    eventually(lambda: runs.seen == ["it begins"])
    for _ in range(5):
        group.end()
        time.sleep(0.001)  # so that the loop may run between the two
    assert group.join(20)
    assert runs.seen == ["it begins", "it ends"]
