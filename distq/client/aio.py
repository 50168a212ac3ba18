"""The Client's calls for ``async def``: each runs in a thread, so there is one client and not two."""

import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from distq.call_threads import AwaitedCalls
from distq.client.client import Client
from distq.client.objects import Object

THREADS = 32
"""Calls at a time; more wait for a thread."""

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")


def _in_thread(
    method: Callable[Concatenate[Client, Arguments], Value],
) -> "Callable[Concatenate[AsyncClient, Arguments], Coroutine[Any, Any, Value]]":

    @functools.wraps(method)
    async def call(self: "AsyncClient", /, *args: Arguments.args, **named: Arguments.kwargs) -> Value:
        return await self._calls.call(functools.partial(method, self._client, *args, **named))

    return call


class AsyncClient:
    """The Client's calls for ``async def``, from any event loop, 32 at a time: ``Client.aio``.

    A call that is cancelled while it waits for a thread is not sent. One that has its thread goes on for
    up to the client's ``timeout``: its write is done, and its answer is lost.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._calls = AwaitedCalls(THREADS, "distq-client")

    get = _in_thread(Client.get)
    get_or_raise = _in_thread(Client.get_or_raise)
    create = _in_thread(Client.create)
    update = _in_thread(Client.update)
    apply = _in_thread(Client.apply)
    patch = _in_thread(Client.patch)
    patch_status = _in_thread(Client.patch_status)
    delete = _in_thread(Client.delete)
    modify = _in_thread(Client.modify)
    create_or_update = _in_thread(Client.create_or_update)
    add_finalizer = _in_thread(Client.add_finalizer)
    remove_finalizer = _in_thread(Client.remove_finalizer)
    event = _in_thread(Client.event)
    flush_events = _in_thread(Client.flush_events)

    async def list(
        self,
        resource: str,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[Object]:
        """Yield the objects of a namespace, or of all, as ``Client.list`` does: ``async for``."""
        selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        pages = self._client._pages(resource, namespace, selectors)  # noqa: SLF001 - one client in two forms
        # None at the end: a Future cannot carry StopIteration
        while (page := await self._calls.call(lambda: next(pages, None))) is not None:
            for obj in page:
                yield obj

    async def aclose(self) -> None:
        """Wait for the calls that were made, and end the threads; a later call starts new ones."""
        await self._calls.aclose()
