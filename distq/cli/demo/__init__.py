"""The command ``distq demo``: starts everything, kills the leader and a worker, and checks itself."""

import shutil
import sys
from collections.abc import Iterator

import click

from distq.cli.options import Seconds, command
from distq.cli.output import note, print_json
from distq.cli.signals import leave_on_signals
from distq.extras import require_extra


@command("distq demo --objects 500 --duration 30")
@click.option("--objects", type=click.IntRange(min=1), default=200, show_default=True)
@click.option("--duration", type=Seconds(min=5), default=15, show_default=True, help="Seconds.")
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True),
    help="A cluster of your own, instead of the emulated one; the demo adds a CRD and a namespace to it.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object a line, the last is the summary."
)
def demo(*, objects: int, duration: float, kubeconfig: str | None, as_json: bool) -> None:
    """Run informers and workers, kill the leader and a worker, and check that nothing was lost."""
    with require_extra("demo"):
        from distq.cli.demo.display import open_display
        from distq.cli.demo.performance import Performance
        from distq.cli.demo.stage import Stage

    leave_on_signals()  # SIGTERM and a closed terminal end the stage's processes, too
    with Stage(kubeconfig) as stage:
        try:
            with open_display(as_json=as_json) as display:
                performance = Performance(stage, display, objects, duration)
                verdict = performance.run()
        except KeyboardInterrupt:
            note(f"stopping: {stage.what_runs()}; nothing is left of them")
            raise
        for complaint in performance.complaints:
            note(complaint)
    if as_json:
        print_json(vars(verdict))
    else:
        click.echo(str(verdict))
        if verdict.good:
            note("\n".join(next_steps()))
    sys.exit(0 if verdict.good else 1)


def next_steps() -> Iterator[str]:
    """Yield the lines that say what to do after the demo."""
    if shutil.which("distq") is None:
        yield f"# to have distq on the path: . {sys.prefix}/bin/activate"
    yield "# next:"
    yield "#   distq init Backup          write a controller of your own, with tests"
    yield "#   distq sandbox bash         try it, in a shell with its own Redis and API server"
    yield "#   distq dashboard --actions  in that shell: see its queues in a browser (extra dashboard)"
    yield "#   docs/tutorial.md           grow an operator step by step, in half an hour"
