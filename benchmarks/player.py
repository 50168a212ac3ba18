"""One process of ``benchmarks.queues``: adds keys, or works on them, by one of ``benchmarks.peers``.

``python -m benchmarks.player add SUBJECT KIND URL`` reads orders, ``each N``, ``many N``, ``fill N`` or
``paced N``, and answers each by its word and JSON. With ``work SUBJECT KIND URL ITEMS`` it works; after so
many items it prints "drained" and how long they took, and for each one after these "woken", its key, when
it began, and what CPU time was used so far. Times are of the monotonic clock, which all processes of a
machine share.
"""

import importlib
import json
import os
import random
import sys
import time
from collections.abc import Iterator
from itertools import count

from benchmarks.peers import NoBulk, Subject

WARM_UP = 200
"""Adds before those that count, so that connections and scripts are there."""

BEGINNING = 0.2
"""The share of a drain that is not counted: in it the worker starts."""

PAUSES = 0.015, 0.03
"""The shortest and the longest time between two adds to an idle worker, in seconds."""


def main() -> None:
    """Add or work."""
    role, subject, kind, url, *rest = sys.argv[1:]
    connected: Subject = importlib.import_module(f"benchmarks.peers.{subject}").connect(url, kind)
    distq = sys.modules.get("distq")
    _print("ready", getattr(distq, "__file__", ""))
    if role == "work":
        connected.work(Work(int(rest[0])))
    else:
        _obey(connected)


class Work:
    """What a worker calls for each key: counts, and prints."""

    def __init__(self, items: int) -> None:
        self._begin = int(items * BEGINNING)
        self._items = items
        self._numbers = count(1)

    def __call__(self, key: str) -> None:
        """Handle a key, from any thread."""
        number = next(self._numbers)
        if number > self._items:
            _print("woken", key, time.monotonic(), time.process_time())
        elif number == self._begin:
            self._wall, self._cpu = time.monotonic(), time.process_time()
        elif number == self._items:
            wall, cpu = time.monotonic() - self._wall, time.process_time() - self._cpu
            _print("drained", json.dumps({"items": self._items - self._begin, "wall": wall, "cpu": cpu}))


def _obey(subject: Subject) -> None:
    for line in sys.stdin:
        order, _, number = line.partition(" ")
        keys = [f"default/{order}-{number:08}" for number in range(int(number))]
        _print(order, json.dumps(ORDERS[order](subject, keys)))


def _each(subject: Subject, keys: list[str]) -> dict[str, float]:
    """Add one after another; take the time after some that warm up."""
    began = wall = cpu = 0.0

    def timed() -> Iterator[str]:
        nonlocal began, wall, cpu
        yield from _warm_up()
        began, cpu = time.monotonic(), time.process_time()
        yield from keys
        wall, cpu = time.monotonic() - began, time.process_time() - cpu

    subject.add_each(timed())
    return {"items": len(keys), "wall": wall, "cpu": cpu}


def _many(subject: Subject, keys: list[str]) -> dict[str, float]:
    """Add at once, if the queue can."""
    try:
        subject.add_many(_warm_up())
        began, cpu = time.monotonic(), time.process_time()
        subject.add_many(keys)
    except NoBulk:
        return {}
    return {"items": len(keys), "wall": time.monotonic() - began, "cpu": time.process_time() - cpu}


def _fill(subject: Subject, keys: list[str]) -> dict[str, float]:
    """Add in the quickest way, for a worker to drain."""
    try:
        subject.add_many(keys)
    except NoBulk:
        subject.add_each(keys)
    return {}


def _paced(subject: Subject, keys: list[str]) -> dict[str, float]:
    """Add to a worker that had time to fall asleep; return when each was added."""
    added: dict[str, float] = {}

    def paced() -> Iterator[str]:
        for key in keys:
            time.sleep(random.uniform(*PAUSES))
            added[key] = time.monotonic()
            yield key

    subject.add_each(paced())
    return added


ORDERS = {"each": _each, "many": _many, "fill": _fill, "paced": _paced}


def _warm_up() -> list[str]:
    return [f"default/warm-up-{number:08}" for number in range(WARM_UP)]


def _print(*words: object) -> None:
    os.write(1, " ".join(map(str, words)).encode() + b"\n")  # in one piece, whichever threads print


if __name__ == "__main__":
    main()
