"""What takes part in ``benchmarks.queues``, in processes of its own: distq, another version of it, peers."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from benchmarks.children import Child
from benchmarks.peers import PEERS

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT = 90.0
"""Seconds for a peer to answer an order."""

DRAIN, LOOP = 60_000, 6_000
"""Items that distq drains, and that loops of one's own do."""


@dataclass(frozen=True)
class Contender:
    """One queue and the way that its worker goes."""

    name: str
    """What the rows call it; another version of distq has the name of its revision."""

    peer: str
    """Its module in ``benchmarks.peers``."""

    kind: str = ""
    """How its worker goes, where there are several ways."""

    drain: int = 0
    """Items of one drain."""

    tree: Path = ROOT
    """Where the package distq is that it uses."""

    @property
    def label(self) -> str:
        """Return its name, that of distq with the way that its worker goes."""
        return f"{self.name} {self.kind}" if self.peer == "distq" else self.name

    def adds(self, url: str) -> Child:
        """Return a process that adds keys."""
        return self._player("add", url)

    def works(self, url: str, items: int) -> Child:
        """Return a process that works, and prints how long so many items took."""
        return self._player("work", url, items)

    def _player(self, role: str, url: str, *more: object) -> Child:
        command = [sys.executable, "-P", "-m", "benchmarks.player", role, self.peer, self.kind or "-", url]
        return Child(
            [*command, *map(str, more)],
            environment={**os.environ, "PYTHONPATH": str(self.tree)},
            timeout=TIMEOUT,
        )

    def require_its_tree(self, child: Child) -> None:
        """Raise AssertionError where the process has another distq than it should measure."""
        if self.peer == "distq":
            used = Path(child.wait_for("ready").partition(" ")[2]).resolve()
            assert used.is_relative_to(self.tree.resolve()), f"{self.name} runs {used}"


FLOORS = [Contender("BLPOP", "floor", "blpop"), Contender("BLPOP + claim", "floor", "claim")]


def distqs(name: str, tree: Path) -> list[Contender]:
    """Return a version of distq with all its ways to work."""
    return [
        Contender(name, "distq", kind, LOOP if kind == "loop" else DRAIN, tree)
        for kind in ("threads", "async", "loop")
    ]


def peers(names: Sequence[str]) -> tuple[list[Contender], dict[str, str]]:
    """Return the peers that are installed, and why the others take no part."""
    unknown = set(names) - set(PEERS)
    if unknown:
        raise click.BadParameter(f"no peers: {', '.join(sorted(unknown))}. There are {', '.join(PEERS)}.")
    found, missing = [], {}
    for name in names:
        if version_of(name):
            found.append(Contender(name, name, drain=PEERS[name].drain))
        else:
            missing[name] = "not installed: pip install 'distq[bench]'"
    return found, missing


def version_of(peer: str) -> str:
    """Return the version of a peer, empty where it is not installed."""
    try:
        return metadata.version(PEERS[peer].package)
    except metadata.PackageNotFoundError:
        return ""


@contextmanager
def other_version(revision: str) -> Iterator[Path]:
    """Give a folder with the package distq of another revision, beside these benchmarks."""
    archive = subprocess.run(
        ["git", "archive", revision, "distq"], cwd=ROOT, capture_output=True, check=False
    )
    if archive.returncode:
        raise click.BadParameter(f"no revision {revision}: {archive.stderr.decode().strip()}")
    with TemporaryDirectory(prefix="distq-other-") as folder:
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        Path(folder, "benchmarks").symlink_to(ROOT / "benchmarks")
        yield Path(folder)


def figures(child: Child, word: str) -> dict[str, float]:
    """Return what a process answers with that word."""
    answer: dict[str, float] = json.loads(child.wait_for(f"{word} ").partition(" ")[2])
    return answer
