"""One handler of an informer: the notifications that wait for it, and the thread that calls it."""

import inspect
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import msgspec

from distq.client.objects import Object
from distq.clock import Clock
from distq.errors import ConfigError
from distq.informer.stored_object import DeletedFinalStateUnknown, StoredObject
from distq.seconds import Duration, in_seconds

logger = logging.getLogger(__name__)

CAPACITY = 10_000
"""Notifications that wait for one handler; then the informer waits for it."""

STOP_CHECK_INTERVAL = 0.1
"""Seconds after which an informer that waits for a handler checks whether it must stop."""

SHORTEST_RESYNC = 1.0
"""Seconds; a shorter resync period counts as this one (client-go minimumResyncPeriod)."""

_ARGUMENTS = {"add": "obj, is_in_initial_list", "update": "old, new", "delete": "obj"}
"""The arguments of a handler's functions."""

Filter = Callable[[Object], bool]


class ResourceEventHandler(Protocol):
    """Receives an informer's notifications; called by one thread, in order (client-go ResourceEventHandler).

    The objects are the handler's own to change.
    """

    def on_add(self, obj: Object, is_in_initial_list: bool) -> None:
        """Receive a new object, or one that was there when the informer, or this handler, began."""

    def on_update(self, old: Object, new: Object) -> None:
        """Receive a changed object; an unchanged one at a resync."""

    def on_delete(self, obj: Object | DeletedFinalStateUnknown) -> None:
        """Receive a deleted object, in its last state, or in the last that was seen."""


@dataclass(frozen=True)
class ResourceEventHandlerFuncs:
    """A handler made of functions; events without a function are ignored.

    Raises ConfigError for one that cannot be called so. Source: client-go tools/cache
    ResourceEventHandlerDetailedFuncs.
    """

    add: Callable[[Object, bool], None] | None = None
    update: Callable[[Object, Object], None] | None = None
    delete: Callable[[Object | DeletedFinalStateUnknown], None] | None = None

    def __post_init__(self) -> None:
        """Refuse functions that would fail with every event, such as an ``add`` of the object alone."""
        for name, arguments in _ARGUMENTS.items():
            if (function := getattr(self, name)) is not None:
                _validate_function(function, name, arguments)

    def on_add(self, obj: Object, is_in_initial_list: bool) -> None:
        """Call ``add``."""
        if self.add:
            self.add(obj, is_in_initial_list)

    def on_update(self, old: Object, new: Object) -> None:
        """Call ``update``."""
        if self.update:
            self.update(old, new)

    def on_delete(self, obj: Object | DeletedFinalStateUnknown) -> None:
        """Call ``delete``."""
        if self.delete:
            self.delete(obj)


class Notification(msgspec.Struct, frozen=True, gc=False):
    """A call that is due to a handler, about an object."""

    type: Literal["add", "update", "delete"]
    object: StoredObject
    old: StoredObject | None = None
    in_initial_list: bool = False
    final_state_unknown: bool = False


def validate_handler(handler: object) -> None:
    """Raise ConfigError for an object that is no ResourceEventHandler."""
    methods = (getattr(handler, f"on_{name}", None) for name in _ARGUMENTS)
    if isinstance(handler, type) or not all(map(callable, methods)):
        raise ConfigError(
            f"bad handler {handler!r:.80}: no object with on_add, on_update and on_delete. "
            "Give ResourceEventHandlerFuncs(add=...), or an object that has them."
        )
    for name, arguments in _ARGUMENTS.items():
        _validate_function(getattr(handler, f"on_{name}"), f"on_{name}", arguments)


def _validate_function(function: Callable[..., object], name: str, arguments: str) -> None:
    try:
        inspect.signature(function).bind(*arguments.split(", "))
    except ValueError:
        return  # a built-in function whose parameters are not known
    except TypeError:
        raise ConfigError(
            f"bad handler {function!r:.80}: it would be called as {name}({arguments}). "
            "Give one that takes these."
        ) from None


def validate_resync_period(period: Duration) -> float:
    """Return a resync period in seconds; raise ConfigError for a bad one."""
    period = in_seconds(period)
    if not period >= 0:  # nor NaN
        raise ConfigError(f"bad resync_period: {period}. Give seconds, or 0 for never.")
    return period


