"""A fleet of consumers in simulated time, on the real scripts: which one is woken when, and sleeps how long.

Consumers are what a handle is between its turns: one pop on the wake list, one timer, some free
slots. Nothing really sleeps, so two thousand of them spend an hour within seconds, and always
the same one. A token and a turn's reply take a while to arrive, so others act in between.
"""

import heapq
import itertools
import random
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from distq.redisio import scripts
from distq.redisio.connection import Connection
from distq.redisio.keys import LAYOUT
from distq.redisio.queue_store import QueueStore
from distq.workqueue.cancellation import ClaimPeriod
from distq.workqueue.engine import TurnSettings
from distq.workqueue.interface import Settlement, Success
from distq.workqueue.request import Request
from distq.workqueue.turns import decode, encode

BEGIN = 1_795_000_000_000_000
LATENCY = 500
"""µs until a token has woken its consumer; meanwhile others act."""

CLAIM_DURATION, HEARTBEAT, MAX_CLOCK_STEP = 30_000_000, 10_000_000, 10_000_000
PEERS = 20
"""So many consumers that joined one after another beat at once."""


@dataclass(eq=False)
class Consumer:
    """One handle: ``slots`` items at a time, each for ``work`` µs."""

    session: str
    slots: int
    work: int
    alive: bool = True
    frozen: bool = False
    listening: bool = False
    """Whether its pop is in the list of those that wait for a token."""
    ops: int = 0
    naps: int = 0
    """Which sleep it is in, so that the timer of an earlier one is known for what it is."""
    held: list[Request] = field(default_factory=list)

    @property
    def free(self) -> int:
        """Return how many more items it can take."""
        return self.slots - len(self.held)


