"""The command queues: all queues in numbers, once, again and again, or over time."""

import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from distq.cli.options import Seconds, command, with_settings
from distq.cli.output import note, print_found, print_json, print_table, since
from distq.cli.past import print_history
from distq.cli.queue_access import (
    existing_queue,
    exit_if_broken,
    inspector_of,
    require_queue,
    with_optional_queue,
)
from distq.config import Settings
from distq.wording import age, brief, counted

if TYPE_CHECKING:
    from distq.inspector import FlowInfo, Inspector, QueueInfo

LONGEST_INTERVAL = 86400.0
"""Seconds between two looks at most; the system's sleep has an end, too."""

_COUNTS = ["READY", "DELAYED", "PROCESSING", "DIRTY", "DEAD", "FAILING"]
QUEUE_COLUMNS = ["QUEUE", *_COUNTS, "OLDEST", "DONE/S", "WORKERS"]


@command("distq queues --watch")
@with_optional_queue
@click.option("--watch", is_flag=True, help="Look again every --interval seconds, until Ctrl-C.")
@click.option("--interval", type=Seconds(min=0.1), default=2.0, show_default=True, help="Seconds.")
@click.option("--history", is_flag=True, help="Show the numbers over time.")
@click.option(
    "--since", type=Seconds(min=0), default="1h", show_default=True, help="How far the history goes back."
)
@click.option("--flows", is_flag=True, help="Show the flows, by what keys have before their first slash.")
@with_settings()
def queues(
    *,
    settings: Settings,
    as_json: bool,
    queue: str | None,
    watch: bool,
    interval: float,
    history: bool,
    since: float,
    flows: bool,
) -> None:
    """Show all queues, or one, in numbers."""
    if watch + history + flows > 1:
        raise click.UsageError("Give one of --watch, --history and --flows.")
    inspector = inspector_of(settings)
    if history or flows:
        found = [require_queue(inspector, queue)] if queue else inspector.queues()
        if history:
            print_history(inspector, [info.name for info in found], since, as_json=as_json)
        else:
            _print_flows(inspector, [info.name for info in found if info.broken is None], as_json=as_json)
            exit_if_broken(found)
        return
    while True:
        found = [existing_queue(inspector, queue)] if queue else inspector.queues()
        if watch and not as_json and sys.stdout.isatty():
            click.clear()
        if not found and not as_json:
            shared = "" if settings.prefix == Settings.prefix else f' of the prefix "{settings.prefix}"'
            note(f"no queues yet{shared}")
        else:
            _print_queues(found, inspector.now(), as_json)
        if not watch:
            exit_if_broken(found)
            return
        time.sleep(min(interval, LONGEST_INTERVAL))


def _print_queues(found: "Sequence[QueueInfo]", now: float, as_json: bool) -> None:
    if as_json:
        for info in found:
            print_json(info)
    else:
        is_special = any(list(_special(info, now)) or info.broken for info in found)
        headers = [*QUEUE_COLUMNS, *([""] if is_special else [])]
        print_table(headers, [queue_row(info, now)[: len(headers)] for info in found])


def queue_row(info: "QueueInfo", now: float) -> list[str]:
    """Return a queue as a row of the table; the last cell, without a title, has its special conditions."""
    if info.broken is not None:
        return [info.name, *["-"] * (len(QUEUE_COLUMNS) - 1), f"cannot be read: {info.broken}"]
    return [
        info.name,
        *(str(getattr(info, count.lower())) for count in _COUNTS),
        since(info.oldest_ready, now),
        f"{info.done_per_second:.1f}",
        str(info.workers),
        ", ".join(_special(info, now)),
    ]


def _special(info: "QueueInfo", now: float) -> Iterator[str]:
    """Yield a pause, a trace, watches that are waited for, and items that their flow holds back."""
    if info.paused_since is not None:
        yield f"paused {since(info.paused_since, now)}"
    if info.catching_up_until is not None:
        yield f"watches catch up, for {age(info.catching_up_until - now)} at most"
    if info.traced_until is not None:
        yield f"traced for {age(info.traced_until - now)} more"
    if info.held_back:
        yield f"{info.held_back} held back"


def _print_flows(inspector: "Inspector", queues: Sequence[str], *, as_json: bool) -> None:
    """Print the flows of queues, as a table with notes of what it leaves out, or as a JSON object each."""
    looks, now = [inspector.flows(queue) for queue in queues], inspector.now()
    found = [flow for look in looks for flow in look.flows]
    none = "no item waits, and none was claimed in the last minutes"
    print_found(found, lambda flow: _flow_row(flow, now), as_json, none=none)
    for look in [] if as_json else looks:
        if look.is_sample:
            note(f"{look.queue}: estimated from {look.looked_at} of {look.ready} ready items")
        if look.left_out:
            note(f"{look.queue}: {counted(look.left_out, 'flow')} more")


def _flow_row(flow: "FlowInfo", now: float) -> dict[str, str]:
    estimated = "~" if flow.sample else ""
    p50, p99 = (
        "-" if seconds is None else brief(seconds) for seconds in (flow.waiting_p50, flow.waiting_p99)
    )
    return {
        "QUEUE": flow.queue,
        "FLOW": "-" if flow.flow is None else flow.flow,
        "READY": f"{estimated if flow.ready else ''}{flow.ready}",
        "HELD-BACK": f"{estimated if flow.held_back else ''}{flow.held_back}",
        "PROCESSING": str(flow.processing),
        "OLDEST": since(flow.oldest_ready, now),
        "CLAIMED": str(flow.claimed),
        "WAITED-P50": p50,
        "WAITED-P99": p99,
    }
