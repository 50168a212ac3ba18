"""Dispatchers for the length of a test."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from distq.controller.controller import Controller
from distq.controller.worker.dispatcher import Dispatcher


@contextmanager
def running(controller: Controller, **options: Any) -> Iterator[Dispatcher]:
    """Run the controller's handlers until the block ends."""
    dispatcher = Dispatcher(controller, **options)
    dispatcher.start()
    try:
        yield dispatcher
    finally:
        dispatcher.stop(5.0)
