"""The code of 0.1.0, from the history of this clone, to run it beside what is here."""

import shutil
import subprocess
from pathlib import Path

from tests import ROOT

COMMIT = "f49cf38"


def is_in_history() -> bool:
    """Return whether this clone has it; a shallow one has not, and without git nothing can be asked."""
    if shutil.which("git") is None:
        return False
    found = subprocess.run(["git", "cat-file", "-e", COMMIT], cwd=ROOT, capture_output=True, check=False)
    return found.returncode == 0


def unpack(folder: Path) -> None:
    """Put it into a new folder, beside the tests that are here."""
    folder.mkdir()
    archive = subprocess.run(["git", "archive", COMMIT, "distq"], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    (folder / "tests").symlink_to(ROOT / "tests")
