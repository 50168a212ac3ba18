"""One term of an elector, as what feeds the queues sees it."""

import threading

from distq.clock import SYSTEM_CLOCK, Clock
from distq.leaderelection import LeaderElector


class Term:
    """The leadership of what began in this term: what outlives it acts in no later one.

    Make it when the term begins; ``over`` is set when it ends. A process may lead again, and a stream that
    waited for an answer all the while would else go on beside its successor.
    """

    def __init__(self, elector: LeaderElector, over: threading.Event, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.identity = elector.identity
        self.epoch = elector.epoch
        self.began = clock.monotonic()
        self._elector = elector
        self._over = over

    def may_act(self) -> bool:
        """Return whether the term lasts, and was renewed so lately that no other process can lead."""
        return not self._over.is_set() and self._elector.may_act()
