"""The history of a queue: its numbers every ten seconds for a day, and every five minutes for a week more.

The first heartbeat or commit of each ten seconds notes a sample (``lua/include/sample.lua``). ``history`` is
a hash of

    10s N, 5m N  a chunk of samples: its number since 1970, then a line for each sample. N is that number
                 modulo the length of the ring, so that a chunk replaces the one that is out of date.
    last         when the last sample was noted, in seconds since the epoch
    totals       how many reconciles succeeded and failed, in all sessions so far
    10s durations, 5m durations
                 how long items waited and were held since that ring's last sample: two words of ``durations``

A line is ``at ready delayed processing dirty dead failing workers waits paused done failed waiting working``:
seconds since the epoch, counts, how many ms the longest waiting item has waited or ``-``, 1 while the queue
is paused, the totals at that time, and the durations since the line before.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from distq.redisio.durations import WORD, Durations
from distq.redisio.queue_store import QueueStore
from distq.redisio.round_trips import Read

_NUMBER = rb"\d{1,16}"
_LINE = re.compile(rb" ".join([_NUMBER] * 8 + [rb"(?:\d{1,16}|-)"] + [_NUMBER] * 3 + [WORD] * 2))


@dataclass(frozen=True, slots=True)
class Ring:
    """A ring of ``chunks`` chunks of ``samples`` samples, one each ``period`` seconds."""

    name: str
    period: int
    samples: int
    chunks: int

    def numbers(self, since: float, until: float) -> range:
        """Return the numbers of the chunks of that time that may still be stored."""
        seconds = self.period * self.samples
        last = int(until // seconds)
        return range(max(int(since // seconds), last - self.chunks + 1), last + 1)

    def field(self, number: int) -> str:
        """Return the field of ``history`` that a chunk shares with those of earlier rounds."""
        return f"{self.name} {number % self.chunks}"


_MISSED = 3
"""Periods without a sample that count as a gap; at most one is missing while any process runs."""

FINE = Ring("10s", 10, 30, 289)
COARSE = Ring("5m", 300, 12, 193)


@dataclass(frozen=True, slots=True)
class StoredSample:
    """A queue in numbers at one moment, in seconds since the epoch. ``waited_ms``: of its oldest item.

    ``waiting`` and ``working`` are the durations of items claimed and settled since the sample before.
    """

    at: int
    ready: int
    delayed: int
    processing: int
    dirty: int
    dead: int
    failing: int
    workers: int
    waited_ms: int | None
    paused: int
    done: int
    failed: int
    waiting: Durations
    working: Durations
    after_gap: bool = False
    """Whether samples are missing between this one and the one before: nothing ran that could note them."""


def samples(store: QueueStore, since: float, until: float, *, every: float) -> Read[list[StoredSample]]:
    """Return the samples between two moments, in their order, at most one for ``every`` seconds.

    For times older than a day there is one in five minutes.
    """
    # only Redis knows which fine samples are left; read the coarse ones of the whole time as well
    rings = [COARSE, FINE] if every < COARSE.period else [COARSE]
    wanted = [(ring, number) for ring in rings for number in ring.numbers(since, until)]
    (chunks,) = yield store.commands(("HMGET", "history", *(ring.field(number) for ring, number in wanted)))
    read: dict[Ring, dict[int, StoredSample]] = {COARSE: {}, FINE: {}}
    for (ring, number), chunk in zip(wanted, chunks, strict=True):
        read[ring] |= {sample.at: sample for sample in _parse(chunk, number) if since <= sample.at <= until}
    found = read[COARSE] | read[FINE]
    if (first := min(read[FINE], default=None)) in read[COARSE]:
        found[first] = read[COARSE][first]  # its durations begin at the end of the coarse one before
    thinned = _thinned([found[at] for at in sorted(found)], every)
    for place, (before, sample) in enumerate(pairwise(thinned), 1):
        ring = FINE if before.at in read[FINE] else COARSE
        if sample.at - before.at > _MISSED * max(every, ring.period):
            thinned[place] = replace(sample, after_gap=True)
    return thinned


def _parse(chunk: bytes | None, number: int) -> Iterator[StoredSample]:
    """Yield the samples of a chunk; none if it is out of date, and none for a line that cannot be read."""
    first, *lines = (chunk or b"").split(b"\n")
    if first != b"%d" % number:
        return
    for line in lines:
        if _LINE.fullmatch(line):
            *numbers, waiting, working = line.split()
            counts = (None if word == b"-" else int(word) for word in numbers)
            durations = map(Durations.parse, (waiting, working))
            yield StoredSample(*counts, *durations)  # type: ignore[arg-type]  # only the one may be none


def _thinned(found: Sequence[StoredSample], every: float) -> list[StoredSample]:
    """Return the first sample of each ``every`` seconds, with the durations of the skipped ones before it."""
    thinned: list[StoredSample] = []
    waiting, working, slot = Durations(), Durations(), -1.0
    for sample in found:
        waiting, working = waiting + sample.waiting, working + sample.working
        if sample.at // every > slot:
            thinned.append(replace(sample, waiting=waiting, working=working))
            waiting, working, slot = Durations(), Durations(), sample.at // every
    return thinned
