"""All coroutines of a process run on one event loop, which lives as long as it has a user."""

import asyncio
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from typing import Any

import pytest

from distq.clock import SYSTEM_CLOCK, Clock
from distq.config import Settings
from distq.controller.controller import Controller, Reconcile
from distq.controller.manager import Manager
from distq.controller.worker import event_loop
from distq.controller.worker.event_loop import EventLoop
from distq.controller.worker.loop_executor import LoopExecutor
from distq.redisio.limits import TURN_LIMIT
from distq.testing import FakeClock
from distq.workqueue.interface import SUCCESS, Settlement
from distq.workqueue.memory import MemoryQueue
from distq.workqueue.request import Request
from tests.support.eventually import eventually


def loop_threads() -> int:
    """Return how many event loops of distq run."""
    return sum(thread.name == "distq-loop" for thread in threading.enumerate())


@pytest.mark.first_contact(19)
def test_two_controllers_of_one_process_share_a_loop() -> None:
    """So one aiohttp session, lock or queue of asyncio serves both; a Manager's end is the loop's."""
    before = loop_threads()
    loops: dict[str, asyncio.AbstractEventLoop] = {}

    async def reconcile(request: Request) -> None:
        loops[request.key] = asyncio.get_running_loop()

    queues = MemoryQueue("foos"), MemoryQueue("bars")
    manager = Manager([Controller(queue, reconcile) for queue in queues], settings=Settings())
    runner = threading.Thread(target=manager.run)
    runner.start()
    try:
        for queue in queues:
            queue.add(f"of-{queue.name}")
        eventually(lambda: len(loops) == 2)
        assert loop_threads() == before + 1
    finally:
        manager.stop()
        runner.join(30)
    assert loops["of-foos"] is loops["of-bars"]
    assert loops["of-foos"].is_closed()
    assert loop_threads() == before


def test_a_process_of_plain_functions_has_no_loop() -> None:
    """No loop runs without need."""
    before, seen = loop_threads(), threading.Event()
    queue = MemoryQueue("foos")
    manager = Manager([Controller(queue, lambda _: seen.set())], settings=Settings())
    runner = threading.Thread(target=manager.run)
    runner.start()
    try:
        queue.add("a")
        assert seen.wait(30)
        assert loop_threads() == before
    finally:
        manager.stop()
        runner.join(30)


def test_the_loop_ends_with_its_last_user_and_begins_anew() -> None:
    """One that leaves takes nothing away from the others."""
    shared = EventLoop()
    first = shared.enter()
    assert shared.enter() is first
    shared.leave()
    assert asyncio.run_coroutine_threadsafe(asyncio.sleep(0, "runs"), first).result(30) == "runs"
    shared.leave()
    assert first.is_closed()
    with shared as second:
        assert second is not first
        assert asyncio.run_coroutine_threadsafe(asyncio.sleep(0, "runs"), second).result(30) == "runs"
    assert second.is_closed()


def test_a_loop_that_was_held_at_its_end_ends_although_another_one_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its tasks would else go on, and its thread with them, for as long as the process lives."""
    monkeypatch.setattr(event_loop, "CLOSE_TIME", 0.01)
    shared, held, go = EventLoop(), threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        go.wait(60)

    first = shared.enter()
    first.call_soon_threadsafe(hold)
    assert held.wait(20)
    shared.leave()
    with shared:
        go.set()
        eventually(first.is_closed)


def test_tasks_that_are_left_over_are_cancelled_with_their_loop() -> None:
    """As by ``asyncio.run``: tasks that a reconcile started may clean up."""
    ended: list[str] = []

    async def refresh() -> None:
        try:
            await asyncio.sleep(600)
        finally:
            await asyncio.sleep(0)
            ended.append("refresh")

    async def start() -> "asyncio.Task[None]":
        task = asyncio.create_task(refresh())
        await asyncio.sleep(0)
        return task

    with EventLoop() as loop:
        task = asyncio.run_coroutine_threadsafe(start(), loop).result(30)
    assert ended == ["refresh"]
    assert task.cancelled()


@pytest.mark.parametrize("begins", ["before", "after"])
def test_they_are_cancelled_also_where_a_task_exits_in_the_moment_of_the_end(begins: str) -> None:
    """The exit takes the loop's thread out of the loop, before it has seen that it is to end, and after."""
    ended, begun, go, shared = threading.Event(), threading.Event(), threading.Event(), EventLoop()

    async def clean_up() -> None:
        try:
            await asyncio.sleep(600)
        finally:
            ended.set()

    def hold() -> None:
        begun.set()
        go.wait(20)

    async def leave() -> None:
        hold()
        raise SystemExit(3)

    loop = shared.enter()
    asyncio.run_coroutine_threadsafe(clean_up(), loop)
    if begins == "before":
        asyncio.run_coroutine_threadsafe(leave(), loop)
    else:
        loop.call_soon_threadsafe(hold)
    assert begun.wait(20)
    call_soon = loop.call_soon_threadsafe

    def call_soon_and_exit(*call: Any) -> None:
        loop.call_soon_threadsafe = call_soon  # type: ignore[method-assign]
        call_soon(*call)
        if begins == "after":
            asyncio.run_coroutine_threadsafe(leave(), loop)
        go.set()

    shared._watch.close()  # which calls, too
    loop.call_soon_threadsafe = call_soon_and_exit  # type: ignore[assignment,method-assign]
    shared.leave()
    eventually(loop.is_closed)
    assert ended.is_set()


