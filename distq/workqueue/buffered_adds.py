"""Adds that wait a few milliseconds, so that many of them travel together."""

import logging
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

from distq.errors import QueueFull
from distq.forks import begin_after_fork
from distq.redisio.keys import validate_key
from distq.redisio.limits import BUFFERED_LIMIT
from distq.redisio.scores import validate_priority
from distq.workqueue.main_thread import apart

_OUTAGE_PAUSE = 1.0
"""Seconds between tries to send while the queue refuses, or Redis gives no answer."""

_logger = logging.getLogger("distq.queue")


class BufferedAdds:
    """The adds of a with block that travel together; made by ``Queue.buffered``. Safe for threads.

    A key is in the queue once ``flush`` has returned, or the with block has ended without an error. Keys that
    could not be sent stay buffered, and are sent again each second.
    """

    def __init__(self, name: str, add: Callable[..., int], max_delay: float) -> None:
        self._name = name
        self._add = add
        self._max_delay = max_delay
        self._is_closed = False  # not in ``begin``: where the block has ended, it has ended in a child, too
        self.begin()
        begin_after_fork(self)

    def begin(self) -> None:
        """Start with nothing; also in the child of a fork: the parent sends what it has buffered."""
        # No lock: an interrupt within ``add`` must not leave one held.
        self._buffered = deque[tuple[str, int]]()
        self._wakes: SimpleQueue[None] = SimpleQueue()
        """Has a token while there may be keys that the sender has not seen."""
        self._sending = threading.Lock()
        """Held while keys travel, so that ``flush`` waits for those that another thread has taken."""
        self._travelling = 0
        """How many keys a thread has taken and not sent yet; they count as buffered."""
        self._closing = threading.Event()
        self._sender: threading.Thread | None = None

    def __len__(self) -> int:
        return len(self._buffered) + self._travelling

    def add(self, *keys: str, priority: int = 0) -> None:
        """Buffer keys; they travel within ``max_delay`` seconds. A key that is buffered twice travels once.

        Higher ``priority`` (-900..900) goes first. If 10,000 adds are buffered, it flushes before; if that
        raises, it buffers nothing. Raises InvalidKey, InvalidPriority, and ValueError after the with block.
        """
        priority = validate_priority(priority)
        for key in keys:
            validate_key(key)
        if self._has_ended():
            raise ValueError(f"queue {self._name}: the with block of these adds has ended. Begin another.")
        if self._sender is None:  # as in the child of a fork
            self.start()
        if len(self) >= BUFFERED_LIMIT:
            self.flush()
        self._buffered.extend((key, priority) for key in keys)
        if self._wakes.empty():
            self._wakes.put(None)
        if self._has_ended():  # another thread may have done this, and may have checked before
            self.flush()

    @apart
    def flush(self) -> None:
        """Send the buffered keys, and return once the queue has them. Raises the errors of ``Queue.add``."""
        self._flush()

    @apart
    def start(self) -> None:
        """Start the thread that sends; the with block does."""
        with self._sending:
            if self._sender is None:
                sender = threading.Thread(target=self._send_always, name="distq-adds", daemon=True)
                sender.start()
                self._sender = sender

    @apart
    def close(self) -> None:
        """Send the rest; nothing more can be added. The with block does."""
        self._is_closed = True
        self._closing.set()
        self._wakes.put(None)
        try:
            self._flush()
        finally:
            if self._sender is not None:
                self._sender.join()

    def _has_ended(self) -> bool:
        return self._is_closed  # not read in place: mypy expects the value of the first look at the second

    def _flush(self) -> None:
        with self._sending:
            self._travelling = len(self._buffered)
            unsent = self._take()
            try:
                for priority in sorted({*unsent.values()}, reverse=True):
                    keys = [key for key, its_priority in unsent.items() if its_priority == priority]
                    sent = 0
                    try:
                        self._add(*keys, priority=priority)
                        sent = len(keys)
                    except QueueFull as error:
                        sent = error.accepted
                        raise
                    finally:
                        for key in keys[:sent]:
                            del unsent[key]
            finally:
                self._buffered.extendleft(reversed(unsent.items()))
                self._travelling = 0

    def _take(self) -> dict[str, int]:
        """Return the buffered keys, each with the highest priority that it was added with."""
        taken: dict[str, int] = {}
        for _ in range(len(self._buffered)):  # keys that are added meanwhile travel next
            key, priority = self._buffered.popleft()
            taken[key] = max(priority, taken.get(key, priority))
        return taken

    def _send_always(self) -> None:
        while True:
            self._wakes.get()
            if self._closing.wait(self._max_delay):  # so that more keys travel along
                return  # close sends the rest
            try:
                self._flush()
            except Exception as error:  # noqa: BLE001  no error may end this thread
                _logger.warning("queue %s: %d buffered adds wait: %s", self._name, len(self), error)
                self._closing.wait(_OUTAGE_PAUSE)
                self._wakes.put(None)