class Registration:
    """A handler's place at an informer; ``add_event_handler`` returns it.

    A handler that is slow makes the informer wait once 10,000 notifications are due to it, so that memory
    stays bounded; one that raises is logged, and goes on with the next.
    """

    def __init__(
        self,
        handler: ResourceEventHandler,
        *,
        name: str,
        upstream_synced: Callable[[], bool],
        initial: Sequence[Notification],
        resync_period: float,
        only: Filter | None,
        clock: Clock,
    ) -> None:
        self._handler = handler
        self._only = only
        self._name = name
        self._clock = clock
        self._upstream_synced = upstream_synced
        self._resync_period = max(resync_period, SHORTEST_RESYNC) if resync_period > 0 else 0.0
        self._resync_at = clock.monotonic() + self._resync_period
        self._due: deque[Notification] = deque(initial)
        self._initial_left = len(self._due)
        """Notifications of the first list that the handler has not received; ``has_synced`` waits for 0."""
        self._stopped = False
        self._slow = False
        """That the handler is slow was logged, and it has not caught up since."""
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"distq-handler-{name}", daemon=True)

    def has_synced(self) -> bool:
        """Return whether the handler received everything that was there at the beginning."""
        return self._upstream_synced() and self._initial_left == 0

    @property
    def stopped(self) -> bool:
        """Return whether the handler is no longer called: it was removed, or its informer has ended."""
        return self._stopped

    @property
    def pending(self) -> int:
        """Return how many notifications wait for the handler."""
        return len(self._due)

    # For the informer

    def start(self) -> None:
        """Begin to call the handler."""
        self._thread.start()

    def put(self, notification: Notification, stop: threading.Event) -> None:
        """Add a notification; wait while too many wait for the handler, but not past ``stop``."""
        with self._changed:
            self._warn()
            while len(self._due) >= CAPACITY and not self._stopped and not stop.is_set():
                self._changed.wait(STOP_CHECK_INTERVAL)  # stop notifies no condition
            if self._stopped or stop.is_set():
                return
            self._initial_left += notification.in_initial_list
            self._due.append(notification)
            self._changed.notify_all()

    def resync_due(self) -> bool:
        """Return whether it is time for a resync, and begin the next period if so."""
        now = self._clock.monotonic()
        if not self._resync_period or now < self._resync_at:
            return False
        self._resync_at = now + self._resync_period
        return True

    def stop(self) -> None:
        """Stop calling the handler; a call under way goes on to its end."""
        with self._changed:
            self._stopped = True
            self._due.clear()
            self._changed.notify_all()

    @property
    def running(self) -> bool:
        """Return whether its thread runs."""
        return self._thread.is_alive()

    def join(self) -> None:
        """Wait until a stopped handler has returned; at once for the handler itself."""
        if self.running and self._thread is not threading.current_thread():
            self._thread.join()

    def _warn(self) -> None:
        """Log that the handler is slow: once, until it has caught up to half of ``CAPACITY``."""
        if len(self._due) >= CAPACITY and not self._slow:
            logger.warning(
                "%s: a slow handler holds its informer up: %r. The cache and other handlers wait for it. "
                "Let it hand its work to a queue.",
                self._name,
                self._handler,
            )
            self._slow = True
        elif len(self._due) <= CAPACITY // 2:
            self._slow = False

    def _run(self) -> None:
        while (notification := self._next()) is not None:
            try:
                self._call_handler(notification)
            except BaseException:  # also SystemExit: it would end this thread unnoticed
                logger.exception("%s: a handler failed on %s", self._name, notification.object.key)
            with self._changed:
                self._initial_left -= notification.in_initial_list

    def _next(self) -> Notification | None:
        with self._changed:
            self._changed.wait_for(lambda: self._due or self._stopped)
            if self._stopped:
                return None
            self._changed.notify_all()  # the informer may wait for room
            return self._due.popleft()

    def _call_handler(self, notification: Notification) -> None:
        obj = notification.object.decode()
        passes = self._only is None or self._only(obj)
        if notification.type == "update" and notification.old is not None:
            old = notification.old.decode()
            passed = self._only is None or self._only(old)
            if passed and passes:
                self._handler.on_update(old, obj)
            elif passes:
                self._handler.on_add(obj, False)
            elif passed:
                self._handler.on_delete(old)
        elif not passes:
            return
        elif notification.type == "add":
            self._handler.on_add(obj, notification.in_initial_list)
        else:
            key, unknown = notification.object.key, notification.final_state_unknown
            self._handler.on_delete(DeletedFinalStateUnknown(key, obj) if unknown else obj)