class Fleet:
    """Consumers of the queue foos, the server's clock in µs, and a log of what happened when."""

    def __init__(
        self, connection: Connection, size: int, *, seed: int = 1, slots: int = 1, work: int = 1000
    ) -> None:
        self.now = BEGIN
        self.random = random.Random(seed)
        self.consumers: list[Consumer] = []
        self.pending_since: dict[str, int] = {}
        self.lateness: dict[str, int] = {}
        """µs between the moment an item was pending and its claim."""
        self.turns: Counter[str] = Counter()
        """How many turns were made, by why: token, poll, settle, begin."""
        self.last_token_taker: Consumer | None = None
        self._connection = connection
        self._store = QueueStore(connection, "foos")
        self._settings = TurnSettings()
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._number = itertools.count()
        self._listeners: deque[Consumer] = deque()
        self._peers: list[Consumer] = []
        self._wake = self._store.key("wake")
        for name in scripts.names():
            connection.execute("SCRIPT", "LOAD", scripts.load(name).source)
        for _ in range(size):
            self.run(self.random.uniform(0, 0.002))
            self.join(slots, work)

    # What happens to it

    def join(self, slots: int = 1, work: int = 1000) -> Consumer:
        """Start a consumer."""
        consumer = Consumer(self._open(), slots, work)
        self.consumers.append(consumer)
        self._turn(consumer, "begin")
        if len(self._peers) == PEERS:
            self._peers = []
        self._peers.append(consumer)
        if len(self._peers) == 1:
            self._at(self.now + HEARTBEAT, partial(self._beat, self._peers))
        return consumer

    def add(self, *items: str) -> None:
        """Make items pending now."""
        for item in items:
            self.pending_since.setdefault(item, self.now)
        self._run("add", items=items, priority=0, max_length="")

    def add_after(self, item: str, delay: float) -> None:
        """Make an item pending after some seconds; it is due at a full ms."""
        microseconds = round(delay * 1e6)
        self.pending_since[item] = -(-(self.now + microseconds) // 1000) * 1000
        self._run("add_after", items=[item], priority=0, max_length="", delay=microseconds)

    def script(self, name: str) -> None:
        """Run a script that needs no inputs."""
        self._run(name)

    def kill(self, consumer: Consumer, *, noticed: bool = True) -> None:
        """Let a consumer die; where the server does not notice, its pop still takes a token."""
        consumer.alive = False
        if noticed and consumer.listening:
            self._listeners.remove(consumer)

    def interrupt(self, consumer: Consumer) -> None:
        """End a consumer's sleep."""
        self._time_out(consumer, consumer.naps)

    def freeze(self, consumer: Consumer, seconds: float) -> None:
        """Stop a consumer for a while: what it was about to do it does afterwards."""
        consumer.frozen = True
        self._at(self.now + round(seconds * 1e6), partial(self._thaw, consumer))

    def close(self, consumer: Consumer) -> None:
        """Let a consumer say goodbye, even if something woke it meanwhile."""
        self.kill(consumer)
        self._run("close", session=consumer.session, worker="")

    def coverer(self) -> Consumer | None:
        """Return who watches over the next due time."""
        (number,) = self._store.read(("HGET", "meta", "coverer"))
        wanted = number and number.decode()
        return next((each for each in self.consumers if each.session.partition("-")[0] == wanted), None)

    # How time goes by

    def at(self, seconds: float, action: Callable[[], None]) -> None:
        """Let something happen some seconds from now."""
        self._at(self.now + round(seconds * 1e6), action)

    def run(self, seconds: float) -> None:
        """Let time go by."""
        until = self.now + round(seconds * 1e6)
        while self._events and self._events[0][0] <= until:
            self.now, _, action = heapq.heappop(self._events)
            action()
        self.now = until

    # What a consumer does

    def _turn(self, consumer: Consumer, why: str, settled: Sequence[Request] = ()) -> None:
        if consumer.frozen:
            self._at(self.now + 10_000, partial(self._turn, consumer, why, settled))
            return
        if not consumer.alive:
            return
        consumer.naps += 1
        consumer.ops += 1
        self.turns[why] += 1
        for request in settled:
            consumer.held.remove(request)
        want = consumer.free
        settlements, others = encode([Settlement(request, Success()) for request in settled], self._settings)
        reply = self._run(
            "turn",
            session=consumer.session,
            op=consumer.ops,
            after="",
            want=want,
            n_ok=len(settled),
            settlements=settlements,
            **self._settings.inputs(),
        )
        if reply == b"LOST":
            consumer.held.clear()
            consumer.session = self._open()
            self._turn(consumer, why)
            return
        answer = decode(reply, len(settled), others, ClaimPeriod())
        requests, _ = answer.claims.read()
        for request in requests:
            if request.key in self.pending_since:  # and was not a dead consumer's
                self.lateness[request.key] = self.now - self.pending_since.pop(request.key)
            consumer.held.append(request)
            self._at(self.now + consumer.work, partial(self._finish, consumer, request))
        if len(requests) < want:
            self._sleep(consumer, round(answer.wait * 1e6))

    def _finish(self, consumer: Consumer, request: Request) -> None:
        """Settle at once: what a handler finished interrupts its consumer's sleep."""
        if consumer.frozen:
            self._at(self.now + 10_000, partial(self._finish, consumer, request))
            return
        if not consumer.alive or request not in consumer.held:
            return
        if consumer.listening:
            consumer.listening = False
            self._listeners.remove(consumer)
        self._turn(consumer, "settle", [request])

    def _sleep(self, consumer: Consumer, wait: int) -> None:
        consumer.naps += 1
        nap = consumer.naps
        consumer.listening = True
        self._listeners.append(consumer)
        if len(self._listeners) == 1:  # others would have taken it
            self._hand_out(self._connection.execute("LPOP", self._wake))
        self._at(self.now + wait, partial(self._time_out, consumer, nap))

    def _time_out(self, consumer: Consumer, nap: int) -> None:
        if consumer.naps != nap or not consumer.listening or not consumer.alive or consumer.frozen:
            return
        consumer.listening = False
        self._listeners.remove(consumer)
        self._turn(consumer, "poll")

    def _hand_out(self, token: bytes | None) -> None:
        """Let a token wake who waits longest, as the server does once a script has ended."""
        if token is not None:
            consumer = self._listeners.popleft()
            consumer.listening = False
            self.last_token_taker = consumer
            self._at(self.now + LATENCY, partial(self._turn, consumer, "token"))

    def _thaw(self, consumer: Consumer) -> None:
        consumer.frozen = False
        if consumer.alive and consumer.listening:
            self._listeners.remove(consumer)
            consumer.listening = False
            self._turn(consumer, "poll")

    def _beat(self, peers: Sequence[Consumer]) -> None:
        beating = [each for each in peers if each.alive and not each.frozen]
        common = {"claim_duration": CLAIM_DURATION, "max_clock_step": MAX_CLOCK_STEP, "worker": "{}"}
        held = self._run_all("heartbeat", [{"session": each.session, **common} for each in beating])
        for consumer, claims in zip(beating, held, strict=True):
            assert claims == b"LOST" or claims[0] == len(consumer.held)
        self._at(self.now + HEARTBEAT, partial(self._beat, peers))

    def _open(self) -> str:
        inputs = {
            "layout": LAYOUT,
            "claim_duration": CLAIM_DURATION,
            "max_clock_step": MAX_CLOCK_STEP,
            "worker": "{}",
        }
        return str(self._run("open", nonce=f"n{len(self.consumers)}", **inputs).decode())

    def _run(self, script: str, **inputs: Any) -> Any:
        return self._run_all(script, [inputs])[0]

    def _run_all(self, script: str, calls: Sequence[dict[str, Any]]) -> list[Any]:
        """Run a script several times; if it leaves a token, a consumer takes the token."""
        loaded = scripts.load(script)
        time = {"time": self.now} if "time" in loaded.arguments else {}
        commands: list[tuple[Any, ...]] = [
            ("EVALSHA", loaded.sha, *loaded.bind(self._store.key, time | inputs)) for inputs in calls
        ]
        if self._listeners:
            commands.append(("LPOP", self._wake))
        replies = self._connection.pipeline(commands)
        if self._listeners:
            self._hand_out(replies.pop())
        return replies

    def _at(self, when: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, next(self._number), action))
