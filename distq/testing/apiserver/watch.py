"""WATCH: one open stream of changes, from a version in the past, the present or the future.

A stream starts with what the history holds (or, when asked, with the whole
state in key order and a marked bookmark), then follows the collection.
Source: apiserver pkg/storage/cacher and pkg/endpoints/handlers/watch.go.
"""

import asyncio
import contextlib
import math
import random
from collections.abc import AsyncIterator

from distq.testing.apiserver.causes import forbidden, unsupported
from distq.testing.apiserver.listing import ListOptions, parse_version, reach
from distq.testing.apiserver.representation import PARTIAL_LIST, Representation, error_event
from distq.testing.apiserver.selectors import Selector
from distq.testing.apiserver.status import StatusError, invalid_options
from distq.testing.apiserver.store import Store, Stored, StoreEvent

_MIN_SECONDS = 1800.0
"""Of a stream whose client does not say how long it is to be."""

_MAX_PENDING = 100_000
"""Lines that a client may lag behind before its stream is ended."""

_BOOKMARKS_BEFORE_END = (2.0, 1.0)


def _validate(options: ListOptions) -> None:
    field = "resourceVersionMatch"
    causes = []
    if options.send_initial_events is not None and options.match != "NotOlderThan":
        rule = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        causes.append(forbidden(field, rule))
    if options.match and options.send_initial_events is None:
        rule = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        causes.append(forbidden(field, rule))
    if options.match:
        causes += unsupported(field, options.match, ["NotOlderThan"])
    if causes:
        raise invalid_options("ListOptions", *causes)


class Watch:
    """One stream: iterate its chunks, then close it."""

    def __init__(
        self,
        store: Store,
        options: ListOptions,
        selector: Selector,
        representation: Representation,
        *,
        bookmark_period: float,
    ) -> None:
        _validate(options)
        collection = store.collection(selector.identity)
        # at random, so that not all clients come back at once
        timeout = options.timeout or _MIN_SECONDS * random.uniform(1, 2)
        self._now = asyncio.get_running_loop().time
        if self._now() < collection.initializing_until:
            message, details = "storage is (re)initializing", {"retryAfterSeconds": 1}
            raise StatusError(429, message, details=details)
        self._store = store
        self._collection = collection
        self._selector = selector
        self._representation = representation
        self._after = parse_version(options.resource_version)
        wanted = options.send_initial_events
        self._initial = self._after == 0 if wanted is None else wanted
        self._deadline = self._now() + timeout
        self._before_end = _BOOKMARKS_BEFORE_END if timeout > max(_BOOKMARKS_BEFORE_END) else ()
        self._bookmark_period = bookmark_period if options.bookmarks else None
        self._next_bookmark = self._after_this_bookmark()
        self._pending: list[bytes] = []
        self._wake = asyncio.Event()
        self._ended = False

    async def chunks(self) -> AsyncIterator[bytes]:
        """Iterate the lines, some at a time, until the stream ends."""
        try:
            await self._begin()
        except StatusError as error:
            yield error_event(error)
            return
        self._collection.listeners.add(self)
        while self._pending or not (self._ended or self._now() >= self._deadline):
            if self._now() >= self._next_bookmark:
                self._bookmark()
            if self._pending:
                if self._representation.form == PARTIAL_LIST:
                    return  # as the real one: 200, then nothing, then the end at the first line
                chunk, self._pending = b"".join(self._pending), []
                yield chunk
            else:
                await self._wait_until(min(self._next_bookmark, self._deadline))

    def offer(self, event: StoreEvent) -> None:
        """Take a change, as the selector sees it."""
        if event.current.revision <= self._after:
            return
        if len(self._pending) > _MAX_PENDING:
            self.end()
        # an object that leaves the selector is DELETED, one that enters it ADDED
        before = event.before if event.before and self._selector.matches(event.before) else None
        if not event.gone and self._selector.matches(event.current):
            self._send("MODIFIED" if before else "ADDED", event.current)
        elif before:
            self._send("DELETED", before.at(event.current.revision))

    def end(self) -> None:
        """End the stream after what is pending."""
        self._ended = True
        self._wake.set()

    def close(self) -> None:
        """Stop listening."""
        self._collection.listeners.discard(self)

    async def _begin(self) -> None:
        if self._initial:
            await reach(self._store, self._after)
            self._send_state()
            return
        if self._after == 0:
            self._after = self._store.revision
        if self._after < (oldest := self._collection.watch_floor):
            raise StatusError(410, f"too old resource version: {self._after} ({oldest})")
        for event in self._collection.since(self._after):
            self.offer(event)

    def _send_state(self) -> None:
        self._after = self._store.revision
        for stored in filter(self._selector.matches, self._collection.scan(self._selector.prefix)):
            self._send("ADDED", stored)
        if self._bookmark_period is not None:
            self._pending.append(self._representation.bookmark(self._after, initial_events_end=True))

    def _send(self, kind: str, stored: Stored) -> None:
        self._pending.append(self._representation.event(kind, stored))
        self._wake.set()

    def _bookmark(self) -> None:
        self._next_bookmark = self._after_this_bookmark()
        if self._store.revision >= self._after:  # a watch from the future stays silent
            self._pending.append(self._representation.bookmark(self._store.revision))

    def _after_this_bookmark(self) -> float:
        if self._bookmark_period is None:
            return math.inf
        now = self._now()
        regular = now + self._bookmark_period + random.uniform(-1, 1) * self._bookmark_period / 60
        before_end = [self._deadline - seconds for seconds in self._before_end]
        return min([regular, *(time for time in before_end if time > now)])

    async def _wait_until(self, time: float) -> None:
        self._wake.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(time):
                await self._wake.wait()
