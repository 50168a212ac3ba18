"""Commands that look: queues, items, workers, leader."""

import shlex
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import click

from distq.cli.completion import complete_key, complete_queue
from distq.cli.durations import Duration
from distq.cli.help import command
from distq.cli.options import with_settings
from distq.cli.output import escape, note, print_json, print_table
from distq.cli.past import print_history
from distq.config import Settings
from distq.redisio.records import UNMAPPED
from distq.wording import age, counted

if TYPE_CHECKING:
    from distq.inspector import Inspector, ItemInfo, QueueInfo, StreamInfo

NO_QUEUE = 'nothing was ever added to it. See "distq queues".'
LONGEST_INTERVAL = 86400.0
"""Seconds between two looks at most; the system's sleep has an end, too."""
STATES = click.Choice(["ready", "delayed", "processing", "dead", "dirty"])
QUEUE_COLUMNS = [
    "QUEUE",
    "READY",
    "DELAYED",
    "PROCESSING",
    "DIRTY",
    "DEAD",
    "FAILING",
    "OLDEST",
    "DONE/S",
    "WORKERS",
]
ITEM_COLUMNS = ["KEY", "STATE", "PRIORITY", "FAILURES", "SINCE", "DUE", "WORKER", "LAST ERROR"]
_WORKERS = ["WORKER", "QUEUE", "HOST", "PID", "VERSION", "UP", "HEARTBEAT", "PROCESSING", "DONE", "FAILED"]
_STREAMS = [
    "QUEUE",
    "RESOURCE",
    "LEADER",
    "SINCE",
    "EPOCH",
    "VERSION",
    "SYNCED",
    "LAG",
    "CACHED",
    "LAST ERROR",
]


def inspector_of(settings: Settings) -> "Inspector":
    """Return an Inspector on the Redis of these settings."""
    from distq.inspector import Inspector
    from distq.redisio.connection import Connection

    return Inspector(Connection(settings=settings))


def require_queue(inspector: "Inspector", queue: str, otherwise: str = NO_QUEUE) -> "QueueInfo":
    """Return the queue's numbers; exit 1 where there is no such queue, or it is broken.

    ``otherwise`` says what then. Raises InvalidQueueName.
    """
    found = _existing(inspector, queue, otherwise)
    if found.broken is not None:
        raise click.ClickException(f"cannot read {queue}: {found.broken}")
    return found


def _existing(inspector: "Inspector", queue: str, otherwise: str = NO_QUEUE) -> "QueueInfo":
    found = inspector.queues(queue)
    if not found:
        raise click.ClickException(f'no queue "{queue}": {otherwise}')
    return found[0]


@command("distq queues --watch")
@click.argument("queue", shell_complete=complete_queue, required=False)
@click.option("--watch", is_flag=True, help="Look again every --interval seconds, until Ctrl-C.")
@click.option("--interval", type=click.FloatRange(min=0.1), default=2.0, show_default=True, help="Seconds.")
@click.option("--history", is_flag=True, help="Show how the numbers were until now.")
@click.option(
    "--since", type=Duration(), default="1h", show_default=True, help="How far the history goes back."
)
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
) -> None:
    """Show all queues, or one, in numbers."""
    inspector = inspector_of(settings)
    if history:
        found = [require_queue(inspector, queue)] if queue else inspector.queues()
        print_history(inspector, [info.name for info in found], since, as_json=as_json)
        return
    while True:
        found = [_existing(inspector, queue)] if queue else inspector.queues()
        if watch and not as_json and sys.stdout.isatty():
            click.clear()
        if not found and not as_json:
            shared = "" if settings.prefix == Settings.prefix else f' of the prefix "{settings.prefix}"'
            note(f"no queues yet{shared}")
        else:
            _print_queues(found, inspector.now(), as_json)
        if not watch:
            _exit_if_broken(found)
            return
        sys.stdout.flush()
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
    """Return a queue as a row of the table; the last cell, without a title, is what is special about it."""
    if info.broken is not None:
        return [info.name, *["-"] * (len(QUEUE_COLUMNS) - 1), f"cannot be read: {info.broken}"]
    counts = (info.ready, info.delayed, info.processing, info.dirty, info.dead, info.failing)
    return [
        info.name,
        *map(str, counts),
        _age_since(info.oldest_ready, now),
        f"{info.done_per_second:.1f}",
        str(info.workers),
        ", ".join(_special(info, now)),
    ]


