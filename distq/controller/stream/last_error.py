"""What a stream failed on last, and whether it still does, for people."""

import re
from collections.abc import Callable
from typing import Any

from distq.clock import Clock
from distq.errors import DistqError
from distq.workqueue.outcome import message_of

LONGEST = 1000
"""Letters of an error that a stream's record holds; it travels with each commit."""

_LOGIN = re.compile(r"(?<=://)[^\s/]+@")
_QUERY = re.compile(r"(://(?:(?!://)[^\s?])*\?)[^\s\"')\]]+")
"""No URL is read into the next one, so that an error of megabytes of them is read once."""


class LastError:
    """The last failure of one stream under one leader; the moments of ``clock`` are monotonic."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._text = ""
        self._at = 0.0
        self._since: float | None = None

    def failed(self, error: Exception) -> None:
        """Note a failure; the first one after it worked is since when it fails."""
        self._text, self._at = _one_line(error), self._clock.monotonic()
        self._since = self._at if self._since is None else self._since

    def over(self) -> None:
        """Note that it works."""
        self._since = None

    def about(self, moment: Callable[[float], float]) -> dict[str, Any]:
        """Return what a stream's record says of it, nothing of none; ``moment`` converts times."""
        if not self._text:
            return {}
        lasts = {} if self._since is None else {"failing_since": moment(self._since)}
        return {"error": self._text, "error_at": moment(self._at), **lasts}


def _one_line(error: Exception) -> str:
    """Return what people see of it, without what a URL may hold of logins and tokens."""
    text = str(error) if isinstance(error, DistqError) else f"{type(error).__name__}: {message_of(error)}"
    text = _QUERY.sub(r"\1…", _LOGIN.sub("…@", " ".join(text.split())))
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
