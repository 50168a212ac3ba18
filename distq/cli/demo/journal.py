"""The journal of reconciles, with key, begin and end: written by the workers, checked at the end.

Each worker appends to a file of its own in its working directory, a line as a reconcile starts and
one as it ends. Times are of CLOCK_MONOTONIC, which all processes of a machine share.
"""

import itertools
import json
import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Entry:
    """One reconcile; ``gone`` when it found the object deleted, ``end`` None while it runs."""

    key: str
    start: float
    end: float | None = None
    gone: bool = False
    failed: bool = False


class Journal:
    """The file of this process, opened at the first entry."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._file: int | None = None

    @contextmanager
    def entry(self, key: str) -> Iterator[Entry]:
        """Write down that a reconcile starts, and when it ends, how."""
        number, entry = next(self._numbers), Entry(key, time.monotonic(), failed=True)
        self._write({"number": number, "key": key, "start": entry.start})
        try:
            yield entry
            entry.failed = False
        finally:
            end = {"number": number, "end": time.monotonic(), "gone": entry.gone, "failed": entry.failed}
            self._write(end)

    def _write(self, line: Mapping[str, Any]) -> None:
        with self._lock:
            if self._file is None:
                # no file object: SIGKILL would lose the lines in its buffer
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
                self._file = os.open(f"journal-{os.getpid()}", flags, 0o600)
            os.write(self._file, json.dumps(line).encode() + b"\n")


def read_journal(folder: Path, pid: int) -> list[Entry]:
    """Return what a process wrote down so far; a line that is not whole yet does not count."""
    path = folder / f"journal-{pid}"
    entries: dict[int, Entry] = {}
    for line in path.read_bytes().splitlines(keepends=True) if path.exists() else []:
        if line.endswith(b"\n"):
            record = json.loads(line)
            number = record.pop("number")
            if "start" in record:
                entries[number] = Entry(**record)
            else:
                vars(entries[number]).update(record)
    return list(entries.values())


def count_overlaps(entries: list[Entry]) -> int:
    """Return how many reconciles began while another of the same key ran; open ones count as running."""
    by_key: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        by_key[entry.key].append(entry)
    overlaps = 0
    for same in by_key.values():
        busy_until = 0.0
        for entry in sorted(same, key=lambda entry: entry.start):
            overlaps += entry.start < busy_until
            busy_until = max(busy_until, float("inf") if entry.end is None else entry.end)
    return overlaps
