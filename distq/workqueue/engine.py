"""The interface between a handle and the place of its queue: an engine, and the handle's session with it.

Redis and memory each have an engine. The handle does the rest: arguments, limits, waiting and drains.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from distq.forks import cached_property
from distq.workqueue.callbacks import Callbacks
from distq.workqueue.interface import Settlement, Turn
from distq.workqueue.options import QueueOptions
from distq.workqueue.queue_ownership import Purpose
from distq.workqueue.rate_limiters import (
    Failure,
    ScriptedRateLimiter,
    fixed,
    microseconds,
    program_of,
)
from distq.workqueue.request import Request


@dataclass(frozen=True, slots=True, eq=False)  # two failures of a key are two entries
class RateLimitedAdd:
    """Count a failure of a key, claimed or not, and delay it (client-go AddRateLimited)."""

    key: str
    attempt: int
    outcome: ClassVar[None] = None


@dataclass(frozen=True, slots=True)
class UnreadableItem:
    """End the claim of an item whose key or failure record cannot be read: it becomes dead."""

    request: Request
    outcome: ClassVar[None] = None


Entry = Settlement | RateLimitedAdd | UnreadableItem
"""The entries of a turn."""

OnClaims = Callable[[Sequence[Request]], None]
"""Receives the requests of earlier claims in the midst of a turn, from the thread that makes it."""


@dataclass
class TurnSettings:
    """The settings of a handle that each turn carries, and its callbacks.

    ``wants_links``: whether claims come with the spans that made their items pending. ``purpose`` describes
    the program that the handle claims for. ``on_cancel`` receives each request that ends unsettled.
    ``on_closed`` is called after a session in Redis was closed, in the thread that closed it. ``callbacks``
    knows which threads are in a limiter or ``on_cancel``.
    """

    options: QueueOptions = field(default_factory=QueueOptions)
    fleet_concurrency: int | None = None
    fleet_concurrency_per_flow: int | None = None
    wants_links: bool = False
    purpose: Callable[[], Purpose] | None = None
    on_cancel: Callable[[Request], None] = lambda _: None
    on_limiter_error: Callable[[], None] = lambda: None
    on_unreadable: Callable[[int], None] = lambda _: None
    on_closed: Callable[[], None] = lambda: None
    callbacks: Callbacks = field(default_factory=Callbacks)

    def inputs(self) -> dict[str, str]:
        """Return the inputs of the script: as text, for numbers would have to be found among the words."""
        return {
            **self._constants,
            "fleet_concurrency": "" if self.fleet_concurrency is None else str(self.fleet_concurrency),
            "fleet_concurrency_per_flow": str(self.fleet_concurrency_per_flow or ""),
            "wants_links": "1" if self.wants_links else "",
        }

    @cached_property
    def _constants(self) -> dict[str, str]:
        max_retries = self.options.max_retries
        return {
            "max_retries": "" if max_retries is None else str(max_retries),
            "limiter": self._program,
            "revive_after": "" if self.revive_after is None else str(self.revive_after),
            "max_clock_step": str(self.max_clock_step),
        }

    @property
    def limits_fleet(self) -> bool:
        """Return whether a claim takes the place of another one in the fleet."""
        return self.fleet_concurrency is not None or self.fleet_concurrency_per_flow is not None

    @cached_property
    def max_clock_step(self) -> int:
        """Return how far one script may move the claim clock, µs."""
        # a jump of the server's clock ends claims a third of their duration too early at most
        return microseconds(min(self.options.claim_duration / 3, 10.0))

    @cached_property
    def revive_after(self) -> int | None:
        """Return the µs after which a dead item is revived, None for never."""
        seconds = self.options.revive_dead_after
        return None if seconds is None else microseconds(seconds)

    def limiter_of(self, failure: Failure) -> str:
        """Return the limiter of one failure; this calls a custom one."""
        if self._program:
            return program_of(self.options.limiter, failure)
        with self.callbacks.running():
            return program_of(self.options.limiter, failure, self.on_limiter_error)

    def own_limiter(self, failure: Failure, delay: float | None) -> str:
        """Return the limiter of one failure, empty if it is the queue's."""
        if delay is not None:
            return fixed(delay)
        program = self.limiter_of(failure)
        return "" if program == self._program else program

    @cached_property
    def _program(self) -> str:
        """Return the limiter of all failures, empty if a custom one decides each."""
        limiter = self.options.limiter
        return limiter.program() if isinstance(limiter, ScriptedRateLimiter) else ""


class HandleSession(Protocol):
    """One handle's claims in a queue. The first turn opens it, ``close`` ends it, the next opens another.

    Safe for threads. When it is lost, each of its requests is cancelled and can no longer be settled.
    """

    def turn(
        self, entries: Sequence[Entry], want: int, ahead: int = 0, on_claims: OnClaims | None = None
    ) -> Turn:
        """Settle and claim in one step; see ``QueueHandle.turn``.

        It may claim up to ``ahead`` more items, for the next call of any thread.
        """

    def take_spare(self) -> Request | None:
        """Return an item that was claimed ahead, None if there is none."""

    def release_spare(self) -> None:
        """Release items that were claimed ahead, unless another thread makes a turn just now."""

    def take_back(self, entries: Sequence[Entry], turn: Turn) -> None:
        """Release the claims of a turn whose caller was interrupted."""

    def wait(self, seconds: float, at_most: float | None = None, want: int = 1) -> None:
        """Sleep until there may be work or ``interrupt`` is called, at most ``at_most`` seconds.

        ``seconds`` is the wait that the last turn returned. Threads that wait together may share it. Up to
        ``want`` items may be claimed at its end, for the next turn.
        """

    def interrupt(self) -> None:
        """End the running waits, or the next one, at once."""

    def stop(self) -> None:
        """Claim nothing from now on and end all waits; close the session as soon as it holds nothing.

        It waits for no turn.
        """

    def announce_stop(self) -> None:
        """Announce that the process is stopping, so that its end counts as no crash of its items."""

    def held(self) -> int:
        """Return how many claims it holds, those that no caller has yet included."""

    def is_claiming(self) -> bool:
        """Return whether a turn may still bring a claim."""

    @property
    def worker_name(self) -> str:
        """Return the name that ``distq workers`` shows, empty for a queue in memory."""

    def is_kept_alive(self) -> bool:
        """Return whether its claims are kept alive; True if they need no heartbeat."""

    def close(self) -> None:
        """Release its claims and end it."""


class Engine(Protocol):
    """The items of one queue, shared by all its handles. Callers pass validated keys, as bytes."""

    def add(
        self, keys: Sequence[bytes], *, priority: int, delay: int, max_length: int | None, link: str = ""
    ) -> tuple[int, int]:
        """Make up to 1000 keys pending, now or after ``delay`` µs.

        ``link`` refers to the span that adds them; it is kept for items pending now. Return how many were
        not pending before, and how many fitted.
        """

    def forget(self, key: bytes) -> None:
        """Drop the key's failure record, unless it is dead."""

    def num_requeues(self, key: bytes) -> int:
        """Return how many failures the key has."""

    def is_dirty(self, key: bytes) -> bool:
        """Return whether the key was added again while claimed."""

    def depth(self) -> int:
        """Return how many items wait now: ready, dirty, and delayed ones that are due."""

    def session(self, settings: TurnSettings) -> HandleSession:
        """Return a session for one handle."""
