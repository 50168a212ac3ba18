"""What the fleet runs: keys that producers add, ConfigMaps that an informer watches, Roles that it caches.

Each has its own queue. Some reconciles fail, some take longer than a heartbeat, and all stop when they are
cancelled. Every begin, end and settlement is written down.
"""

import asyncio
import ctypes
import logging
import os
import random
import signal
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import Any

from distq import Client, Controller, For, Queue, Request, Watches
from distq.controller.event import Event
from distq.workqueue.interface import Settlement, Turn
from tests.proofs.nemesis import stepped_clock
from tests.proofs.nemesis.journal import JournalWriter

CLAIM_DURATION = float(os.environ.get("NEMESIS_CLAIM_DURATION", "6"))
LIMIT = int(os.environ.get("NEMESIS_LIMIT") or 0)
MAX_HOLD = 2 * CLAIM_DURATION
FAILING = 0.03
"""The share of reconciles that fail."""
GREEDY = Path("../greedy")
"""There once an item held the interpreter: each file system has it once."""
HURRY, STEP = Path("../hurry"), 0.1
"""The file is there while no load is wanted; what takes long then ends within so many seconds."""
LINES, LENGTH = 600, 10_000
"""Lines of a function that says much, and letters of each: more than may wait until they are written.

The lines are few and long, so that a busy machine has time for them within a claim."""

RAISED: dict[str, type[BaseException]] = {
    kind.__name__: kind
    for kind in (SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, MemoryError)
}
"""What ends a thread, a process or a coroutine, where it is let through."""

DISPOSITIONS = "dispositions" if hasattr(Turn, "dispositions") else "fates"
"""The name in 0.1.0, beside which this runs, too."""

logger = logging.getLogger("nemesis")
client = Client()
journal = JournalWriter()
stepped_clock.install()


class JournaledQueue(Queue):
    """A queue that writes down which settlements were accepted, and when they were first tried."""

    _tried: dict[tuple[str, int], float]

    def turn(self, settlements: Sequence[Settlement], want: int, *on_claims: Any) -> Turn:
        """Settle and claim; that of 0.1.0 knows no ``on_claims``."""
        if not hasattr(self, "_tried"):
            self._tried = {}
        now = time.monotonic()
        claims = [(each.request.key, each.request.fence) for each in settlements]
        for each in claims:
            self._tried.setdefault(each, now)
        turn = super().turn(settlements, want, *on_claims)
        for (key, fence), disposition in zip(claims, getattr(turn, DISPOSITIONS), strict=True):
            accepted = disposition.kind not in {"refused", "unknown"}
            tried = self._tried.pop((key, fence), now)
            claim = {"queue": self.name, "key": key, "fence": fence}
            journal.write("settled", tried=tried, accepted=accepted, **claim)
        return turn


class Abandoned(Exception):
    """The claim of this reconcile ended."""


@contextmanager
def journaled(queue: str, request: Request) -> Iterator[dict[str, Any]]:
    """Write down that a reconcile begins, and how it ended, with what is put into the yielded dict."""
    claim = {"queue": queue, "key": request.key, "fence": request.fence}
    journal.write("began", began=time.monotonic(), **claim)
    end: dict[str, Any] = {"kept": False}
    try:
        yield end
        end["kept"] = True
    finally:
        journal.write("ended", ended=time.monotonic(), **end, **claim)


def reconcile_job(request: Request) -> None:
    """Take as long as the key says, look whether to stop, and fail sometimes."""
    if request.key.startswith("endless") and request.attempt == 1:
        time.sleep(20 * MAX_HOLD)  # no run for the journal: that it overlaps with the next one is the fault
    with journaled("jobs", request):
        if request.key.startswith("poison"):
            os.kill(os.getpid(), signal.SIGKILL)
        if request.key.startswith("greedy") and not GREEDY.exists():
            hold_interpreter()
        if request.key.startswith("chatty"):
            say_much()
        if any(request.cancelled.wait(part) for part in _parts(request.key)):
            raise Abandoned
        if random.random() < FAILING:
            raise RuntimeError("one of those that fail")


