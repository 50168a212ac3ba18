"""Idle consumers in a process of their own, to be woken by a benchmark: handles, the floor, or a crowd.

Started as ``python -m benchmarks.consumers <kind> <url> [size]``. Says each claimed key with the
time, and how it was woken; takes orders on its input.
"""

import heapq
import os
import selectors
import socket
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from benchmarks.subjects import MAX_CLOCK_STEP, Floor
from distq.redisio.connection import Connection
from distq.redisio.keys import LAYOUT
from distq.redisio.queue_store import QueueStore
from distq.workqueue.cancellation import ClaimPeriod
from distq.workqueue.engine import TurnSettings
from distq.workqueue.interface import Settlement, Success
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from distq.workqueue.turns import decode, encode

QUEUE = "waiting"
FLOOR_WAKE = "floor:wake"
HEARTBEAT = 10.0


def say(*words: object) -> None:
    """Print words for the process that started this one."""
    print(*words, flush=True)


def handles(url: str, size: int) -> None:
    """Listen with handles, each in a thread."""
    connection = Connection(url)

    def listen() -> None:
        queue = Queue(QUEUE, connection)
        for request in queue.listen():
            say("claimed", request.key, time.time())
            queue.settle(request)

    for _ in range(size):
        threading.Thread(target=listen, daemon=True).start()
    sys.stdin.read()


def bare_sleep(url: str, _: int) -> None:
    """Sleep until each time that is asked for, and claim by the floor's script."""
    subject = Floor(Connection(url))
    for line in sys.stdin:
        time.sleep(max(0.0, float(line) - time.time()))
        subject.turn(1)
        say("claimed", "-", time.time())


def floor(url: str, _: int) -> None:
    """Claim by the floor's script whenever a bare BLPOP is answered."""
    connection = Connection(url)
    subject, blocking = Floor(connection), connection.dedicated()
    subject.turn(1)
    while os.getppid() != 1:
        blocking.send_command("BLPOP", FLOOR_WAKE, 2)
        if blocking.read_response() is not None and subject.turn(1):
            say("claimed", "-", time.time())


@dataclass(eq=False)
class Consumer:
    """One of a crowd: a session, and a socket that its pop blocks."""

    session: str
    socket: socket.socket
    client_id: int
    ops: Any = field(default_factory=lambda: count(1))
    held: list[Request] = field(default_factory=list)
    naps: int = 0
    popping: bool = False


class Crowd:
    """Thousands of consumers in one thread: each sleeps and makes turns as a handle does.

    As with handles, each has three connections: it pops on one; the crowd shares the others, so
    the rest only lies there.
    """

    def __init__(self, url: str, size: int) -> None:
        self._connection = Connection(url)
        self._store = QueueStore(self._connection, QUEUE)
        self._settings = TurnSettings()
        host, _, port = self._connection.address.rpartition(":")
        self._address = host, int(port)
        wake = self._store.key("wake")
        self._pop = f"*3\r\n$5\r\nBLPOP\r\n${len(wake)}\r\n{wake}\r\n$1\r\n0\r\n".encode()
        self._selector = selectors.DefaultSelector()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = count()
        self._to_lose = 0
        self._turns: Counter[str] = Counter()
        self._idle_sockets = [socket.create_connection(self._address) for _ in range(2 * size)]
        self._consumers = [self._join(number * HEARTBEAT / size) for number in range(size)]
        self._orders: deque[str] = deque()

    def run(self) -> None:
        """Sleep and make turns for all, until the input ends."""
        self._selector.register(sys.stdin, selectors.EVENT_READ)
        for consumer in self._consumers:  # the first to join believed the crowd to be small
            self._turn(consumer, "begin")
        say("ready")
        while True:
            soon = self._events[0][0] - time.monotonic() if self._events else 1.0
            for key, _ in self._selector.select(max(0.0, soon)):
                if key.data is None:
                    order = sys.stdin.readline().strip()
                    if not order:
                        return
                    self._obey(order)
                else:
                    self._popped(key.data)
            while self._events and self._events[0][0] <= time.monotonic():
                heapq.heappop(self._events)[2]()

    def _obey(self, order: str) -> None:
        if order == "lose":  # the next token's taker dies of it
            self._to_lose += 1
        elif order == "count":
            say("turns", self._turns["token"], self._turns["poll"])
            self._turns.clear()

    def _join(self, first_beat: float) -> Consumer:
        inputs: dict[str, Any] = {
            "layout": LAYOUT,
            "claim_duration": 30_000_000,
            "max_clock_step": MAX_CLOCK_STEP,
            "worker": "{}",
        }
        session = self._store.run("open", nonce=f"nonce-of-{next(self._number)}", **inputs).decode()
        own = socket.create_connection(self._address)
        own.sendall(b"*2\r\n$6\r\nCLIENT\r\n$2\r\nID\r\n")
        consumer = Consumer(session, own, int(own.recv(100)[1:]))
        self._selector.register(own, selectors.EVENT_READ, consumer)
        self._at(first_beat, lambda: self._beat(consumer))
        return consumer

    def _turn(self, consumer: Consumer, why: str) -> None:
        self._turns[why] += 1
        consumer.naps += 1
        while True:
            settled = [Settlement(request, Success()) for request in consumer.held]
            settlements, others = encode(settled, self._settings)
            reply = self._store.run(
                "turn",
                session=consumer.session,
                op=next(consumer.ops),
                after="",
                want=1,
                n_ok=len(settled),
                settlements=settlements,
                **self._settings.inputs(),
            )
            answer = decode(reply, len(settled), others, ClaimPeriod())
            consumer.held, _ = answer.claims.read()
            if not consumer.held:
                break
            say("claimed", consumer.held[0].key, time.time())
        consumer.socket.sendall(self._pop)
        consumer.popping = True
        nap = consumer.naps
        self._at(answer.wait, lambda: self._time_out(consumer, nap))

    def _time_out(self, consumer: Consumer, nap: int) -> None:
        if consumer.naps == nap and consumer.popping:
            self._connection.execute("CLIENT", "UNBLOCK", consumer.client_id)
            consumer.socket.recv(1000)  # nothing, or a token that came just then
            consumer.popping = False
            self._turn(consumer, "poll")

    def _popped(self, consumer: Consumer) -> None:
        consumer.socket.recv(1000)
        consumer.popping = False
        if self._to_lose:
            self._to_lose -= 1
            consumer.naps += 1
        else:
            self._turn(consumer, "token")

    def _beat(self, consumer: Consumer) -> None:
        self._store.run(
            "heartbeat",
            session=consumer.session,
            claim_duration=30_000_000,
            max_clock_step=MAX_CLOCK_STEP,
            worker="{}",
        )
        self._at(HEARTBEAT, lambda: self._beat(consumer))

    def _at(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (time.monotonic() + seconds, next(self._number), action))


def crowd(url: str, size: int) -> None:
    """Run a crowd."""
    Crowd(url, size).run()


if __name__ == "__main__":
    kind, where, how_many = sys.argv[1:4]
    {"handles": handles, "floor": floor, "bare-sleep": bare_sleep, "crowd": crowd}[kind](where, int(how_many))
