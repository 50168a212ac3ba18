"""Python programs that tests run as processes of their own."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests import ROOT


def start_program(
    arguments: Sequence[str], folder: Path, settings: Mapping[str, str], root: Path = ROOT
) -> subprocess.Popen[bytes]:
    """Start ``python -m`` in a new folder, where its log is; of this process's settings it knows nothing."""
    folder.mkdir(parents=True)
    theirs = {name: text for name, text in os.environ.items() if not name.startswith(("DISTQ_", "KUBE"))}
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", *arguments],
            cwd=folder,
            env={**theirs, "PYTHONPATH": str(root), "HOME": str(folder), **settings},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
