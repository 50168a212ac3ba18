"""Dispatchers for the length of a test."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from distq.controller.controller import Controller
from distq.controller.worker.dispatcher import Dispatcher
from distq.controller.worker.patient_turns import PatientTurns
from distq.controller.worker.worker_spans import WorkerSpans
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.support.eventually import eventually


@contextmanager
def running(controller: Controller, **options: Any) -> Iterator[Dispatcher]:
    """Run the controller's handlers until the block ends."""
    dispatcher = Dispatcher(controller, **options)
    dispatcher.start()
    try:
        yield dispatcher
    finally:
        stop(dispatcher, 5.0)


def stop(dispatcher: Dispatcher, grace: float) -> None:
    """Give running handlers so many seconds, and wait until the shutdown is over."""
    dispatcher.shut_down(grace)
    eventually(dispatcher.has_ended)


def patient_turns_of(queue: Queue, got: list[Request], spans: WorkerSpans | None = None) -> PatientTurns:
    """Return the turns of a worker, which notes in ``got`` what they hand out."""
    return PatientTurns(
        queue.name,
        queue,
        stopping=threading.Event(),
        recorder=None,
        spans=spans,
        on_claims=got.extend,
        on_settled=lambda *_: None,
    )
