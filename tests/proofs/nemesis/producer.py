"""Adds keys and writes down which were acknowledged; rests while a file ``rest`` is in its folder.

    python -m tests.proofs.nemesis.producer NAME PER_SECOND

Most keys are new, so that no worker can have reconciled them before; some come again and again.
"""

import logging
import random
import sys
import time
from pathlib import Path

from distq import Queue
from distq.errors import DistqError
from tests.proofs.nemesis import stepped_clock
from tests.proofs.nemesis.journal import JournalWriter

_logger = logging.getLogger("nemesis")
REST, RESTS = Path("rest"), Path("rests")
HOT_KEYS = 20
DELAY = 0.3


def draw_key(name: str, number: int) -> str:
    """Return a key: a hot one, a long one, or a new one."""
    kind = random.random()
    if kind < 0.25:
        return f"hot/{random.randrange(HOT_KEYS)}"
    return f"{'long' if kind < 0.27 else 'new'}/{name}-{number}"


def produce(name: str, per_second: float) -> None:
    """Add until another process kills this one."""
    journal, queue, number = JournalWriter(), Queue("jobs"), 0
    while True:
        if REST.exists():
            RESTS.touch()
            time.sleep(0.02)
            continue
        RESTS.unlink(missing_ok=True)
        number += 1
        key, delay = draw_key(name, number), DELAY if random.random() < 0.1 else None
        asked = time.monotonic()
        try:
            queue.add(key, after=delay)
        except DistqError as error:  # the end is unknown, or it was refused: nothing was promised
            _logger.warning("%s: %s", key, error)
        else:
            journal.write("add", key=key, asked=asked, answered=time.monotonic(), delay=delay or 0.0)
        time.sleep(random.expovariate(per_second))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    stepped_clock.install()
    produce(sys.argv[1], float(sys.argv[2]))
