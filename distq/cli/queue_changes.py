"""Commands that change a queue as a whole, or what is recorded of it: pause, resume, fair, resync, trace.

Pause and resume ask nothing first: the other one undoes it, and nothing is lost in between.
"""

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from distq.cli.audit import operator_of
from distq.cli.options import Seconds, command, with_settings
from distq.cli.output import POLL_INTERVAL, Progress, confirm, escape, note, print_json, print_result
from distq.cli.queue_access import NO_QUEUE, inspector_of, require_queue, with_queue
from distq.config import Settings
from distq.wording import age, rfc3339

if TYPE_CHECKING:
    from distq.inspector import Inspector, TraceEvent

_NOT_YET = (
    "it is there once a worker of it runs. To trace it from the first key on, start its worker, "
    "trace it, and then start its informer."
)


@command("distq pause foos --wait")
@with_queue
@click.option("--wait", is_flag=True, help="Return when no item is in progress.")
@with_settings()
def pause(*, settings: Settings, as_json: bool, queue: str, wait: bool) -> None:
    """Stop claims of QUEUE; workers finish the items that they hold, and adds are accepted."""
    inspector = inspector_of(settings, queue)
    operator_of(inspector).pause(queue)
    if wait:
        _wait_until_idle(inspector, queue)
    processing = require_queue(inspector, queue).processing
    text = f"paused; {processing} in progress" if processing else "paused"
    print_result({"paused": True, "processing": processing}, text, as_json)


@command("distq resume foos")
@with_queue
@with_settings()
def resume(*, settings: Settings, as_json: bool, queue: str) -> None:
    """Let workers of QUEUE claim again."""
    was_paused = operator_of(inspector_of(settings, queue)).resume(queue)
    print_result({"paused": False}, "resumed" if was_paused else "was not paused", as_json)


def _wait_until_idle(inspector: "Inspector", queue: str) -> None:
    """Return when no item is held; exit 1 where the queue is resumed meanwhile."""
    with Progress(f"not waiting any more; {queue} stays paused until: distq resume {queue}") as progress:
        while True:
            info = require_queue(inspector, queue)
            if not info.paused:
                raise click.ClickException(f"{queue} was resumed meanwhile: {info.processing} in progress.")
            progress.show(f"paused; {info.processing} in progress")
            if not info.processing:
                return
            time.sleep(POLL_INTERVAL)


@command("distq fair foos namespace")
@with_queue
@click.argument("by", type=click.Choice(["namespace", "none"]))
@with_settings()
def fair(*, settings: Settings, as_json: bool, queue: str, by: str) -> None:
    """Let the namespaces of QUEUE take turns, or none: then items come in the order of the adds."""
    fair_by = None if by == "none" else by
    before = operator_of(inspector_of(settings, queue)).fair_by(queue, fair_by)
    if before == fair_by:
        text = "nothing changed"
    elif fair_by:
        text = "the namespaces take turns, also with the items that wait"
    else:
        text = (
            "waiting items keep their places, new ones come behind them; "
            'a program that says fair_by="namespace" runs on, but does not start again'
        )
    print_result({"fair_by": fair_by, "before": before}, text, as_json)


@command("distq resync foos --wait")
@with_queue
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--wait", is_flag=True, help="Return when everything is listed and enqueued.")
@click.option(
    "--timeout",
    type=Seconds(min=0),
    default=600.0,
    show_default=True,
    help="Seconds to wait at most.",
)
@with_settings()
def resync(*, settings: Settings, as_json: bool, queue: str, yes: bool, wait: bool, timeout: float) -> None:
    """Make the leader list all resources that feed QUEUE and enqueue them, at low priority."""
    from distq.inspector.info import leaderless_since

    inspector = inspector_of(settings, queue)
    resources = [stream.resource for stream in inspector.streams(queue)]
    if not resources:
        raise click.ClickException(f"nothing to list: no informer feeds {queue}.")
    confirm(f"List {', '.join(resources)} and enqueue every object in {queue}?", yes)
    resynced = operator_of(inspector).resync(queue)
    gone_since = leaderless_since(inspector.streams(queue))
    if gone_since is not None and not as_json:
        since = age(inspector.now() - gone_since)
        note(f"no leader for {since}: the resync begins when an informer of {queue} leads")
    listing = _wait_until_listed(inspector, queue, resynced, timeout) if wait else []
    outcome = {"listed": resynced - len(listing)} if wait else {}
    gone = None if gone_since is None else rfc3339(gone_since)
    record = {"resynced": resynced, "gone_since": gone, **outcome}
    print_result(record, f"resynced {resynced}", as_json)
    if listing:
        raise click.ClickException(f"not listed within {timeout:g} s: {', '.join(listing)}. It goes on.")


def _wait_until_listed(inspector: "Inspector", queue: str, resynced: int, timeout: float) -> list[str]:
    """Return when all is listed, or the resources that are not when time is up."""
    from distq.inspector.info import leaderless_since

    until = time.monotonic() + timeout
    with Progress("not waiting any more; the resync goes on") as progress:
        while True:
            streams = inspector.streams(queue)
            listing = [stream.resource for stream in streams if stream.version is None]
            led = "" if leaderless_since(streams) is None else "; no leader"
            progress.show(f"{resynced - len(listing)} of {resynced} listed{led}")
            if not listing or time.monotonic() >= until:
                return listing
            time.sleep(POLL_INTERVAL)


@command("distq trace on foos --for 10m")
@click.argument("words", nargs=-1, required=True, metavar="[on|off] QUEUE [KEY]")
@click.option("--for", "seconds", type=Seconds(min=0), default="10m", show_default=True, help="How long.")
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
    # alone it is a queue of that name
    switch = words[0] if len(words) > 1 and words[0] in {"on", "off"} else None
    queue, *keys = words[1:] if switch else words
    if len(keys) > (0 if switch else 1):
        raise click.UsageError(f"Got unexpected extra argument ({keys[-1]})")
    require_queue(inspector, queue, _NOT_YET if switch == "on" else NO_QUEUE)
    if switch == "on":
        operator_of(inspector).trace_on(queue, seconds=seconds, limit=limit, match=match)
    elif switch == "off":
        operator_of(inspector).trace_off(queue)
    else:
        _show(inspector.trace(queue, *keys, match=match), keys, as_json)
    _report_end(inspector, queue, as_json=as_json and switch is not None)


def _show(events: "Iterable[TraceEvent]", keys: Sequence[str], as_json: bool) -> None:
    event = None
    for event in events:
        by = f"  by {event.worker}" if event.worker else ""
        fence = f", fence {event.fence}" if event.fence else ""
        text = f"{rfc3339(event.at)}  {event.key or '-'}  {event.event}{by}{fence}"
        print_result(event, escape(text), as_json)
    if keys and event is None:
        note(f"the trace has no call for {escape(keys[0])}")


def _report_end(inspector: "Inspector", queue: str, *, as_json: bool) -> None:
    """Print when the trace ends: as a note, or as JSON for a program that switched it."""
    until = inspector.traced_until(queue)
    if as_json:
        print_json({"traced_until": None if until is None else rfc3339(until)})
    elif until is None:
        note(f"{queue} is not traced; for ten minutes: distq trace on {queue}")
    else:
        note(f"{queue} is traced for {age(until - inspector.now())} more")
