"""The sample controller as it is shipped, with a journal of when it reconciles what.

A file ``hold`` in the working directory keeps reconciles from going on, until it is gone or they
are cancelled. Claims are short, so that those of a killed worker come back soon; a scene where no worker dies
takes longer ones, since on a busy machine a heartbeat may be late.
"""

import os
import time
from pathlib import Path

from distq import Controller, Queue, Request
from distq.cli.demo.journal import Journal
from workers import sample_controller

QUEUE = "foos"
CLAIM_DURATION = float(os.environ.get("JOURNALED_CLAIM_DURATION", "3"))
HOLD = Path("hold")

journal = Journal()


def reconcile(request: Request) -> None:
    """Do what the sample does, and write down from when to when."""
    with journal.entry(request.key):
        while HOLD.exists() and not request.cancelled.is_set():
            time.sleep(0.005)
        sample_controller.reconcile(request)


controller = sample_controller.controller = Controller(
    Queue(QUEUE, claim_duration=CLAIM_DURATION), reconcile, watches=sample_controller.controller.watches
)
