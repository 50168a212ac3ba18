"""Other versions of distq, and Python on one of them."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]


@contextmanager
def checkout(revision: str) -> Iterator[Path]:
    """Give the folder of a version, as git names it, for a while."""
    with tempfile.TemporaryDirectory(prefix="distq-benchmark-") as folder:
        git = ["git", "-C", str(ROOT), "worktree"]
        added = subprocess.run(
            [*git, "add", "--detach", folder, revision], check=False, capture_output=True, text=True
        )
        if added.returncode:
            raise click.ClickException(f"no version {revision}: {added.stderr.splitlines()[-1]}")
        try:
            yield Path(folder)
        finally:
            subprocess.run([*git, "remove", "--force", folder], check=True, capture_output=True)


@contextmanager
def python(
    command: Sequence[str], version: Path = ROOT, environment: Mapping[str, str] = os.environ
) -> Iterator["subprocess.Popen[str]"]:
    """Run Python with the modules of a version; its standard input ends with the block, and so does it."""
    with subprocess.Popen(
        [sys.executable, "-P", *command],
        env={**environment, "PYTHONPATH": str(version)},
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        try:
            yield process
        finally:
            process.stdin.close()
            process.terminate()
