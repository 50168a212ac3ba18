"""The ``fair_by`` of a handle, compared with that of its queue."""

import logging

from distq.errors import ConfigError
from distq.redisio.keys import shown

_logger = logging.getLogger("distq.queue")


class Fairness:
    """The ``fair_by`` of one handle; all stores of the handle share it.

    If the queue has another value, the first check of a handle raises. Later checks, and those of a leader's
    stream, log the difference only.
    """

    def __init__(self, queue: str, fair_by: str, *, is_refused: bool = True) -> None:
        self.fair_by = fair_by
        self._queue = queue
        # a leader's stream may begin in a process that has waited for long, and events have no other way
        self._has_begun = not is_refused
        self._differed_from = fair_by

    def begin(self) -> None:
        """Do not raise from now on, even if the queue has another value."""
        self._has_begun = True

    def compare(self, queue_is_fair_by: bytes) -> None:
        """Log once that the queue differs. Raises ConfigError at the first check."""
        is_so = shown(queue_is_fair_by)
        # a program that does not do what its code states would be noticed only in the next incident; but a
        # change that a user makes in an emergency must not end processes
        if is_so != self.fair_by and not self._has_begun:
            raise ConfigError(
                f"bad fair_by {self.fair_by!r}: the queue {self._queue} is fair by {is_so:.80}, as a user or "
                f"another program said. Leave out fair_by, or run: distq fair {self._queue} {self.fair_by}"
            )
        self.begin()
        if is_so not in (self.fair_by, self._differed_from):
            _logger.warning(
                "queue %s: fair by %s now, not %s as this process says. It goes on; a worker or producer "
                "that starts is refused. Leave out fair_by, or run: distq fair %s %s",
                *(self._queue, is_so, self.fair_by, self._queue, self.fair_by),
            )
        self._differed_from = is_so
