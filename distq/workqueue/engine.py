"""What a handle needs of where its queue lives: an engine for all handles, and its own session with it.

Redis and memory each have an engine; arguments, limits, waiting for items and drains are the handle's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from distq.workqueue.interface import Request, Settlement, Turn
from distq.workqueue.options import QueueOptions
from distq.workqueue.queue_ownership import Purpose
from distq.workqueue.rate_limiters import (
    Failure,
    ScriptedRateLimiter,
    fixed,
    microseconds,
    program_of,
)


@dataclass(frozen=True, slots=True)
class RateLimitedAdd:
    """Count a failure of a key that nobody needs to hold, and delay it (client-go AddRateLimited)."""

    key: str
    attempt: int
    outcome: ClassVar[None] = None


@dataclass(frozen=True, slots=True)
class SetAside:
    """End the claim of what its worker cannot read, a key that is none or a failure record: it is dead."""

    request: Request
    outcome: ClassVar[None] = None


Entry = Settlement | RateLimitedAdd | SetAside
"""What a turn carries."""


@dataclass
class TurnSettings:
    """What each turn of a handle carries about failures and the fleet, and what the handle claims for.

    ``wants_links``: whether claims come with the spans that made their items pending. ``on_closed`` is called
    once a session in Redis was closed, in the thread that found that it holds nothing any longer.
    """

    options: QueueOptions = field(default_factory=QueueOptions)
    fleet_concurrency: int | None = None
    wants_links: bool = False
    purpose: Callable[[], Purpose] | None = None
    on_limiter_error: Callable[[], None] = lambda: None
    on_set_aside: Callable[[int], None] = lambda _: None
    on_closed: Callable[[], None] = lambda: None

    def inputs(self) -> dict[str, str | int]:
        """Return the inputs of the script."""
        max_retries = self.options.max_retries
        return {
            "max_retries": "" if max_retries is None else max_retries,
            "limiter": self._program(),
            "fleet_concurrency": "" if self.fleet_concurrency is None else self.fleet_concurrency,
            "revive_after": "" if self.revive_after is None else self.revive_after,
            "wants_links": "1" if self.wants_links else "",
        }

    @property
    def revive_after(self) -> int | None:
        """Return after how many µs a dead item is revived, None for never."""
        seconds = self.options.revive_dead_after
        return None if seconds is None else microseconds(seconds)

    def limiter_of(self, failure: Failure) -> str:
        """Return the limiter of one failure, after asking a custom one."""
        return program_of(self.options.limiter, failure, self.on_limiter_error)

    def own_limiter(self, failure: Failure, delay: float | None) -> str:
        """Return the limiter of one failure where it is not the queue's."""
        if delay is not None:
            return fixed(delay)
        program = self.limiter_of(failure)
        return "" if program == self._program() else program

    def _program(self) -> str:
        """Return the limiter of all failures, empty where a custom one is asked for each."""
        limiter = self.options.limiter
        return limiter.program() if isinstance(limiter, ScriptedRateLimiter) else ""


class HandleSession(Protocol):
    """What one handle holds of a queue. The first turn opens it, ``close`` ends it, the next opens another.

    Safe for threads. When it is lost, each request is cancelled and nothing of it is settled.
    """

    def turn(self, entries: Sequence[Entry], want: int, ahead: int = 0) -> Turn:
        """Settle and claim in one step; see ``TurnQueue.turn``.

        It may claim so many items ``ahead`` for the next call of any thread that wants some.
        """

    def take_spare(self) -> Request | None:
        """Return an item that was claimed ahead, None where there is none."""

    def release_spare(self) -> None:
        """Give back what was claimed ahead, unless another thread makes a turn just now."""

    def take_back(self, entries: Sequence[Entry], turn: Turn) -> None:
        """Release what a turn brought for a caller that has gone."""

    def wait(self, seconds: float, at_most: float | None = None) -> None:
        """Sleep until there may be work or ``interrupt`` is called, at most ``at_most`` seconds.

        ``seconds`` is the wait that the last turn returned. Threads that wait together may share it.
        """

    def interrupt(self) -> None:
        """End the running waits, or the next one, at once."""

    def stop(self) -> None:
        """Claim nothing from now on, and end all waits; close the session as soon as nothing is held.

        It waits for no turn.
        """

    def announce_stop(self) -> None:
        """Say that the process was told to stop, so that its end is no crash of what it holds."""

    def held(self) -> Sequence[Request]:
        """Return the requests that it holds."""

    def claiming(self) -> Sequence[int]:
        """Return the threads whose turns may yet bring a claim, by ``threading.get_ident``."""

    @property
    def worker_name(self) -> str:
        """Return the name under which people see it, empty where they cannot."""

    def is_kept_alive(self) -> bool:
        """Return whether its claims are kept alive, if that is needed."""

    def close(self) -> None:
        """Release what it holds and end it."""


class Engine(Protocol):
    """Where the items of one queue are; they belong to all its handles. Keys come validated, as bytes."""

    def add(
        self, keys: Sequence[bytes], *, priority: int, delay: int, max_length: int | None, link: str = ""
    ) -> tuple[int, int]:
        """Make up to 1000 keys pending, now or after ``delay`` µs.

        ``link`` is that of the span that does so, kept with what is pending now. Return how many were not
        pending before, and how many found a place.
        """

    def forget(self, key: bytes) -> None:
        """Drop the key's failure record, unless it is dead."""

    def num_requeues(self, key: bytes) -> int:
        """Return how many failures the key has."""

    def is_dirty(self, key: bytes) -> bool:
        """Return whether the key was added again while claimed."""

    def depth(self) -> int:
        """Return how many items wait now: ready, dirty, and delayed ones that are due."""

    def session(self, settings: TurnSettings, on_cancel: Callable[[Request], None]) -> HandleSession:
        """Return a session for one handle; ``on_cancel`` receives each request that ends unsettled."""
