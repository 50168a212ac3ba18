"""The command that records and shows the calls to a queue: trace."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from distq.cli.audited import audited
from distq.cli.durations import Duration
from distq.cli.help import command
from distq.cli.options import with_settings
from distq.cli.output import escape, note, print_json
from distq.cli.queue_access import NO_QUEUE, inspector_of, require_queue
from distq.config import Settings
from distq.wording import age, rfc3339

if TYPE_CHECKING:
    from distq.inspector import Inspector, TraceEvent

_NOT_YET = (
    "it is there once a worker of it runs. To trace it from the first key on, start its worker, "
    "trace it, and then start its informer."
)


@command("distq trace on foos --for 10m")
@click.argument("words", nargs=-1, required=True, metavar="[on|off] QUEUE [KEY]")
@click.option("--for", "seconds", type=Duration(), default="10m", show_default=True, help="How long.")
@click.option(
    "--limit",
    type=click.IntRange(1, 1_000_000),
    default=10_000,
    show_default=True,
    help="Entries to keep.",
)
@click.option("--match", default="", help="Only calls that name such a key; * matches any text.")
@with_settings()
def trace(
    *, settings: Settings, as_json: bool, words: Sequence[str], seconds: float, limit: int, match: str
) -> None:
    """Record the calls to QUEUE, or show what happened to its items or to KEY."""
    inspector = inspector_of(settings)
    switch = words[0] if len(words) > 1 and words[0] in {"on", "off"} else None
    queue, *keys = words[1:] if switch else words
    if len(keys) > (0 if switch else 1):
        raise click.UsageError(f"Got unexpected extra argument ({keys[-1]})")
    require_queue(inspector, queue, _NOT_YET if switch == "on" else NO_QUEUE)
    if switch == "on":
        which = f" where keys match {match}" if match else ""
        with audited(
            inspector.connection, "trace-on", queue, f"trace {queue} for {seconds / 60:g} minutes{which}"
        ) as did:
            inspector.trace_on(queue, seconds=seconds, limit=limit, match=match)
            did("done")
    elif switch == "off":
        with audited(inspector.connection, "trace-off", queue, f"end the trace of {queue}") as did:
            inspector.trace_off(queue)
            did("done")
    else:
        _show(inspector.trace(queue, *keys, match=match), keys, as_json)
    _report_end(inspector, queue, as_json=as_json and switch is not None)


def _show(events: "Iterable[TraceEvent]", keys: Sequence[str], as_json: bool) -> None:
    event = None
    for event in events:
        _print(event, as_json)
    if keys and event is None:
        note(f"the trace has no call for {escape(keys[0])}")


def _print(event: "TraceEvent", as_json: bool) -> None:
    if as_json:
        print_json(event)
        return
    by = f"  by {event.worker}" if event.worker else ""
    fence = f", fence {event.fence}" if event.fence else ""
    click.echo(escape(f"{rfc3339(event.at)}  {event.key or '-'}  {event.event}{by}{fence}"))


def _report_end(inspector: "Inspector", queue: str, *, as_json: bool) -> None:
    """Print when the trace ends: as a note, or as JSON for a program that switched it."""
    until = inspector.traced_until(queue)
    if as_json:
        print_json({"traced_until": None if until is None else rfc3339(until)})
    elif until is None:
        note(f"{queue} is not traced; for ten minutes: distq trace on {queue}")
    else:
        note(f"{queue} is traced for {age(until - inspector.now())} more")