def _exit_if_broken(found: "Sequence[QueueInfo]") -> None:
    """Exit 1 where a queue could not be read, once all others were shown."""
    broken = [info.name for info in found if info.broken is not None]
    if broken:
        raise click.ClickException(f'cannot read {", ".join(broken)}. See "distq check".')


def _special(info: "QueueInfo", now: float) -> Iterator[str]:
    """Yield what people did to the queue that lasts, and what its workers wait for."""
    if info.paused_since is not None:
        yield f"paused {_age_since(info.paused_since, now)}"
    if info.catching_up_until is not None:
        yield f"watches catch up, for {age(info.catching_up_until - now)} at most"
    if info.traced_until is not None:
        yield f"traced for {age(info.traced_until - now)} more"


@command("distq items foos --state dead")
@click.argument("queue", shell_complete=complete_queue)
@click.argument("key", required=False, shell_complete=complete_key)
@click.option("--state", type=STATES, help="Only items in this state.")
@click.option("--failing", is_flag=True, help="Only items with failures, the dead included.")
@click.option("--match", default="*", help="Only keys that match this glob.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True)
@click.option("--offset", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--all", "all_items", is_flag=True, help="All of them, however many, as they are read.")
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
    """Show the items of QUEUE, or all about the one with KEY."""
    inspector = inspector_of(settings)
    if key is not None:
        _print_item(inspector, queue, key, as_json)
        return
    require_queue(inspector, queue)
    found: Iterator[ItemInfo]
    if all_items:
        found = islice(inspector.each_item(queue, **chosen), min(offset, sys.maxsize), None)
    else:
        found = iter(inspector.items(queue, limit=limit, offset=offset, **chosen))
    tally = _Tally(found, None if all_items else limit)
    if as_json:
        for item in tally:
            print_json(item)
        return
    now = inspector.now()
    rows = (item_row(item, now) for item in tally)
    if (first := next(rows, None)) is not None:
        print_table(ITEM_COLUMNS, chain([first], rows))
    note(tally.said())


def item_row(item: "ItemInfo", now: float) -> list[str]:
    """Return an item as a row of the table."""
    return [
        item.key,
        item.state + ("*" if item.dirty else ""),
        str(item.priority),
        str(item.failures),
        _age_since(item.since, now),
        _until(item.due, now),
        item.worker or "-",
        f"parked: {item.last_error}" if item.reason == "parked" else item.last_error or "",
    ]


class _Tally:
    """Hands on items as they come, ``limit`` at most, and says how many there were."""

    def __init__(self, items: "Iterator[ItemInfo]", limit: int | None) -> None:
        self._items = items
        self._limit = limit
        self._count = 0
        self._any_dirty = False

    def __iter__(self) -> "Iterator[ItemInfo]":
        for item in self._items:
            self._count += 1
            self._any_dirty |= item.dirty
            yield item

    def said(self) -> str:
        """Return how many it handed on."""
        text = counted(self._count, "item")
        if self._any_dirty:
            text += " (* = added again meanwhile)"
        return f"{text}; there may be more: --limit, --offset, --all" if self._count == self._limit else text


def _print_item(inspector: "Inspector", queue: str, key: str, as_json: bool) -> None:
    item = inspector.item(queue, key)
    if item is None:
        raise click.ClickException(f'no item "{key}" in {queue}: neither pending, held nor dead.')
    if as_json:
        print_json(item)
        return
    for name, value in _item_facts(item, inspector.now()):
        click.echo(f"{name:<8}  {value}")


def _item_facts(item: "ItemInfo", now: float) -> list[tuple[str, str]]:
    state = item.state + (" since " + _age_since(item.since, now) if item.since else "")
    facts = [
        ("key", escape(item.key)),
        ("state", state + (f" ({escape(item.reason)})" if item.reason else "")),
    ]
    if item.dirty:
        facts.append(("pending", "again, after this"))
    if item.due:
        facts.append(("revived" if item.state == "dead" else "due", _until(item.due, now)))
    if item.priority:
        facts.append(("priority", str(item.priority)))
    if item.worker:
        deadline = f", claim lapses {_until(item.claim_deadline, now)}" if item.claim_deadline else ""
        facts.append(("worker", escape(item.worker) + deadline))
    by_hand = item.reason == "parked"  # when and why are the operator's, not the last failure's
    if item.failures:
        last = (
            f", last {_age_since(item.last_error_at, now)} ago" if item.last_error_at and not by_hand else ""
        )
        facts.append(("failures", f"{item.failures}{last}"))
    if item.last_error:
        facts.append(("reason" if by_hand else "error", escape(item.last_error)))
    if item.traceback:
        lines = [escape(line) for line in textwrap.dedent(item.traceback).splitlines()]
        facts += [("", line) for line in lines]
    if item.state == "dead":
        facts.append(("remedy", remedy(item)))
    return facts


def remedy(item: "ItemInfo") -> str:
    """Return what makes a dead item go on; a change of its object does so, too."""
    if item.reason == UNMAPPED:
        return remedy_of_unmapped(item.queue)
    return f"distq requeue {item.queue} {shlex.quote(escape(item.key))}"


def remedy_of_unmapped(queue: str) -> str:
    """Return what makes objects of a queue go on that no function could map."""
    return f"fix the object, or the function and then: distq resync {queue}"


@command("distq workers foos --json")
@click.argument("queue", shell_complete=complete_queue, required=False)
@with_settings()
def workers(*, settings: Settings, as_json: bool, queue: str | None) -> None:
    """Show the processes that work on all queues, or on one."""
    inspector = inspector_of(settings)
    if queue:
        require_queue(inspector, queue)
    seen = inspector.view(queue)
    found = [worker for each in seen.queues for worker in each.workers]
    if as_json:
        for worker in found:
            print_json(worker)
        _exit_if_broken([each.info for each in seen.queues])
        return
    now = seen.now
    rows = [
        [
            worker.name,
            worker.queue,
            worker.host,
            str(worker.pid),
            worker.version,
            _age_since(worker.since, now),
            _age_since(worker.heartbeat, now),
            str(worker.processing),
            str(worker.done),
            str(worker.failed),
        ]
        for worker in found
    ]
    _print_or_note(_WORKERS, rows, "no workers", [each.info for each in seen.queues])


@command("distq leader foos")
@click.argument("queue", shell_complete=complete_queue, required=False)
@with_settings()
def leader(*, settings: Settings, as_json: bool, queue: str | None) -> None:
    """Show who watches which resources for all queues, or for one, and how far it is."""
    inspector = inspector_of(settings)
    if queue:
        require_queue(inspector, queue)
    seen = inspector.view(queue)
    found = [stream for each in seen.queues for stream in each.streams]
    if as_json:
        for stream in found:
            print_json(stream)
        _exit_if_broken([each.info for each in seen.queues])
        return
    now = seen.now
    rows = [
        [
            stream.queue,
            stream.resource,
            _leader(stream, now),
            _age_since(stream.leader_since, now),
            stream.epoch,
            stream.version or "-",
            _synced(stream),
            "-" if stream.lag is None else age(stream.lag),
            "-" if stream.cached is None else str(stream.cached),
            _last_error(stream, now),
        ]
        for stream in found
    ]
    _print_or_note(_STREAMS, rows, "no informer has led yet", [each.info for each in seen.queues])


def _synced(stream: "StreamInfo") -> str:
    """Return whether a stream is synced, or the version that it has to reach before workers go on."""
    if stream.behind is not None:
        return f"behind {stream.behind}"
    return "yes" if stream.synced else "no" if stream.gone_since is None else "-"


def _leader(stream: "StreamInfo", now: float) -> str:
    """Return who leads, or who did and since when nobody does."""
    name = stream.leader or "-"
    return name if stream.gone_since is None else f"gone {_age_since(stream.gone_since, now)} ({name})"


def _last_error(stream: "StreamInfo", now: float) -> str:
    """Return what a stream failed on last, and since when it does, or how long ago that was."""
    if stream.last_error is None:
        return "-"
    if stream.failing_since is not None:
        return f"for {_age_since(stream.failing_since, now)}: {stream.last_error}"
    return f"{_age_since(stream.last_error_at, now)} ago: {stream.last_error}"


def nobody_leads_since(streams: "Sequence[StreamInfo]") -> float | None:
    """Return since when nobody leads; None where somebody does, or may."""
    gone = [stream.gone_since for stream in streams if stream.gone_since is not None]
    return max(gone) if gone and len(gone) == len(streams) else None


def _print_or_note(
    headers: Sequence[str], rows: Sequence[Sequence[str]], none: str, seen: "Sequence[QueueInfo]"
) -> None:
    """Print a table, or note that there is nothing; exit 1 where a queue could not be read."""
    if rows:
        print_table(headers, rows)
    _exit_if_broken(seen)
    if not rows:
        note(none)


def _age_since(moment: float | None, now: float) -> str:
    return "-" if moment is None else age(now - moment)


def _until(moment: float | None, now: float) -> str:
    if moment is None:
        return "-"
    return f"in {age(moment - now)}" if moment > now else "now"
