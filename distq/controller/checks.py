"""A program's own checks of its health and readiness (controller-runtime ``AddHealthzCheck``).

Each call has a thread of its own, so a check that hangs delays a probe by ``CHECK_TIMEOUT`` at most, and no
other check. While its call runs, it is not called again.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from distq.call_threads import call_apart
from distq.errors import ConfigError
from distq.wording import duration
from distq.workqueue.outcome import error_text

CHECK_TIMEOUT = 0.8
"""Seconds that all checks of a probe get to answer; the kubelet gives up after one."""

Check = Callable[[], object]
"""A plain function without arguments. The check fails where it raises or returns False."""


class Checks:
    """The checks of one probe, by name. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._checks: dict[str, _NamedCheck] = {}

    def add(self, name: str, check: Check) -> None:
        """Add one. Raises ConfigError where there is one of this name."""
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise ConfigError(f"bad name of a check: {name!r:.80}. Give a text that can be printed.")
        with self._lock:
            if name in self._checks:
                raise ConfigError(f"bad name of a check: there is a check {name}. Choose another name.")
            self._checks[name] = _NamedCheck(name, check)

    def call(self) -> Callable[[], list[str]]:
        """Call all of them; return what waits for their answers, and returns a line for each that fails."""
        with self._lock:
            checks = list(self._checks.values())
        until = time.monotonic() + CHECK_TIMEOUT
        calls = [check.call() for check in checks]
        return lambda: [problem for call in calls if (problem := call(until))]


class _NamedCheck:
    """One check, of which one call runs at a time."""

    def __init__(self, name: str, check: Check) -> None:
        self._name = name
        self._check = check
        self._lock = threading.Lock()
        self._answer: Future[str] | None = None
        self._began = 0.0

    def call(self) -> Callable[[float], str]:
        """Call it, unless a call has not ended; return what waits for the answer, see ``_problem``."""
        with self._lock:
            if self._answer is None or self._answer.done():
                self._began = time.monotonic()
                self._answer = call_apart(self._run, f"distq-check-{self._name}")
            return partial(self._problem, self._answer, self._began)

    def _problem(self, answer: Future[str], began: float, until: float) -> str:
        """Return why the check fails, or nothing; a call without an answer ``until`` then fails."""
        try:
            return answer.result(max(0.0, until - time.monotonic()))
        except TimeoutError:
            return f"{self._name}: no answer for {duration(time.monotonic() - began)}"

    def _run(self) -> str:
        try:
            return f"{self._name}: failed" if self._check() is False else ""
        except BaseException as error:  # noqa: BLE001 - it is what the check answers
            return f"{self._name}: {' '.join(error_text(error).split()):.300}"
