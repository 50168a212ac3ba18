"""Processes that compete for a Lease, played by threads with clocks of their own."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import permutations
from typing import Any, TypeAlias

from distq.client import Client
from distq.clock import SYSTEM_CLOCK
from distq.leaderelection import LeaderElectionConfig, LeaderElector, Lock
from distq.testing import FakeClock
from tests.support.eventually import eventually

LEASE = "election"
LEASES = "coordination.k8s.io/v1/Lease"
SHORT: dict[str, Any] = {"lease_duration": 1.5, "renew_deadline": 1.0, "retry_period": 0.2}
"""Seconds, for tests on the machine's clock; the Lease says 2, since it counts whole seconds."""


OUTSIDE = ("MainThread", "referee")
"""The threads that are not a participant's, but look at it."""


class PausableClock(FakeClock):
    """The clock of a process that can be paused: time passes, but its threads do not get to know."""

    def __init__(self) -> None:
        super().__init__()
        self.awake = threading.Event()
        self.awake.set()

    def now(self) -> float:
        """Return the wall clock, when awake."""
        self._sleep_while_paused()
        return super().now()

    def monotonic(self) -> float:
        """Return the monotonic clock, when awake."""
        self._sleep_while_paused()
        return super().monotonic()

    def wait(self, event: threading.Event, timeout: float) -> bool:
        """Wait, and then until awake."""
        super().wait(event, timeout)
        self._sleep_while_paused()
        return event.is_set()

    def _sleep_while_paused(self) -> None:
        if threading.current_thread().name not in OUTSIDE:
            self.awake.wait()


class Participant:
    """One elector, its thread, and the calls of its callbacks."""

    def __init__(
        self,
        lock: Lock,
        *,
        clock: PausableClock | None = None,
        history: list[str] | None = None,
        **settings: Any,
    ) -> None:
        self.lock = lock
        self.clock = clock
        self.stop = threading.Event()
        self.terms: list[threading.Event] = []
        self.epochs: list[str] = []
        self.history = [] if history is None else history
        """The epochs of all participants, in the order of their terms."""
        self.stopped = 0
        self.leaders: list[str] = []
        self.error: BaseException | None = None
        config: dict[str, Any] = {
            "lock": lock,
            "on_started_leading": self._started,
            "on_stopped_leading": self._stopped,
            "on_new_leader": self.leaders.append,
        }
        self.elector = LeaderElector(LeaderElectionConfig(**(config | settings)), clock=clock or SYSTEM_CLOCK)
        self.thread = threading.Thread(target=self._run, name=f"elector-{lock.identity}", daemon=True)

    def start(self) -> "Participant":
        """Begin to compete."""
        self.thread.start()
        return self

    def restart(self) -> "Participant":
        """Compete again with the same elector, after its end."""
        self.stop.clear()
        self.thread = threading.Thread(target=self._run, daemon=True)
        return self.start()

    def lead(self) -> "Participant":
        """Compete, and return when this participant leads."""
        self.start()
        eventually(lambda: bool(self.epochs))
        self.settle()
        return self

    def follow(self) -> "Participant":
        """Compete, and return when this participant knows that another leads."""
        self.start()
        eventually(lambda: self.elector.get_leader() not in {"", self.lock.identity})
        self.settle()
        return self

    @property
    def time(self) -> PausableClock:
        """The clock that the tests step."""
        assert self.clock is not None
        return self.clock

    @property
    def paused(self) -> bool:
        """Whether it does not run."""
        return self.clock is not None and not self.clock.awake.is_set()

    def settle(self) -> None:
        """Wait until this participant waits for time to pass, is paused, or has ended."""
        clock = self.clock
        if clock is not None:
            eventually(lambda: self.paused or not self.thread.is_alive() or clock.waiters() > 0)

    def pause(self) -> None:
        """Stop its threads, as for a process that gets no processor."""
        self.time.awake.clear()

    def resume(self) -> None:
        """Let its threads go on."""
        self.time.awake.set()

    def end(self) -> None:
        """Stop it and wait until it has ended."""
        if self.paused:
            self.resume()
        self.stop.set()
        self.thread.join(30)
        assert not self.thread.is_alive()

    def _run(self) -> None:
        try:
            self.elector.run(self.stop)
        except BaseException as error:  # noqa: BLE001 - tests look at it
            self.error = error

    def _started(self, over: threading.Event) -> None:
        self.terms.append(over)
        self.epochs.append(self.elector.epoch)
        self.history.append(self.elector.epoch)

    def _stopped(self) -> None:
        self.stopped += 1


Enter: TypeAlias = Callable[..., Participant]
"""The fixture that makes participants: identity, perhaps a kind of lock, settings."""


def lease_of(client: Client, namespace: str) -> dict[str, Any]:
    """Return the Lease as it is now."""
    lease = client.get(LEASES, f"{namespace}/{LEASE}")
    assert lease is not None
    return lease


def later(epoch: str, than: str) -> bool:
    """Compare epochs as streams do: by length, then text."""
    return (len(epoch), epoch) > (len(than), than)


def pass_time(seconds: float, *participants: Participant) -> None:
    """Let time pass for these participants alike, in steps that are small beside all periods."""
    remaining = seconds
    while remaining > 0:
        step = min(0.5, remaining)
        for participant in participants:
            participant.time.step(step)
        for participant in participants:
            participant.settle()
        remaining -= step


def end_all(participants: Sequence[Participant]) -> None:
    """Stop all that still compete, and wait for the threads that report and watch."""
    for participant in participants:
        participant.stop.set()
    for participant in participants:
        if participant.thread.is_alive():
            participant.end()
    beside = ("distq-election-report", "distq-election-watch")
    eventually(lambda: not any(thread.name.startswith(beside) for thread in threading.enumerate()))


@contextmanager
def one_acts_at_most(*participants: Participant, remark: str = "") -> Iterator[None]:
    """Watch all the time that no two participants may act at once, paused or not."""
    overlaps: list[Sequence[str]] = []
    done = threading.Event()

    def both_act(one: Participant, other: Participant) -> bool:
        epoch = one.elector.epoch
        acting = [each.elector.may_act() and not each.paused for each in (one, other, one)]
        return all(acting) and one.elector.epoch == epoch

    def look() -> None:
        while not done.is_set():
            for one, other in permutations(participants, 2):
                if both_act(one, other):
                    overlaps.append((one.lock.identity, other.lock.identity))
            time.sleep(0.0005)

    referee = threading.Thread(target=look, name="referee", daemon=True)
    referee.start()
    try:
        yield
    finally:
        done.set()
        referee.join()
    assert overlaps == [], remark
