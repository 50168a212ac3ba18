"""``distq run --reload``: the program runs in a child, which is started anew when a source file changes."""

import contextlib
import importlib.util
import logging
import os
import queue
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from distq.cli.signals import pass_on, status_of
from distq.signals import Signals, received_signals
from distq.wording import counted

_LOOK_EVERY = 0.25
"""Seconds between two looks at the files, which work on every file system and need no package."""

_NOT_SOURCES = {"__pycache__", "node_modules", "site-packages"}

_Snapshot = dict[str, tuple[int, int, int]]
_logger = logging.getLogger("distq")


def run_with_reload(target: str) -> int:
    """Run this command line without ``--reload`` in one child after another; return the last one's status."""
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        _logger.warning("--reload is for development: in a pod let a rollout bring new code")
    watched = _places_of(target)
    names = ", ".join(map(str, watched))
    _logger.info("reload: watching %s in %s", counted(len(_snapshot(watched)), "source file"), names)
    command = [word for word in sys.orig_argv if word != "--reload"]
    # Python takes a cached file for the newest if its source was changed in the same second
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    with received_signals() as signals:
        while True:
            seen = _snapshot(watched)
            child = subprocess.Popen(command, env=environment)
            asked_to_end = not _until_change(child, watched, seen, signals)
            if not asked_to_end:
                child.terminate()  # so it gives back its claims and the lease, which the next one takes
            asked_to_end |= _until_end(child, signals)
            if asked_to_end:
                return status_of(child)


def _until_change(
    child: "subprocess.Popen[bytes]", watched: Sequence[Path], seen: _Snapshot, signals: Signals
) -> bool:
    """Return True once a file has changed and none is being changed, False after a signal."""
    last, running = seen, True
    while not _passed_on_a_signal(child, signals):
        now = _snapshot(watched)
        if now == last != seen:
            _logger.info("reload: %s changed; starting anew", _difference(seen, now))
            return True
        last = now
        if running and child.poll() is not None:
            running = False
            status = status_of(child)
            _logger.warning("reload: ended with status %d; starts again at the next change", status)
    return False


def _until_end(child: "subprocess.Popen[bytes]", signals: Signals) -> bool:
    """Wait for the child; return whether a signal came meanwhile."""
    asked_to_end = False
    while child.poll() is None:
        asked_to_end |= _passed_on_a_signal(child, signals)
    return asked_to_end


def _passed_on_a_signal(child: "subprocess.Popen[bytes]", signals: Signals) -> bool:
    """Wait a moment for a signal, and give it to the child."""
    with contextlib.suppress(queue.Empty):
        pass_on(signals.get(timeout=_LOOK_EVERY), child)
        return True
    return False


def _places_of(target: str) -> list[Path]:
    """Return the working directory, and the package or module of the target where it is elsewhere."""
    here = Path.cwd()
    try:
        # of what is before the first dot: for more it would import a version that is old after a change
        spec = importlib.util.find_spec(target.partition(":")[0].partition(".")[0])
    except (ImportError, ValueError):  # the child reports it
        spec = None
    found = (spec.submodule_search_locations or [str(spec.origin)]) if spec else []
    return [here, *(place for place in map(Path, found) if place.exists() and not place.is_relative_to(here))]


def _snapshot(watched: Iterable[Path]) -> _Snapshot:
    """Return time, size and inode of each source file; a change makes one of them another."""
    found = {}
    for place in watched:
        for path in [place] if place.is_file() else _sources_in(place):
            with contextlib.suppress(OSError):  # gone meanwhile
                status = path.stat()
                found[str(path)] = (status.st_mtime_ns, status.st_size, status.st_ino)
    return found


def _sources_in(folder: Path) -> Iterator[Path]:
    """Yield the modules below a folder, but none of hidden folders and virtualenvs."""
    for root, folders, files in os.walk(folder):
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        folders[:] = [name for name in folders if name[0] != "." and name not in _NOT_SOURCES]
        yield from (Path(root, name) for name in files if name.endswith(".py"))


def _difference(before: _Snapshot, after: _Snapshot) -> str:
    changed = sorted(path for path in before | after if before.get(path) != after.get(path))
    more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    return f"{os.path.relpath(changed[0])}{more}"
