"""Fuzzes every parser for so many seconds in all, two at a time, from the corpus in the tree.

With ``--seed``, and ``PYTHONHASHSEED`` set, the inputs are the same each time, and ``--inputs`` ends them at
the same place: CI stops for a change, not for a lucky draw. The last line is ``found: 0``, or the exit
status is 1. What was found lies in ``build/fuzz``, and belongs into the corpus of its parser when it is
fixed. Needs the extra ``ci``: atheris, for Python 3.11 on x86-64.
"""

import argparse
import contextlib
import io
import logging
import multiprocessing
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from multiprocessing.context import ForkProcess
from pathlib import Path

from tests import ROOT

CORPUS = Path(__file__).parent / "corpus"
FOUND = ROOT / "build" / "fuzz"
AT_A_TIME = 2
LIMITS = ("-timeout=30", "-rss_limit_mb=1024", "-max_len=5000")
"""Of one input: seconds, MB of the whole process, bytes."""


def main() -> int:
    """Fuzz, print a line a parser, and return the exit status."""
    options = argparse.ArgumentParser("python -m tests.fuzz", description=__doc__)
    options.add_argument("--seconds", type=int, default=60, help="of wall time, for all parsers together")
    options.add_argument("--inputs", type=int, default=-1, help="of each parser, at most")
    options.add_argument("--seed", type=int, default=0, help="of the inputs; 0 takes another each time")
    options.add_argument("parsers", nargs="*", help="all where none is named")
    chosen = options.parse_args()
    if find_spec("atheris") is None:
        print("no atheris: pip install -e '.[ci]', on Python 3.11 and x86-64.", file=sys.stderr)  # noqa: T201
        return 2
    import atheris

    # libFuzzer goes on from what reaches new code; each module is announced
    with contextlib.redirect_stderr(io.StringIO()), atheris.instrument_imports(include=["distq"]):
        from tests.fuzz.parsers import PARSERS
    names = chosen.parsers or list(PARSERS)
    if unknown := set(names) - PARSERS.keys():
        options.error(f"no parser {', '.join(sorted(unknown))}: there are {', '.join(PARSERS)}")
    FOUND.mkdir(parents=True, exist_ok=True)
    seconds = max(1, -(-chosen.seconds * AT_A_TIME // len(names)))
    how = (f"-max_total_time={seconds}", f"-runs={chosen.inputs}", f"-seed={chosen.seed}")
    failed = 0
    with tempfile.TemporaryDirectory(prefix="distq-fuzz-") as folder:
        for start in range(0, len(names), AT_A_TIME):
            runs = [(name, begin(name, how, Path(folder))) for name in names[start : start + AT_A_TIME]]
            failed += sum(not is_sound(name, process, Path(folder)) for name, process in runs)
    print(f"found: {failed}")  # noqa: T201
    return 1 if failed else 0


def begin(name: str, how: Sequence[str], folder: Path) -> ForkProcess:
    """Fuzz one parser in a process of its own, which a crash or a hang of it ends."""
    process = multiprocessing.get_context("fork").Process(target=_fuzz, args=(name, how, folder))
    process.start()
    return process


def _fuzz(name: str, how: Sequence[str], folder: Path) -> None:
    import atheris

    from tests.fuzz.parsers import forbid_the_world

    with (folder / f"{name}.txt").open("wb") as said:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
    reached = folder / name
    reached.mkdir()
    tempfile.tempdir = str(folder)
    logging.disable()
    forbid_the_world()
    places = (f"-artifact_prefix={FOUND / name}-", str(reached), str(CORPUS / name))
    atheris.Setup([name, *how, *LIMITS, *places], partial(_keep_failures, name))
    atheris.Fuzz()  # ends the process


def _keep_failures(name: str, data: bytes) -> None:
    from tests.fuzz.parsers import PARSERS

    try:
        PARSERS[name](data)
    except BaseException:
        (FOUND / f"{name}-{sha256(data).hexdigest()[:12]}").write_bytes(data)
        raise


def is_sound(name: str, process: ForkProcess, folder: Path) -> bool:
    """Return whether nothing was found; print how much was tried, or what was found."""
    process.join()
    said = (folder / f"{name}.txt").read_text(errors="replace")
    done = re.search(r"Done (\d+) runs in (\d+) second", said)
    if process.exitcode == 0 and done:
        print(f"{name:20}{done[1]:>9} inputs in {done[2]} s", flush=True)  # noqa: T201
        return True
    print(f"{name:20}found something, status {process.exitcode}:\n{said[-4000:]}", flush=True)  # noqa: T201
    return False


if __name__ == "__main__":
    sys.exit(main())
