"""How far a process is, and after how much CPU time, when it starts: ``python -m benchmarks.starting``.

``distq run`` with a controller of some ConfigMaps, on the emulated API server and a Valkey of its own; with
``--against REV`` also another version of distq, in turns. Python has the bytecode, as after ``pip install``.
"""

import os
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import click

from benchmarks.checkouts import ROOT, checkout, python
from benchmarks.children import Child
from benchmarks.report import Row, publish
from distq.client import Client
from distq.testing.embedded_valkey import EmbeddedValkey

STAGES = ("imports TARGET", "TARGET imported", "leading", "first object done", "synced")
"""In the order of their rows; the last two come in any order."""

Marks = Mapping[str, tuple[float, float]]
"""By stage: ms of CPU time, and of time, since the process began."""


@click.command()
@click.option("--objects", type=click.IntRange(1), default=500, show_default=True, help="ConfigMaps.")
@click.option("--rounds", type=click.IntRange(1), help="How often it starts.  [default: 9]")
@click.option("--against", metavar="REV", help="Another version of distq, as git names it.")
@click.option("--quick", is_flag=True, help="Three rounds.")
@click.option("--json", "as_json", is_flag=True, help="End with one JSON object.")
def main(objects: int, rounds: int | None, against: str | None, quick: bool, as_json: bool) -> None:
    """Measure what it costs to start."""
    rounds = rounds or (3 if quick else 9)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="distq-benchmark-")))
        environment = {
            **{name: text for name, text in os.environ.items() if not name.startswith(("DISTQ_", "PYTHON"))},
            "KUBECONFIG": str(folder / "kubeconfig"),
            "DISTQ_REDIS_URL": stack.enter_context(EmbeddedValkey()).url,
            "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
        }
        serve = ["-m", "distq.testing.apiserver", "--port", "0", "--kubeconfig", environment["KUBECONFIG"]]
        api_server = stack.enter_context(python(serve))
        assert api_server.stdout is not None
        api_server.stdout.readline()
        _create(Client(environment["KUBECONFIG"]), objects)
        versions = {"": ROOT, **({against: stack.enter_context(checkout(against))} if against else {})}
        marks: dict[str, list[Marks]] = {name: [] for name in versions}
        for number in range(rounds + 1):
            for name in list(versions)[:: 1 if number % 2 else -1]:
                marks[name].append(_start(versions[name], environment))
    rows = list(_rows({name: measured[1:] for name, measured in marks.items()}, against))
    sys.exit(publish(rows, as_json=as_json, facts={"objects": objects, "rounds": rounds}))


def _create(client: Client, objects: int) -> None:
    for number in range(objects):
        about = {"namespace": "default", "name": f"started-{number}"}
        client.create(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": {"text": "x" * 200}}
        )


def _start(version: Path, environment: Mapping[str, str]) -> Marks:
    """Start it for the first time of its installation, and end it when all is done."""
    # a shell's 2>&1, since the log shows two of the stages; the program is the process itself
    program = f"import os, runpy; os.dup2(1, 2); import sys; sys.path.insert(0, {str(ROOT / 'benchmarks')!r})"
    command = [
        "-c",
        f"{program}; sys.argv = ['distq', 'run', 'started']; runpy.run_module('distq', run_name='__main__')",
    ]
    began, marks = time.monotonic(), dict[str, tuple[float, float]]()
    with python(command, version, {**environment, "DISTQ_PREFIX": secrets.token_hex(4)}) as process:
        assert process.stdout is not None
        for line in process.stdout:
            stage = line.removeprefix("stage ").strip() if line.startswith("stage ") else line[9:].split()[0]
            if stage in STAGES and stage not in marks:
                marks[stage] = (1e3 * Child.cpu_of(process.pid), 1e3 * (time.monotonic() - began))
            if len(marks) == len(STAGES):
                return marks
    raise click.ClickException(f"it ended before it was {set(STAGES) - set(marks)}.")


def _rows(marks: Mapping[str, Sequence[Marks]], against: str | None) -> Iterator[Row]:
    for kind, what in enumerate(("CPU", "time")):
        for stage in STAGES:
            value, *other = (median(each[stage][kind] for each in measured) for measured in marks.values())
            bar = 1.05 if against and what == "CPU" and stage == "first object done" else None
            name = f"{stage}: {what}{f', to {against}' if against else ''}"
            yield Row(name, value, "ms", bar, other[0] if other else None)


if __name__ == "__main__":
    main()
