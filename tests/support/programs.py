"""Python programs that tests run as processes of their own."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests import ROOT


def start_program(
    arguments: Sequence[str],
    folder: Path,
    settings: Mapping[str, str],
    root: Path = ROOT,
    *,
    log: int | None = None,
) -> subprocess.Popen[bytes]:
    """Start ``python -m`` in a folder, where its log is; of this process's settings it knows nothing.

    With ``log``, the end of a pipe, it logs there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    theirs = {name: text for name, text in os.environ.items() if not name.startswith(("DISTQ_", "KUBE"))}
    with (folder / "log").open("ab") as file:
        return subprocess.Popen(
            [sys.executable, "-m", *arguments],
            cwd=folder,
            env={**theirs, "PYTHONPATH": str(root), "HOME": str(folder), **settings},
            stdin=subprocess.DEVNULL,
            stdout=file if log is None else log,
            stderr=subprocess.STDOUT,
        )
