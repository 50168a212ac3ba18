"""A real signal for the main thread, at a moment that a test chooses."""

import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def signalled(when: Callable[[], bool], handler: Callable[..., None]) -> Iterator[None]:
    """Send this thread a signal once the condition holds; the handler runs in the midst of the block."""

    def send() -> None:
        while not when():
            time.sleep(0.001)
        signal.pthread_kill(main, signal.SIGUSR1)

    main = threading.get_ident()
    before = signal.signal(signal.SIGUSR1, handler)
    sending = threading.Thread(target=send)
    sending.start()
    try:
        yield
    finally:
        sending.join(10)
        signal.signal(signal.SIGUSR1, before)


def interrupt(*_: object) -> None:
    """Do what Ctrl-C does, as a handler."""
    raise KeyboardInterrupt


class _Thing:
    """An object that ends."""


def in_a_callback(call: Callable[[], object]) -> None:
    """Let Python call in the middle of this thread's code, where it would lose an exception."""
    weakref.finalize(_Thing(), call)
