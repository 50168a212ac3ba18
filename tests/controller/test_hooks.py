"""What a program runs before its first reconcile and after its last one, for each way in which it ends."""

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from distq.config import Settings
from distq.controller.controller import Controller
from distq.controller.event_queue import ONE_REQUEST, EventQueue
from distq.controller.hooks import LEAST_STOP_TIME, Hook, Hooks
from distq.controller.manager import Manager
from distq.controller.shutdown import CLOSING_TIME, Shutdown
from distq.controller.worker.event_loop import CLEAN_UP_TIME, CLOSE_TIME, EventLoop
from distq.errors import ConfigError, NotFound
from distq.workqueue.memory import MemoryQueue
from distq.workqueue.request import Request
from tests import ROOT
from tests.controller.test_dispatcher import KINDS
from tests.controller.test_manager import Running, managing
from tests.support.eventually import eventually


def hook(kind: str, function: Callable[[], object]) -> Hook:
    """Return the function, or an ``async def`` that calls it."""
    if kind == "plain":
        return function

    async def call() -> None:
        await asyncio.sleep(0)
        function()

    return call


def manager(reconcile: Any, *keys: str, grace_period: float = 20.0, **hooks: Any) -> Manager:
    """Return a manager of workers on a queue in memory that holds these keys."""
    queue = MemoryQueue("foos")
    if keys:
        queue.add(*keys)
    return Manager([Controller(queue, reconcile)], settings=Settings(grace_period=grace_period), **hooks)


@pytest.mark.first_contact(19)
@KINDS
def test_on_start_comes_before_all_reconciles_and_on_stop_after_them(kind: str) -> None:
    """Nothing is claimed before the first returned; the second finds everything settled."""
    seen: list[str] = []
    go, started = threading.Event(), threading.Event()

    def start() -> None:
        seen.append(f"start, {queue.depth()} waiting, {both._dispatchers[0].in_progress} held")

    def reconcile(request: Request) -> None:
        started.set()
        go.wait(20)
        seen.append(request.key)

    def stop() -> None:
        seen.append(f"stop, {queue.depth()} waiting, {both._dispatchers[0].in_progress} held")

    both = manager(reconcile, "a", on_start=hook(kind, start), on_stop=hook(kind, stop))
    queue: Any = both._controllers[0].queue
    with managing(both) as running:
        assert started.wait(20)
        both.stop()
        go.set()
        eventually(running.ended)
    assert running.error is None
    assert seen == ["start, 1 waiting, 0 held", "a", "stop, 0 waiting, 0 held"]


def test_both_are_awaited_on_the_loop_of_the_reconciles() -> None:
    """So on_start may open a session there, reconciles use it there, and on_stop closes it there."""
    loops: list[asyncio.AbstractEventLoop] = []

    async def note(request: Request | None = None) -> None:
        loops.append(asyncio.get_running_loop())

    with managing(manager(note, "a", on_start=note, on_stop=note)):
        eventually(lambda: len(loops) == 2)
    assert len(loops) == 3
    assert len(set(loops)) == 1
    assert loops[0].is_closed()


def test_tasks_that_on_start_began_go_on_until_the_end() -> None:
    """Also where reconciles are plain functions: the loop is there for the hooks."""
    seen: list[str] = []
    beating = threading.Event()

    async def beat() -> None:
        try:
            while True:
                await asyncio.sleep(0.001)
                if "reconciled" in seen:
                    beating.set()
        finally:
            seen.append("ended")

    async def start() -> None:
        asyncio.current_task().beat = asyncio.create_task(beat())  # type: ignore[union-attr]  # keeps it alive

    with managing(manager(lambda _: seen.append("reconciled"), "a", on_start=start)):
        assert beating.wait(20)
    assert seen == ["reconciled", "ended"]


@KINDS
def test_an_error_of_on_start_ends_the_start(kind: str) -> None:
    """It is raised as it is, with the line of it; nothing was claimed, and there is nothing to stop."""
    seen: list[str] = []

    def refuse() -> None:
        raise OSError("no such bucket")

    refusing = manager(
        lambda request: seen.append(request.key),
        "a",
        on_start=hook(kind, refuse),
        on_stop=lambda: seen.append("stop"),
    )
    with pytest.raises(OSError, match="no such bucket") as caught:
        refusing.run()
    assert caught.traceback[-1].name == "refuse"
    assert seen == []


