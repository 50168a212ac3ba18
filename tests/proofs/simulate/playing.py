"""Plays schedules: one, shrunk where it fails, or many seeds in several processes."""

import logging
import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from unittest import mock

from distq.informer import reflector
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue import redis_session
from tests.proofs.simulate.controls import CONTROLS
from tests.proofs.simulate.model_cluster import InStepReader
from tests.proofs.simulate.real_scripts import RealScripts
from tests.proofs.simulate.schedule import Schedule, schedule_of
from tests.proofs.simulate.simulated_worker import HeartbeatInStep
from tests.proofs.simulate.simulation import Log, Simulation
from tests.proofs.simulate.violation import Violation

BLOCK = 250
"""Seeds that one process plays before it reports."""

Found = tuple[int, str, str, bool]
"""A seed, the promise that it broke, how, and whether something was lost."""

Played = tuple[list[Found], Counter[str]]
"""The seeds that broke a promise, and what there was of what."""


def play(schedule: Schedule, log: Log | None = None, *, real: RealScripts | None = None) -> Counter[str]:
    """Play a schedule; return what there was of what, raise Violation where it breaks a promise.

    So does a script of ``real`` that does something else than its specification.
    """
    random.seed(0)  # what back-offs and resyncs draw
    simulation = Simulation(schedule, log)
    simulation.play()
    if real is not None:
        real.compare(simulation.redis.asked)
    return simulation.seen


def broken_by(
    schedule: Schedule, seen: Counter[str] | None = None, *, real: RealScripts | None = None
) -> Violation | None:
    """Play a schedule; return the violation, if it makes one."""
    try:
        counts = play(schedule, real=real)
    except Violation as violation:
        return violation
    except Exception as error:  # noqa: BLE001 - a violation, too
        return Violation("nothing raises", f"{type(error).__name__}: {error}")
    if seen is not None:
        seen.update(counts)
    return None


def shrunk(schedule: Schedule, promise: str, *, real: RealScripts | None = None) -> Schedule:
    """Return what of a schedule it takes to break a promise: no action of it can be left out."""
    size = len(schedule.actions) // 2 or 1
    while True:
        start, smaller = 0, False
        while start < len(schedule.actions):
            shorter = schedule.without(start, start + size)
            violation = broken_by(shorter, real=real)
            if violation is not None and violation.promise == promise:
                schedule, smaller = shorter, True
            else:
                start += size
        if size == 1 and not smaller:
            return schedule
        size = max(1, size // 2)


def play_seeds(seeds: range, control: str, jobs: int) -> Played:
    """Play seeds in ``jobs`` processes."""
    blocks = [seeds[start : start + BLOCK] for start in range(0, len(seeds), BLOCK)]
    if jobs == 1 or len(blocks) == 1:
        return play_block(seeds, control)
    found, seen = list[Found](), Counter[str]()
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for block_found, block_seen in pool.map(play_block, blocks, repeat(control)):
            found += block_found
            seen += block_seen
    return found, seen


def play_block(seeds: range, control: str = "", server: Path | None = None) -> Played:
    """Play seeds one after the other, with the scripts on a server of this program."""
    found, seen = list[Found](), Counter[str]()
    with world(control), real_scripts(control, server) as real:
        for seed in seeds:
            if (violation := broken_by(schedule_of(seed), seen, real=real)) is not None:
                found.append((seed, violation.promise, str(violation), violation.lost))
    return found, seen


@contextmanager
def real_scripts(control: str, server: Path | None = None) -> Iterator[RealScripts | None]:
    """Run a server with the scripts; none where a mistake is planted, which they would not make."""
    if control:
        yield None
        return
    with EmbeddedValkey(server=server) as embedded, closing(RealScripts(embedded.url)) as real:
        yield real


@contextmanager
def world(control: str) -> Iterator[None]:
    """Let everything go in step, with the mistake of this name, or "" for none."""
    with ExitStack() as stack:
        stack.enter_context(in_step())
        for each in CONTROLS:
            if each.name == control:
                stack.enter_context(each.planted())
        yield


@contextmanager
def in_step() -> Iterator[None]:
    """Let no real process start a thread of its own, nor log."""
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(reflector, "ReadAhead", InStepReader))
        stack.enter_context(mock.patch.object(redis_session, "Heartbeat", HeartbeatInStep))
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)
