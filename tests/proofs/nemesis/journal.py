"""What a process writes down, a JSON line each: adds, reconciles, settlements; times are CLOCK_MONOTONIC."""

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Add:
    """A key that a producer added, when it asked, and when Redis had acknowledged it."""

    key: str
    asked: float
    answered: float
    delay: float = 0.0


@dataclass
class Change:
    """What was done to an object: its new version, or ``gone`` where it was deleted; versions only grow."""

    key: str
    version: int
    gone: bool
    asked: float
    answered: float = float("inf")

    @property
    def state(self) -> str:
        """Return what a reconcile sees of it."""
        return "gone" if self.gone else str(self.version)

    def is_in(self, run: "Reconcile") -> bool:
        """Return whether a reconcile that began afterwards saw this change or a later one."""
        return run.seen == "gone" or (run.seen.isdigit() and int(run.seen) >= self.version)


@dataclass
class Reconcile:
    """One run of a reconcile function; ``seen`` is the state that it found, ``ended`` None while it runs.

    ``kept``: it went through to its end, and neither failed nor was cancelled.
    """

    queue: str
    key: str
    fence: int
    began: float
    process: str = ""
    ended: float | None = None
    kept: bool = False
    seen: str = ""


@dataclass
class Attempt:
    """The settlement of a claim: when it was first tried, and whether it was accepted in the end."""

    queue: str
    key: str
    fence: int
    tried: float
    accepted: bool


class JournalWriter:
    """The journal of this process, in its working directory; safe for threads, whole lines survive a kill."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._file: int | None = None

    def write(self, kind: str, **line: Any) -> None:
        """Append a line."""
        with self._lock:
            if self._file is None:
                self._file = os.open("journal", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.write(self._file, json.dumps({"kind": kind, **line}).encode() + b"\n")


class JournalReader:
    """Reads the journal of one process as it grows; ``process`` names that in each reconcile."""

    def __init__(self, path: Path, process: str) -> None:
        self.adds: list[Add] = []
        self.reconciles: dict[tuple[str, str, int], Reconcile] = {}
        self.attempts: list[Attempt] = []
        self.stalled: list[tuple[float, float]] = []
        """When nothing of the process could run."""
        self._path = path
        self._process = process
        self._offset = 0

    def read_on(self) -> None:
        """Take in the lines that are whole by now."""
        for line in self._new_lines():
            record = json.loads(line)
            match record.pop("kind"):
                case "add":
                    self.adds.append(Add(**record))
                case "began":
                    begun = Reconcile(process=self._process, **record)
                    self.reconciles[begun.queue, begun.key, begun.fence] = begun
                case "ended":
                    place = record.pop("queue"), record.pop("key"), record.pop("fence")
                    if run := self.reconciles.get(place):  # else one that was frozen since before ``forget``
                        vars(run).update(record)
                case "settled":
                    self.attempts.append(Attempt(**record))
                case "stalled":
                    self.stalled.append((record["began"], record["ended"]))

    def forget(self) -> None:
        """Forget all notes; later ones count."""
        self.read_on()
        self.adds.clear()
        self.reconciles.clear()
        self.attempts.clear()
        self.stalled.clear()

    def _new_lines(self) -> Iterator[bytes]:
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if line.endswith(b"\n"):
                    self._offset += len(line)
                    yield line