def test_nothing_is_added_to_a_manager_whose_start_failed() -> None:
    """Nothing would ever begin it, and the caches of a Controller would stay open."""

    def fail() -> None:
        raise ValueError("no disk")

    one = manager(print, on_start=fail)
    with pytest.raises(ValueError, match="no disk"):
        one.run()
    with pytest.raises(ConfigError, match="is stopping"):
        one.add(Controller(MemoryQueue("bars"), print))
    with pytest.raises(ConfigError, match="is stopping"):
        one.add(lambda _: None, need_leader_election=False)
    assert len(one.controllers) == 1


def test_an_error_of_distq_in_on_start_shows_where_it_came_from(caplog: pytest.LogCaptureFixture) -> None:
    """Such errors leave a Manager without their frames, so those are logged."""

    def find_nothing() -> None:
        raise NotFound("no v1/Secret default/token")

    with pytest.raises(NotFound):
        manager(print, on_start=find_nothing).run()
    assert "on_start failed" in caplog.text
    assert "in find_nothing" in caplog.text


@KINDS
def test_on_stop_runs_after_the_error_that_ended_the_process_and_does_not_hide_it(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The first error is raised, that of on_stop logged beside it."""

    def fail() -> None:
        raise OSError("cannot flush")

    async def nothing() -> None:
        """Be a coroutine that is never awaited."""

    with pytest.raises(ConfigError, match="returned a coroutine"):
        manager(lambda _: nothing(), "a", on_stop=hook(kind, fail)).run()
    assert "cannot flush" in caplog.text
    assert "in fail" in caplog.text


@KINDS
def test_an_error_of_on_stop_is_the_end_where_there_is_no_other(kind: str) -> None:
    """A person has to see it."""

    def fail() -> None:
        raise OSError("cannot flush")

    failing = manager(print, on_stop=hook(kind, fail))
    failing.stop()
    with pytest.raises(OSError, match="cannot flush"):
        failing.run()


def test_a_stop_that_is_said_twice_lets_on_stop_finish() -> None:
    """Only a second signal asks for haste."""
    began, go, ended = threading.Event(), threading.Event(), threading.Event()

    async def stop() -> None:
        began.set()
        await asyncio.to_thread(go.wait, 20)
        ended.set()

    twice = manager(print, on_stop=stop)
    running = Running(twice)
    twice.stop()
    assert began.wait(20)
    twice.stop()
    assert not ended.wait(0.2)
    go.set()
    eventually(running.ended)
    assert ended.is_set()


def test_an_error_meanwhile_lets_on_stop_finish(caplog: pytest.LogCaptureFixture) -> None:
    """The error of a second controller, say, which ended as the first one did; it is no impatience."""
    event_queue, late = EventQueue(), ConfigError("cannot run bars")
    shutdown = Shutdown([], [])
    shutdown.begin(25.0)
    with Hooks(None, lambda: event_queue.put(late), EventLoop(), event_queue) as hooks:
        assert hooks.stop(shutdown) == [late]
    assert not caplog.text


@pytest.mark.parametrize("after", [0.1, 0.6])
def test_the_twin_of_the_first_signal_is_no_impatience_with_on_stop(
    after: float, caplog: pytest.LogCaptureFixture
) -> None:
    """``timeout`` of coreutils sends two, and the second may come when all but on_stop has ended."""
    now, go, event_queue = [100.0], threading.Event(), EventQueue()
    shutdown = Shutdown([], [], clock=lambda: now[0])
    shutdown.begin(25.0)
    now[0] += after

    def stop() -> None:
        event_queue.put(signal.SIGTERM)
        go.wait(0 if after < ONE_REQUEST else 60)

    with Hooks(None, stop, EventLoop(), event_queue) as hooks:
        assert hooks.stop(shutdown) == []
    go.set()
    assert ("not waiting any longer" in caplog.text) is (after > ONE_REQUEST)


def test_an_end_takes_two_seconds_beyond_the_grace_period_if_anything_hangs() -> None:
    """First all that runs, then the event loop; an ``on_stop`` that hangs in between adds half a second."""
    assert CLEAN_UP_TIME < CLOSE_TIME
    assert CLOSING_TIME + CLOSE_TIME <= 2.0
    assert LEAST_STOP_TIME <= 0.5


@KINDS
def test_on_stop_gets_the_rest_of_the_grace_period(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """Then an async one is cancelled, and a plain one left behind."""
    began, cancelled, go = threading.Event(), threading.Event(), threading.Event()

    def plain() -> None:
        began.set()
        go.wait(60)

    async def asynchronous() -> None:
        began.set()
        try:
            await asyncio.sleep(600)
        finally:
            cancelled.set()

    slow = manager(print, grace_period=2.0, on_stop=plain if kind == "plain" else asynchronous)
    running = Running(slow)
    slow.stop()
    assert began.wait(20)
    eventually(running.ended)
    go.set()
    assert running.error is None
    if kind == "async":
        eventually(cancelled.is_set)
    assert "on_stop has not ended in time" in caplog.text


def test_a_stop_while_on_start_runs_cancels_it() -> None:
    """Nothing else has begun; it may close what it had opened."""
    began, cancelled = threading.Event(), threading.Event()
    seen: list[str] = []

    async def start() -> None:
        began.set()
        try:
            await asyncio.sleep(600)
        finally:
            cancelled.set()

    with managing(manager(seen.append, "a", on_start=start, on_stop=lambda: seen.append("stop"))):
        assert began.wait(20)
    eventually(cancelled.is_set)
    assert seen == []


def test_a_process_whose_on_start_runs_is_alive_and_not_ready() -> None:
    """A rolling update waits for it."""
    began, go, seen = threading.Event(), threading.Event(), threading.Event()

    def start() -> None:
        began.set()
        go.wait(20)

    starting = manager(lambda _: seen.set(), "a", on_start=start)
    with managing(starting):
        assert began.wait(20)
        assert starting._health is not None
        assert starting._health.health() == []
        assert starting._health.readiness() == ["starting: on_start has not returned"]
        go.set()
        assert seen.wait(20)
        assert starting._health.readiness() == []


def steps() -> Iterator[None]:
    """Yield, as a user of the context would."""
    yield


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (5, "5 is not callable"),
        (lambda session: session, "<lambda>: missing a required argument: 'session'"),
        (steps, "steps is a generator function"),
    ],
)
def test_hooks_that_cannot_work_are_refused(function: Any, message: str) -> None:
    """Before anything starts, and by name."""
    for name in ("on_start", "on_stop"):
        with pytest.raises(ConfigError) as caught:
            manager(print, **{name: function})
        assert str(caught.value) == f"bad {name}: {message}. Give a function without arguments."


PROGRAM = """
import asyncio, os, sys, time
from distq import Controller, Manager
from distq.testing import MemoryQueue

def say(text):
    # no print: Python aborts where a thread that was left behind is in it as the process ends
    os.write(1, (text + "\\n").encode())

async def hang():
    say("starting")
    await asyncio.sleep(600)

def hang_plainly():
    say("starting")
    time.sleep(600)

def leave():
    sys.exit(3)

def fail():
    raise OSError("no such bucket")

queue = MemoryQueue("foos")
queue.add("a")
Manager([Controller(queue, lambda _: say("reconciled"))], on_start={hook}, on_stop=lambda: say("stop")).run()
"""


def start(name: str) -> "subprocess.Popen[str]":
    """Start a program with this hook."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.replace("{hook}", name)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("name", ["hang", "hang_plainly"])
def test_sigterm_ends_a_process_whose_on_start_hangs(name: str) -> None:
    """At once, during any wait."""
    process = start(name)
    assert process.stdout is not None
    assert process.stdout.readline() == "starting\n"
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=60)  # and not the 600 of the hook
    assert (process.returncode, output, errors) == (0, "", "")


@pytest.mark.parametrize(("name", "status"), [("leave", 3), ("fail", 1)])
def test_an_error_of_on_start_is_the_status_of_the_program(name: str, status: int) -> None:
    """With its traceback, unless it is an exit."""
    process = start(name)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (status, "")
    assert errors.endswith("OSError: no such bucket\n") is (name == "fail")
    assert ("in fail\n" in errors) is (name == "fail")
