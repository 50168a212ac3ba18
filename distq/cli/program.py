"""The program ``distq``: its commands, and how each way of ending becomes an exit status.

0: done. 1: no (a check failed, there is no such item, a question was answered with no). 2: usage,
configuration, connection, or a full disk below the result. 3: stopped before all was settled. 4: only a
restart helps. 130: Ctrl-C. Errors are one line on stderr, without a traceback.
"""

import os
import signal
import sys
import threading
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import click

from distq.cli.audit import audit
from distq.cli.bench import bench
from distq.cli.check import check
from distq.cli.completion import completion
from distq.cli.dashboard import dashboard
from distq.cli.demo import demo
from distq.cli.init import init
from distq.cli.items import items
from distq.cli.manifests import manifests
from distq.cli.output import escape, lead_nowhere, note, printing
from distq.cli.processes import leader, workers
from distq.cli.queue_changes import fair, pause, resume, resync, trace
from distq.cli.queues import queues
from distq.cli.repair import add, delete, park, requeue
from distq.cli.run import informer, run, worker
from distq.cli.sandbox import sandbox
from distq.cli.top import top
from distq.errors import DistqError, LeaseLost, NoSlotLeft, Stalled, Unsettled

UNSETTLED, NO_SLOT_LEFT, INTERRUPTED = 3, 4, 130
_STATUSES = {LeaseLost: 1, Unsettled: UNSETTLED, NoSlotLeft: NO_SLOT_LEFT, Stalled: NO_SLOT_LEFT}
"""Of all other errors it is 2."""

_WHOLE = 200
"""Letters that a sentence of the help may have."""

EXIT_TIME = 0.3
"""Seconds for threads that cannot be left behind, such as those of ``asyncio.to_thread``."""


class CommandGroup(click.Group):
    """A group whose errors are one line, and whose help has its commands by purpose."""

    def __init__(self, *args: Any, **extra: Any) -> None:
        super().__init__(*args, **extra)
        self._sections: dict[str, tuple[click.Command, ...]] = {}

    def add_section(self, title: str, *commands: click.Command) -> None:
        """Add commands, which are below this title in the help."""
        self._sections[title] = commands
        for each in commands:
            self.add_command(each)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write each command with its whole first sentence, which click's own list would cut."""
        width = max(map(len, self.commands))
        for title, commands in self._sections.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(f"{each.name:<{width}}", each.get_short_help_str(limit=_WHOLE)) for each in commands]
                )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options; without a command show the help, which some versions of click make an error."""
        if not args and not ctx.resilient_parsing:  # completion asks what there is
            click.echo(ctx.get_help(), err=True)
            ctx.exit(2)
        with printing():  # the help, or the version
            return super().parse_args(ctx, args)

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line; raise SystemExit with its status."""
        # not standalone: click would print errors in several lines, with statuses of its own
        sys.exit(self._status(*args, **{"prog_name": "distq", **extra, "standalone_mode": False}))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the chosen command."""
        with printing():
            try:
                return super().invoke(ctx)
            except KeyboardInterrupt:  # click would print to stderr, which may be a full pipe
                ctx.exit(INTERRUPTED)

    def _status(self, *args: Any, **extra: Any) -> int:
        try:
            status = super().main(*args, **extra)
        except click.UsageError as error:
            path = error.ctx.command_path if error.ctx else "distq"
            return _fail(f'{error.format_message()} Try "{path} --help".', 2)
        except click.ClickException as error:
            return _fail(error.format_message(), error.exit_code)
        except click.Abort:
            return INTERRUPTED
        except DistqError as error:
            return _fail(str(error), _STATUSES.get(type(error), 2))
        return status if isinstance(status, int) else 0


def run_program() -> None:
    """Run the command line as a program, and end it after EXIT_TIME even if a thread hangs."""
    _open_standard_streams()
    try:
        main()
    except (SystemExit, KeyboardInterrupt) as end:  # such as a second Ctrl-C
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):
            signal.signal(number, signal.SIG_IGN)  # a second one is to end nothing that ends already
        status = end.code if isinstance(end, SystemExit) else INTERRUPTED
        cut = threading.Timer(EXIT_TIME, os._exit, [status])
        cut.daemon = True
        cut.start()
        _flush()  # a full pipe may hold it, until it is cut
        sys.exit(status)


def _open_standard_streams() -> None:
    """Discard what is printed to a closed stream: its number would be the next file's, or socket's.

    Letters that the encoding of a terminal lacks are printed as escapes, as Python does on stderr.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115  # for the life of the process
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _flush() -> None:
    """Print what is left; what a stream does not take goes nowhere, or Python would end with status 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            lead_nowhere(stream.fileno())
        except ValueError:  # it is closed
            pass


def _fail(message: str, status: int) -> int:
    note(f"distq: {escape(message)}")
    return status


@click.group(
    cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="distq", prog_name="distq", message="%(prog)s %(version)s")
def main() -> None:
    """client-go's workqueue, shared by many processes through Redis."""


main.add_section("Try it", demo, sandbox, init)
main.add_section("Run controllers", run, informer, worker)
main.add_section("Look", queues, top, items, workers, leader, audit)
main.add_section("Change", add, requeue, park, delete, pause, resume, fair, resync, trace)
main.add_section("Check and show", check, bench, manifests, dashboard, completion)
