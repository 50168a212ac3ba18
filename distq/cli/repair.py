"""Commands that change items: add, requeue, delete, park. Repairs of many items ask first."""

from collections.abc import Sequence
from typing import Any

import click

from distq.cli.audited import audited
from distq.cli.chosen_items import ChosenItems, holder, with_choice
from distq.cli.completion import complete_key, complete_queue
from distq.cli.durations import Seconds
from distq.cli.help import command
from distq.cli.items import remedy
from distq.cli.options import with_settings
from distq.cli.output import escape, note, print_json
from distq.config import Settings
from distq.redisio.records import UNMAPPED
from distq.wording import counted


@command("distq add foos default/web --after 60")
@click.argument("queue", shell_complete=complete_queue)
@click.argument("keys", nargs=-1, shell_complete=complete_key, required=True, metavar="KEY...")
@click.option("--priority", type=click.IntRange(-900, 900), default=0, show_default=True)
@click.option("--after", type=Seconds(min=0), help="Seconds to wait before.")
@with_settings()
def add(
    *, settings: Settings, as_json: bool, queue: str, keys: Sequence[str], priority: int, after: float | None
) -> None:
    """Make the items with these KEYs pending."""
    from distq.redisio.connection import Connection
    from distq.workqueue.memory.queue import MemoryQueue
    from distq.workqueue.queue import Queue
    from distq.workqueue.rate_limiters import TEN_YEARS

    target = Queue(queue, Connection(settings=settings))
    which = keys[0] if len(keys) == 1 else counted(len(keys), "item")
    # a queue in memory refuses what Redis is not asked for: that leaves nothing, not even an audit
    MemoryQueue(queue).add(*keys, priority=priority, after=after)
    with audited(target.connection, "add", queue, f"add {which} to {queue}") as did:
        added = target.add(*keys, priority=priority, after=after)
        did(f"{added} new")
    if after is not None and after > TEN_YEARS:
        click.echo(f"distq: --after {after:g} counts as ten years", err=True)
    _report("added", added, as_json)


@command("distq requeue foos --state dead --match 'prod/*'")
@with_choice
@with_settings()
def requeue(*, settings: Settings, as_json: bool, **choice: Any) -> None:
    """Make delayed and dead items pending now, and forget their failures."""
    chosen = ChosenItems.of(settings, **choice)
    for item in chosen.items():
        if item.reason == UNMAPPED:
            raise click.ClickException(
                f"cannot requeue {escape(item.key)}: it is no key. Instead {remedy(item)}"
            )
    _report("requeued", chosen.repair("requeue", effect=", forgetting their failures"), as_json)


@command("distq delete foos prod/web")
@with_choice
@with_settings()
def delete(*, settings: Settings, as_json: bool, **choice: Any) -> None:
    """Drop ready, delayed and dead items; of a processing one only the pending add."""
    chosen = ChosenItems.of(settings, **choice)
    if chosen.state == "processing":
        raise click.ClickException("cannot delete processing items: their workers hold them.")
    for item in chosen.items():
        if item.state == "processing" and not item.dirty and item.due is None:
            raise click.ClickException(
                f"cannot delete {item.key}: {holder(item)} is processing it and nothing is pending."
            )
    if chosen.keys:
        chosen.confirm("delete", len(chosen.keys))
    _report("deleted", chosen.repair("delete"), as_json)


@command('distq park foos prod/web --reason "waits for INC-7"')
@with_choice
@click.option("--reason", default="parked by hand", show_default=True, help="Shown with the item.")
@with_settings()
def park(*, settings: Settings, as_json: bool, reason: str, **choice: Any) -> None:
    """Make ready and delayed items dead until an event or a requeue revives them; they never expire."""
    chosen = ChosenItems.of(settings, **choice)
    if chosen.state in {"processing", "dirty"}:
        raise click.ClickException(f"cannot park {chosen.state} items: their workers hold them.")
    before = chosen.items()
    for item in before:
        if item.state == "processing":
            raise click.ClickException(f"cannot park {item.key}: {holder(item)} is processing it.")
    changed = chosen.repair("park", reason=reason)
    for item in before:
        if item.state == "dead" and chosen.inspector.item(chosen.queue, item.key) == item:
            note(f"{escape(item.key)} is dead already ({item.reason}), and nothing but a change revives it.")
    _report("parked", changed, as_json)


def _report(verb: str, count: int, as_json: bool) -> None:
    if as_json:
        print_json({verb: count})
    else:
        click.echo(f"{verb} {count}")
