"""The Client's calls for ``async def``, over threads."""

import asyncio
import contextlib
import contextvars
import inspect
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from distq import call_threads
from distq.client import Client, Object, aio
from distq.client.aio import AsyncClient
from distq.errors import NotFound
from tests.support.api_servers import ApiServer, write_kubeconfig
from tests.support.eventually import eventually
from tests.support.samples import config_map
from tests.support.tcp_proxy import TcpProxy

NOT_AWAITED = {
    "resolve", "forget", "authorities", "server", "namespace", "cluster_id",  # of the cluster, not of objects
    "request", "stream",  # bytes
    "api_client", "aio",
}  # fmt: skip
NOTE: contextvars.ContextVar[str] = contextvars.ContextVar("note", default="")


class HeldClient(Client):
    """Holds requests for objects until they are let go; ``held`` are their notes, ``sent`` all of them."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.resolve("v1/ConfigMap")
        self.go = threading.Event()
        self.held: list[str] = []
        self.threads: set[threading.Thread] = set()

    def request(self, method: str, path: str, **options: Any) -> bytes:
        """Wait, and send it."""
        if hasattr(self, "go"):
            self.held.append(NOTE.get())
            self.threads.add(threading.current_thread())
            assert self.go.wait(60)
        return super().request(method, path, **options)

    async def read(self, note: str) -> Object | None:
        """Read what is not there, noted so."""
        NOTE.set(note)
        return await self.aio.get("v1/ConfigMap", "default/absent")


def test_ctrl_c_while_a_call_is_submitted_blocks_no_other_call() -> None:
    """Wherever it comes as the lock is taken, others submit their calls, and these run."""
    threads = call_threads.CallThreads(1, "test")

    def interrupt(frame: FrameType, event: str, _: object) -> Any:
        if event == "return" and frame.f_code.co_name == "__enter__":
            raise KeyboardInterrupt
        return interrupt

    before = sys.gettrace()
    with contextlib.suppress(KeyboardInterrupt):
        sys.settrace(interrupt)
        try:
            threads.submit(lambda: None)
        finally:
            sys.settrace(before)
    ran = threading.Event()
    others = threading.Thread(target=lambda: threads.submit(ran.set), daemon=True)
    others.start()
    assert ran.wait(10)
    threads.close()


@pytest.fixture
def held(api_server: ApiServer) -> HeldClient:
    """Give a Client whose requests wait."""
    return HeldClient(api_server.kubeconfig)


async def until(condition: Any, what: str) -> None:
    """Wait beside the event loop."""
    await asyncio.to_thread(eventually, condition, what)


def test_all_calls_about_objects_can_be_awaited() -> None:
    """Each new call of the Client needs a coroutine here."""
    public = {name for name in dir(Client) if not name.startswith("_")}
    awaited = {name for name in dir(AsyncClient) if not name.startswith("_")}
    assert awaited - {"aclose"} == public - NOT_AWAITED
    for name in awaited - {"list", "aclose"}:
        call = getattr(AsyncClient, name)
        assert inspect.iscoroutinefunction(call)
        assert inspect.signature(call) == inspect.signature(getattr(Client, name))


def test_calls_work_as_the_clients_do(
    client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same arguments, answers and errors; lists come in pages."""
    monkeypatch.setattr("distq.client.client.PAGE_SIZE", 2)
    key = f"{namespace}/web-0"

    async def play() -> None:
        for number in range(5):
            await client.aio.create(config_map(namespace, f"web-{number}"))
        objects = client.aio.list("v1/ConfigMap", namespace, field_selector="metadata.name!=kube-root-ca.crt")
        names = [obj["metadata"]["name"] async for obj in objects]
        assert names == [f"web-{number}" for number in range(5)]
        stored = await client.aio.modify("v1/ConfigMap", key, lambda obj: obj.update(data={"color": "red"}))
        assert await client.aio.get("v1/ConfigMap", key) == stored
        assert await client.aio.delete("v1/ConfigMap", key, uid=stored["metadata"]["uid"])
        with pytest.raises(NotFound):
            await client.aio.patch("v1/ConfigMap", key, {"data": {}})

    asyncio.run(play())


