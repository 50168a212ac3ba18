"""The command items: the items of a queue, or one of them in full."""

import shlex
import sys
import textwrap
from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import click

from distq.cli.completion import complete_key
from distq.cli.options import command, with_settings
from distq.cli.output import escape, note, print_json, print_table, since, until
from distq.cli.queue_access import STATES, inspector_of, require_queue, with_queue
from distq.config import Settings
from distq.redisio.records import UNMAPPED
from distq.wording import counted

if TYPE_CHECKING:
    from distq.inspector import Inspector, ItemInfo

ITEM_COLUMNS = ["KEY", "STATE", "PRIORITY", "FAILURES", "SINCE", "DUE", "WORKER", "LAST ERROR"]


@command("distq items foos --state dead")
@with_queue
@click.argument("key", required=False, shell_complete=complete_key)
@click.option("--state", type=STATES, help="Only items in this state.")
@click.option("--failing", is_flag=True, help="Only items with failures, the dead included.")
@click.option("--match", default="*", help="Only keys that match this glob.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True)
@click.option("--offset", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--all", "all_items", is_flag=True, help="All of them, printed as they are read.")
@with_settings()
def items(
    *,
    settings: Settings,
    as_json: bool,
    queue: str,
    key: str | None,
    limit: int,
    offset: int,
    all_items: bool,
    **chosen: Any,
) -> None:
    """Show the items of QUEUE, or one item in full."""
    inspector = inspector_of(settings)
    if key is not None:
        _print_item(inspector, queue, key, as_json)
        return
    require_queue(inspector, queue)
    found: Iterator[ItemInfo]
    if all_items:
        # islice takes no larger number than maxsize
        found = islice(inspector.each_item(queue, **chosen), min(offset, sys.maxsize), None)
    else:
        found = iter(inspector.items(queue, limit=limit, offset=offset, **chosen))
    if as_json:
        for item in found:
            print_json(item)
        return
    now = inspector.now()
    count, any_dirty = 0, False

    def rows() -> Iterator[list[str]]:
        nonlocal count, any_dirty
        for item in found:
            count += 1
            any_dirty |= item.dirty
            yield item_row(item, now)

    if (first := next(left := rows(), None)) is not None:  # no title above nothing
        print_table(ITEM_COLUMNS, chain([first], left))
    again = " (* = added again meanwhile)" if any_dirty else ""
    more = "; there may be more: --limit, --offset, --all" if count == limit and not all_items else ""
    note(f"{counted(count, 'item')}{again}{more}")


def item_row(item: "ItemInfo", now: float) -> list[str]:
    """Return an item as a row of the table."""
    return [
        item.key,
        item.state + ("*" if item.dirty else ""),
        str(item.priority),
        str(item.failures),
        since(item.since, now),
        until(item.due, now),
        item.worker or "-",
        f"parked: {item.last_error}" if item.reason == "parked" else item.last_error or "",
    ]


def existing_item(inspector: "Inspector", queue: str, key: str) -> "ItemInfo":
    """Return the item of a key; exit 1 where it is in no state."""
    item = inspector.item(queue, key)
    if item is None:
        raise click.ClickException(f'no item "{key}" in {queue}: neither pending, held nor dead.')
    return item


def _print_item(inspector: "Inspector", queue: str, key: str, as_json: bool) -> None:
    item = existing_item(inspector, queue, key)
    if as_json:
        print_json(item)
        return
    for name, value in _item_facts(item, inspector.now()):
        click.echo(f"{name:<8}  {value}")


def _item_facts(item: "ItemInfo", now: float) -> list[tuple[str, str]]:
    state = item.state + (" since " + since(item.since, now) if item.since else "")
    facts = [
        ("key", escape(item.key)),
        ("state", state + (f" ({escape(item.reason)})" if item.reason else "")),
    ]
    if item.held_back:
        facts.append(("waits", "held back: its namespace is at its limit"))
    if item.dirty:
        facts.append(("pending", "again, after this"))
    if item.due:
        facts.append(("revived" if item.state == "dead" else "due", until(item.due, now)))
    if item.priority:
        facts.append(("priority", str(item.priority)))
    if item.worker:
        deadline = f", claim lapses {until(item.claim_deadline, now)}" if item.claim_deadline else ""
        facts.append(("worker", escape(item.worker) + deadline))
    by_hand = item.reason == "parked"  # then error and time are the operator's, not the last failure's
    if item.failures:
        last = f", last {since(item.last_error_at, now)} ago" if item.last_error_at and not by_hand else ""
        facts.append(("failures", f"{item.failures}{last}"))
    if item.crashes:
        facts.append(("crashes", f"{item.crashes}: so many workers died while they held it"))
    if item.last_error:
        facts.append(("reason" if by_hand else "error", escape(item.last_error)))
    if item.traceback:
        lines = [escape(line) for line in textwrap.dedent(item.traceback).splitlines()]
        facts += [("", line) for line in lines]
    if item.state == "dead":
        facts.append(("remedy", remedy(item)))
    return facts


def remedy(item: "ItemInfo") -> str:
    """Return the command that revives a dead item; a change of its object does so, too."""
    if item.reason == UNMAPPED:
        return remedy_of_unmapped(item.queue)
    return f"distq requeue {item.queue} {shlex.quote(escape(item.key))}"


def remedy_of_unmapped(queue: str) -> str:
    """Return what helps objects that no function of a watch could map."""
    return f"fix the object, or the function and then: distq resync {queue}"
