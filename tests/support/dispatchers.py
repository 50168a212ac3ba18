"""Dispatchers for the length of a test."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from distq.controller.controller import Controller
from distq.controller.worker.dispatcher import Dispatcher
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