def test_several_event_loops_share_it(client: Client, namespace: str) -> None:
    """One after the other and at the same time: nothing of it belongs to a loop."""
    names = [f"web-{number}" for number in range(4)]

    def create(name: str) -> None:
        asyncio.run(client.aio.create(config_map(namespace, name)))

    create(names[0])
    threads = [threading.Thread(target=create, args=(name,)) for name in names[1:]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {obj["metadata"]["name"] for obj in client.list("v1/ConfigMap", namespace)} >= set(names)


def test_at_most_so_many_calls_run_at_a_time(held: HeldClient) -> None:
    """The others wait for a thread, and come to no harm; each sees its caller's context."""

    async def play() -> None:
        held.go.set()
        await held.read("one that leaves its thread idle")
        held.go.clear()
        held.held.clear()
        notes = [f"call {number}" for number in range(aio.THREADS + 3)]
        calls = [asyncio.create_task(held.read(note)) for note in notes]
        await until(lambda: len(held.held) == aio.THREADS, "all threads work")
        held.go.set()
        assert await asyncio.gather(*calls) == [None] * len(calls)
        assert sorted(held.held) == sorted(notes)
        assert len(held.threads) == aio.THREADS
        await held.aio.aclose()

    asyncio.run(play())


def test_a_cancelled_call_ends_at_once(held: HeldClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that waits for a thread is never sent; one that was sent goes on, and its answer is dropped."""
    monkeypatch.setattr(aio, "THREADS", 1)

    async def play() -> None:
        sent = asyncio.create_task(held.read("sent"))
        await until(lambda: held.held == ["sent"], "the first has the thread")
        waiting = asyncio.create_task(held.read("waiting"))
        await asyncio.sleep(0)
        for call in (waiting, sent):
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        held.go.set()
        assert await held.read("next") is None
        assert held.held == ["sent", "next"]

    asyncio.run(play())


def test_a_call_for_which_there_is_no_thread_is_not_sent_later(
    held: HeldClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It raises, and the next one goes on as if it had not been."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def play() -> None:
        held.go.set()
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            with pytest.raises(RuntimeError):
                await held.read("for which there is no thread")
        await held.read("the next")
        assert held.held == ["the next"]
        await held.aio.aclose()

    asyncio.run(play())


def test_closing_waits_and_ends_the_threads(held: HeldClient) -> None:
    """Earlier calls are answered; a call after it starts a thread anew."""

    async def play() -> None:
        call = asyncio.create_task(held.read("before"))
        await until(lambda: held.held, "it has a thread")
        closing = asyncio.create_task(held.aio.aclose())
        await asyncio.sleep(0)
        assert not closing.done()
        held.go.set()
        assert await call is None
        await closing
        [thread] = held.threads
        assert not thread.is_alive()
        await held.aio.aclose()
        assert await held.read("after") is None
        assert len(held.threads) == 2

    asyncio.run(play())


def test_threads_end_when_nothing_is_called(
    client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that is never closed leaves none behind; the next call starts one."""
    monkeypatch.setattr(call_threads, "IDLE_SECONDS", 0.01)
    before = set(threading.enumerate())

    async def play() -> None:
        for _ in range(3):
            assert await client.aio.get("v1/ConfigMap", f"{namespace}/absent") is None
            await until(lambda: not named(before, "distq-client"), "no thread of its own")

    asyncio.run(play())


def test_a_thread_that_waits_keeps_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of objects is let go when its caller has read it, and not with the next call."""
    monkeypatch.setattr(call_threads, "IDLE_SECONDS", 600.0)
    threads = call_threads.CallThreads(1, "test")
    answer = weakref.ref(threads.submit(threading.Event).result())
    eventually(lambda: answer() is None)
    threads.close()


def named(before: set[threading.Thread], name: str) -> list[threading.Thread]:
    """Return the threads of this name that are new."""
    return [thread for thread in threading.enumerate() if thread.name == name and thread not in before]


def test_a_call_that_hangs_keeps_no_process_from_its_end(tmp_path: Path) -> None:
    """A cancelled reconcile's request to a silent server is left behind, also by a wait for its end."""
    with TcpProxy(("127.0.0.1", 1)) as proxy:
        proxy.mode = "hang"
        write_kubeconfig(
            tmp_path / "kubeconfig", cluster={"server": f"http://127.0.0.1:{proxy.port}"}, user={}
        )
        program = f"""
import asyncio
from distq.client import Client
client = Client({str(tmp_path / "kubeconfig")!r}, timeout=600)
for coroutine in client.aio.get("v1/Namespace", "default"), client.aio.aclose():
    try:
        asyncio.run(asyncio.wait_for(coroutine, 0.1))
    except TimeoutError:
        print("cancelled")
"""
        command = [sys.executable, "-W", "error", "-c", program]
        done = subprocess.run(command, check=True, timeout=60, capture_output=True, text=True)
    assert done.stdout == "cancelled\ncancelled\n"


def test_calls_work_in_a_forked_child(api_server: ApiServer) -> None:
    """The parent's threads are not in the child, which starts its own."""
    program = f"""
import asyncio, os
from distq.client import Client
client = Client({str(api_server.kubeconfig)!r})
def read():
    assert asyncio.run(client.aio.get("v1/Namespace", "default"))
read()
child = os.fork()
read()
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    # Python 3.12 warns of every fork beside threads
    ignored = "ignore:This process:DeprecationWarning"
    command = [sys.executable, "-W", "error", "-W", ignored, "-c", program]
    subprocess.run(command, check=True, timeout=60)


def test_a_fork_while_another_thread_begins_a_call_leaves_its_child_usable() -> None:
    """The lock that the thread held is not released in the child, where the loop would wait for ever."""
    program = """
import asyncio, os, signal
from distq.call_threads import AwaitedCalls
calls = AwaitedCalls(1, "test")
calls._lock.acquire()
child = os.fork()
if child == 0:
    signal.alarm(10)
    os._exit(asyncio.run(calls.call(lambda: 7)))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=20)
