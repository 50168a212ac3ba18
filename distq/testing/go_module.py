"""Go modules whose programs tests run: they are built once, into a cache of the user's.

The folder of a build is named by what it was built from; nothing is built unasked.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from distq.errors import ConfigError


@dataclass(frozen=True)
class GoModule:
    """A module in ``source``; ``programs`` names for each the verb of go that builds it, and its package."""

    source: Path
    version: str
    flags: Sequence[str]
    programs: Mapping[str, tuple[str, str]]

    @property
    def name(self) -> str:
        """Return the name of its folder."""
        return self.source.name

    def cached(self) -> Path:
        """Return the folder of the cache that belongs to these sources, built or not."""
        digest = hashlib.sha256(repr(self.flags).encode())
        for source in sorted([*self.source.glob("go.*"), *self.source.glob("**/*.go")]):
            digest.update(source.read_bytes())
        folder = f"{self.version}-{digest.hexdigest()[:12]}"
        return Path.home() / ".cache" / "distq" / self.name / folder

    def is_in(self, folder: Path) -> bool:
        """Return whether a folder holds all of its programs."""
        return all((folder / program).is_file() for program in self.programs)

    def build(self) -> Path:
        """Build all programs, unless they are; return their folder. A killed build leaves no half of one.

        Raises ConfigError where Go is not installed, or fails.
        """
        folder = self.cached()
        if self.is_in(folder):
            return folder
        if shutil.which("go") is None:
            raise ConfigError(f"no {self.name}: go is not installed. Install it: https://go.dev/dl")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".building-") as temporary:
            unfinished = Path(temporary) / folder.name
            unfinished.mkdir()
            for program in self.programs:
                self._build(program, unfinished)
            try:
                unfinished.rename(folder)
            except OSError:  # another build was faster
                if not folder.is_dir():
                    raise
        return folder

    def _build(self, program: str, folder: Path) -> None:
        print(f"building {program} ...", file=sys.stderr, flush=True)  # noqa: T201  progress of a program
        verb, package = self.programs[program]
        if verb == "test -c":
            self._go("vet", *self.flags, package)  # as go test would, which runs it
        self._go(*verb.split(), *self.flags, "-o", str(folder / program), package)

    def _go(self, *arguments: str) -> None:
        environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false"}
        try:
            command = ["go", *arguments]
            # what it says is progress, beside the answer of the program that builds
            subprocess.run(command, cwd=self.source, env=environment, stdout=sys.stderr, check=True)
        except subprocess.CalledProcessError as error:
            ending = f"go {arguments[0]} ended with {error.returncode}"
            raise ConfigError(f"no {self.name}: {ending}. See its output above.") from None