def test_the_policy_makes_the_loop() -> None:
    """So uvloop's is taken where a program has set it."""

    class OwnLoop(asyncio.SelectorEventLoop):
        """Another kind of loop."""

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons deprecate policies

        class OwnPolicy(asyncio.DefaultEventLoopPolicy):
            def new_event_loop(self) -> asyncio.AbstractEventLoop:
                return OwnLoop()

        asyncio.set_event_loop_policy(OwnPolicy())
        try:
            with EventLoop() as loop:
                assert isinstance(loop, OwnLoop)
        finally:
            asyncio.set_event_loop_policy(None)


def _eager(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:
    """Run a coroutine at once, as ``asyncio.eager_task_factory`` does, which comes with Python 3.12."""
    if factory := getattr(asyncio, "eager_task_factory", None):
        return factory(loop, coroutine, **options)
    task, outer = asyncio.Task(asyncio.sleep(0), loop=loop), asyncio.current_task(loop)
    if outer is not None:
        asyncio.tasks._leave_task(loop, outer)
    asyncio.tasks._enter_task(loop, task)
    with suppress(StopIteration):
        coroutine.send(None)
    asyncio.tasks._leave_task(loop, task)
    if outer is not None:
        asyncio.tasks._enter_task(loop, outer)
    return task


def test_tasks_that_begin_at_once_do_not_begin_within_one_another() -> None:
    """Each of many requests that wait for a slot has its outcome, and no slot is lost."""
    finished: list[Settlement] = []

    async def reconcile(request: Request) -> None:
        del request

    loop = EventLoop()
    with loop as running:
        running.call_soon_threadsafe(running.set_task_factory, _eager)
        executor = LoopExecutor(
            loop, "foos", reconcile, 10, timeout=None, clock=SYSTEM_CLOCK, on_finished=finished.append
        )
        executor.start(lambda: None)
        requests = [Request(str(number)) for number in range(2 * TURN_LIMIT)]
        executor.submit(requests)
        eventually(lambda: len(finished) == len(requests))
        running.call_soon_threadsafe(running.set_task_factory, None)
        executor.close()
    assert all(settlement.outcome is SUCCESS for settlement in finished)


@contextmanager
def executing(
    reconcile: Reconcile, *, concurrency: int = 10, clock: Clock = SYSTEM_CLOCK
) -> Iterator[tuple[LoopExecutor, list[Settlement]]]:
    """Give an executor with a loop of its own, and the settlements that it makes."""
    finished: list[Settlement] = []
    loop = EventLoop()
    with loop:
        executor = LoopExecutor(
            loop, "foos", reconcile, concurrency, timeout=None, clock=clock, on_finished=finished.append
        )
        executor.start(lambda: None)
        yield executor, finished
        executor.close()


def reconcile_all(
    reconcile: Reconcile, requests: Sequence[Request], *, concurrency: int = 10, clock: Clock = SYSTEM_CLOCK
) -> list[Settlement]:
    """Return the settlements of these requests, which wait for slots of one loop together."""
    with executing(reconcile, concurrency=concurrency, clock=clock) as (executor, finished):
        executor.submit(requests)
        eventually(lambda: len(finished) == len(requests))
    return finished


def numbered(count: int) -> list[Request]:
    """Return so many requests."""
    return [Request(str(number)) for number in range(count)]


@pytest.mark.parametrize("waits", [True, False])
def test_no_handler_sees_a_context_variable_that_another_one_set(waits: bool) -> None:
    """Those of one slot follow one another in a task; the next task begins while another one runs."""
    seen: list[str] = []
    variable: ContextVar[str] = ContextVar("variable", default="usual")

    async def reconcile(request: Request) -> None:
        seen.append(variable.get())
        if int(request.key) % 2:
            variable.set(request.key)
        if waits:
            await asyncio.sleep(0)

    def reconcile_with_value() -> list[Settlement]:
        variable.set("of the dispatcher")
        return reconcile_all(reconcile, numbered(100))

    assert len(copy_context().run(reconcile_with_value)) == 100
    assert seen == ["usual"] * 100


def test_a_handler_that_swallows_its_cancellation_leaves_none_to_another_one() -> None:
    """A later one of that slot would take a timeout of its own for that cancellation."""
    counts: list[int] = []

    async def reconcile(request: Request) -> None:
        task = asyncio.current_task()
        assert task is not None
        counts.append(task.cancelling())
        del task  # by which its slot would notice it
        if request.key == "0":
            executor.cancel(request)
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(60)

    with executing(reconcile, concurrency=1) as (executor, finished):
        executor.submit(numbered(5))
        eventually(lambda: len(finished) == 5)
    assert counts == [0] * 5


def test_a_task_factory_sees_a_task_for_each_reconcile() -> None:
    """It may prepare tasks, as for reports of errors, or let them begin at once."""
    made: list[str] = []

    def factory(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        made.append(coroutine.__qualname__)
        return asyncio.Task(coroutine, loop=loop, **options)

    async def reconcile(request: Request) -> None:
        asyncio.get_running_loop().set_task_factory(factory)
        await asyncio.sleep(0)  # it is seen in the next round of the loop

    reconcile_all(reconcile, numbered(20), concurrency=1)
    assert made.count("LoopExecutor._work") == 18  # the first two had a task that was there before


@pytest.mark.parametrize("waits", [True, False])
def test_a_handler_that_cancels_its_task_late_hits_no_other_one(waits: bool) -> None:
    """A timer that a handler left behind, or its own task, which it cancelled without waiting."""
    first: list[asyncio.Task[Any]] = []

    async def reconcile(request: Request) -> None:
        task = asyncio.current_task()
        assert task is not None
        if request.key == "0":
            first.append(task)
            if waits:
                await asyncio.sleep(0)
            else:
                task.cancel()
        else:
            first[0].cancel()
            await asyncio.sleep(0)

    settlements = reconcile_all(reconcile, numbered(5), concurrency=1)
    assert [each.outcome for each in settlements] == [SUCCESS] * 5


def cancel_and_take_it_back(task: asyncio.Task[Any]) -> None:
    """As a handler does that stops itself and goes on."""
    task.cancel()
    task.uncancel()


def cancel_soon(task: asyncio.Task[Any]) -> None:
    """As a timer does that was left behind."""
    asyncio.get_running_loop().call_soon(task.cancel)


@pytest.mark.parametrize("leave", [cancel_and_take_it_back, cancel_soon])
def test_a_cancellation_that_a_handler_leaves_without_waiting_hits_no_other_one(
    leave: Callable[[asyncio.Task[Any]], None],
) -> None:
    """``uncancel`` of Python 3.11 and 3.12 lets the next wait be cancelled all the same."""

    async def reconcile(request: Request) -> None:
        task = asyncio.current_task()
        assert task is not None
        if request.key == "0":
            leave(task)
        else:
            await asyncio.sleep(0.001)

    settlements = reconcile_all(reconcile, numbered(5), concurrency=1)
    assert [each.outcome for each in settlements] == [SUCCESS] * 5


def test_a_callback_for_the_end_of_a_task_waits_for_no_other_handler() -> None:
    """The next handler waits for it, so it has a task of its own."""
    released = asyncio.Event()

    async def reconcile(request: Request) -> None:
        if request.key == "0":
            task = asyncio.current_task()
            assert task is not None
            task.add_done_callback(lambda _: released.set())
        else:
            await released.wait()

    assert len(reconcile_all(reconcile, numbered(2), concurrency=1)) == 2


def test_handlers_that_wait_have_all_slots_and_no_more() -> None:
    """Ten wait for one another, after ten that did not wait; the others have to wait for a slot; so again."""
    here, most = Counter[str](), [0]
    all_here = [asyncio.Event() for _ in range(3)]

    async def reconcile(request: Request) -> None:
        batch, number = divmod(int(request.key), 60)
        if number < 10:
            return
        here["now"] += 1
        here[f"in {batch}"] += 1
        most.append(here["now"])
        if here[f"in {batch}"] == 10:
            all_here[batch].set()
        await all_here[batch].wait()
        await asyncio.sleep(0)
        here["now"] -= 1

    with executing(reconcile) as (executor, finished):
        for end in (60, 120, 180):
            executor.submit(numbered(end)[end - 60 :])
            eventually(lambda end=end: len(finished) == end)  # type: ignore[misc]
    assert max(most) == 10


def test_handlers_that_do_not_wait_let_the_loop_do_other_work() -> None:
    """After 5 ms in all, by the queue's clock, not after all of them."""
    clock = FakeClock()
    began: list[str] = []
    ticks: list[int] = []

    async def reconcile(request: Request) -> None:
        if not began:
            asyncio.get_running_loop().call_soon(lambda: ticks.append(len(began)))
        began.append(request.key)
        clock.step(0.001)

    assert len(reconcile_all(reconcile, numbered(100), clock=clock)) == 100
    assert ticks == [5]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_a_left_over_task_that_wants_to_exit_does_not_keep_the_loop_from_closing(
    error: BaseException,
) -> None:
    """The library lets these two out of its loop, at the end, too."""

    async def leave() -> None:
        try:
            await asyncio.sleep(600)
        finally:
            raise error

    async def start() -> "asyncio.Task[None]":
        task = asyncio.create_task(leave())
        await asyncio.sleep(0)
        return task

    with EventLoop() as loop:
        task = asyncio.run_coroutine_threadsafe(start(), loop).result(30)
    assert loop.is_closed()
    assert task.exception() is error