async def reconcile_map(request: Request) -> None:
    """Look at the object, and take as long as its key says."""
    with journaled("maps", request) as end:
        found = await asyncio.to_thread(client.get, "v1/ConfigMap", request.key)
        end["seen"] = found["data"]["version"] if found else "gone"
        for part in _parts(request.key):
            await asyncio.sleep(part)


async def reconcile_role(request: Request) -> None:
    """Count the accounts of the Role in the cache, as a ReplicaSet's controller counts its pods."""
    with journaled("roles", request) as end:
        if CACHED:
            name, accounts = request.key.rpartition("/")[2], roles.lister(ACCOUNT)
            end["seen"] = str(len(await asyncio.to_thread(accounts.by_index, "role", name)))


def matters(event: Event) -> bool:
    """Raise or say what the object asks for: nothing of one object may end or hold up its leader."""
    asked = event.object.get("data", {})
    if asked.get("says") == "much":
        say_much()
    raised = RAISED.get(asked.get("raises", ""))
    if raised is not None:
        raise raised
    return True


def verbs_of(role: dict[str, Any]) -> list[str]:
    """Index a Role as users do: they trust in its types."""
    return [verb for rule in role["rules"] for verb in rule["verbs"]]


def role_of(account: dict[str, Any]) -> list[str]:
    """Return which Role an account belongs to."""
    return [account["metadata"]["labels"]["role"]]


def say_much() -> None:
    """Log more than may wait for a reader."""
    for _ in range(LINES):
        logger.info("x" * LENGTH)


def hold_interpreter() -> None:
    """Let nothing of this process run for longer than a claim, as a call of C that keeps the GIL."""
    GREEDY.touch()
    began = time.monotonic()
    ctypes.PyDLL(None).usleep(int(1.5e6 * CLAIM_DURATION))
    journal.write("stalled", began=began, ended=time.monotonic())


def _takes(key: str) -> float:
    """Return seconds: of those called long up to a claim duration, of the longest more, else a moment."""
    if key.startswith("longest"):
        return 1.5 * CLAIM_DURATION
    share = zlib.crc32(key.encode()) % 100 / 100
    return CLAIM_DURATION * (0.2 + 0.8 * share) if "long" in key else 0.02 * share


def _parts(key: str) -> Iterator[float]:
    """Yield for how long to work, in parts; it ends early once the load has ended."""
    left = _takes(key)
    while left > 0 and not HURRY.exists():
        yield min(left, STEP)
        left -= STEP


BOUNDED: dict[str, Any] = {"max_hold": MAX_HOLD} if "max_hold" in signature(Controller).parameters else {}
INDEXED: dict[str, Any] = {"cached": True, "indexers": {"verb": verbs_of}}
CACHED = INDEXED if INDEXED.keys() <= signature(For).parameters.keys() else {}
FAIR: dict[str, Any] = {"fair_by": "namespace"} if BOUNDED else {}
"""What 0.1.0 does not know."""
LIMITED: dict[str, Any] = {"fleet_concurrency_per_flow": LIMIT} if LIMIT else {}

jobs = Controller(
    JournaledQueue("jobs", claim_duration=CLAIM_DURATION, **FAIR),
    reconcile_job,
    concurrency=8,
    **BOUNDED,
    **LIMITED,
)
maps = Controller(
    JournaledQueue("maps", claim_duration=CLAIM_DURATION, **(FAIR if LIMIT else {})),
    reconcile_map,
    watches=[For("v1/ConfigMap", label_selector="nemesis=yes", predicates=[matters])],
    concurrency=8,
    **LIMITED,
)
ROLE, ACCOUNT = "rbac.authorization.k8s.io/v1/Role", "v1/ServiceAccount"
role_watches: list[For | Watches] = [For(ROLE, label_selector="nemesis=yes", **CACHED)]
if CACHED:
    indexers = {"role": role_of}
    role_watches.append(Watches(ACCOUNT, lambda _: [], label_selector="role", cached=True, indexers=indexers))
roles = Controller(
    JournaledQueue("roles", claim_duration=CLAIM_DURATION), reconcile_role, watches=role_watches
)
controllers = [jobs, maps, roles]
