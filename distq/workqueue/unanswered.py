"""Recognises a repeated call: the last one of the thread, if Redis did not answer it."""

import threading

from distq.workqueue.engine import RateLimitedAdd


class UnansweredAdd(threading.local):
    """This thread's last call of a handle, if it was an ``add_rate_limited`` without an answer.

    A repetition looks like a new call. So a call counts as one if it comes from the same thread, for the same
    key, as its very next call, and soon. Any other call is another failure.
    """

    entry: RateLimitedAdd | None = None
    """It; each other call of the thread sets this to None."""
    _since = 0.0

    def keep(self, entry: RateLimitedAdd, now: float) -> None:
        """Note that the call ended without an answer."""
        self.entry, self._since = entry, now

    def take(self, key: str, now: float, within: float) -> RateLimitedAdd | None:
        """Return and forget the call that a call for this key repeats; None if it is a new one."""
        entry, self.entry = self.entry, None
        repeats = entry is not None and entry.key == key and now - self._since <= within
        return entry if repeats else None
