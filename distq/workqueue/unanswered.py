"""Which call a thread repeats: its last one, where Redis gave no answer to it."""

import threading

from distq.workqueue.engine import RateLimitedAdd


class UnansweredAdd(threading.local):
    """This thread's last call of a handle, if that was an ``add_rate_limited`` without an answer.

    Nothing in a repetition says that it is one. So it counts as one from the same thread, for the same key,
    as its very next call, and soon; what comes otherwise is another failure.
    """

    _entry: RateLimitedAdd | None = None
    _since = 0.0

    def keep(self, entry: RateLimitedAdd, now: float) -> None:
        """Note that the call ended without an answer."""
        self._entry, self._since = entry, now

    def take(self, key: str, now: float, within: float) -> RateLimitedAdd | None:
        """Return the call that one for this key repeats, None where it is a new one; and forget it."""
        entry, self._entry = self._entry, None
        repeats = entry is not None and entry.key == key and now - self._since <= within
        return entry if repeats else None

    def forget(self) -> None:
        """Note that the thread went on with another call."""
        self._entry = None
