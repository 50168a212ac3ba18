"""Commands that change queues: add, requeue, delete, park, resync. What is grave is asked for first."""

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from distq.cli.completion import complete_key, complete_queue
from distq.cli.help import command
from distq.cli.look import (
    STATES,
    inspector_of,
    nobody_leads_since,
    remedy,
    remedy_of_unmapped,
    require_queue,
)
from distq.cli.options import with_settings
from distq.cli.output import escape, note, print_json
from distq.cli.progress import POLL_INTERVAL, Progress, bar
from distq.config import Settings
from distq.errors import ConfigError
from distq.redisio.records import UNMAPPED
from distq.wording import age, counted, rfc3339

if TYPE_CHECKING:
    from distq.inspector import Inspector, ItemInfo, Listing, Repair


def _choosing_items(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take KEYs or a state, and an option not to ask."""
    choices = [
        click.argument("queue", shell_complete=complete_queue),
        click.argument("keys", nargs=-1, shell_complete=complete_key, metavar="[KEY...]"),
        click.option("--state", type=STATES, help="All items in this state."),
        click.option("--match", help="Of these, the keys that match this glob."),
        click.option("--yes", is_flag=True, help="Do not ask."),
    ]
    for choice in reversed(choices):
        command = choice(command)
    return command


@command("distq add foos default/web --after 60")
@click.argument("queue", shell_complete=complete_queue)
@click.argument("keys", nargs=-1, shell_complete=complete_key, required=True, metavar="KEY...")
@click.option("--priority", type=click.IntRange(-900, 900), default=0, show_default=True)
@click.option("--after", type=click.FloatRange(min=0), help="Seconds to wait before.")
@with_settings()
def add(
    *, settings: Settings, as_json: bool, queue: str, keys: Sequence[str], priority: int, after: float | None
) -> None:
    """Make the items with these KEYs pending."""
    from distq.redisio.connection import Connection
    from distq.workqueue.queue import Queue
    from distq.workqueue.rate_limiters import TEN_YEARS

    target = Queue(queue, Connection(settings=settings))
    added = target.add(*keys, priority=priority, after=after)
    if after is not None and after > TEN_YEARS:
        click.echo(f"distq: --after {after:g} counts as ten years", err=True)
    _report("added", added, as_json)


@command("distq requeue foos --state dead --match 'prod/*'")
@_choosing_items
@with_settings()
def requeue(
    *,
    settings: Settings,
    as_json: bool,
    queue: str,
    keys: Sequence[str],
    state: "Listing | None",
    match: str | None,
    yes: bool,
) -> None:
    """Make delayed and dead items pending now, forgetting their failures."""
    inspector = inspector_of(settings)
    _check_choice(keys, state, match)
    require_queue(inspector, queue)
    if keys:
        _require_items(inspector, queue, keys)
        _refuse_unmapped(inspector, queue, keys)
    elif state and (count := inspector.count(queue, state=state, match=match or "*")):
        _confirm(f"Requeue {_these(count, state, queue, match)}, forgetting their failures?", yes)
        _report(
            "requeued", _in_steps(inspector, queue, "requeue", state=state, match=match, count=count), as_json
        )
        return
    _report("requeued", inspector.requeue(queue, *keys, state=state, match=match), as_json)


@command("distq delete foos prod/web")
@_choosing_items
@with_settings()
def delete(
    *,
    settings: Settings,
    as_json: bool,
    queue: str,
    keys: Sequence[str],
    state: "Listing | None",
    match: str | None,
    yes: bool,
) -> None:
    """Drop ready, delayed and dead items; of a processing one only what is pending."""
    inspector = inspector_of(settings)
    _check_choice(keys, state, match)
    require_queue(inspector, queue)
    if state == "processing":
        raise click.ClickException("cannot delete processing items: their workers hold them.")
    if keys:
        _require_items(inspector, queue, keys)
        _refuse_held(inspector, queue, keys)
        _confirm(f"Delete {_named(keys, queue)}?", yes)
    elif state and (count := inspector.count(queue, state=state, match=match or "*")):
        _confirm(f"Delete {_these(count, state, queue, match)}?", yes)
        _report(
            "deleted", _in_steps(inspector, queue, "delete", state=state, match=match, count=count), as_json
        )
        return
    _report("deleted", inspector.delete(queue, *keys, state=state, match=match), as_json)


@command('distq park foos prod/web --reason "waits for INC-7"')
@_choosing_items
@click.option("--reason", default="parked by hand", show_default=True, help="Why, for who looks at it later.")
@with_settings()
def park(
    *,
    settings: Settings,
    as_json: bool,
    queue: str,
    keys: Sequence[str],
    state: "Listing | None",
    match: str | None,
    yes: bool,
    reason: str,
) -> None:
    """Move ready and delayed items to the dead, until an event or a requeue revives them; no time does."""
    inspector = inspector_of(settings)
    _check_choice(keys, state, match)
    require_queue(inspector, queue)
    if state in {"processing", "dirty"}:
        raise click.ClickException(f"cannot park {state} items: their workers hold them.")
    if keys:
        _require_items(inspector, queue, keys)
    elif state and (count := inspector.count(queue, state=state, match=match or "*")):
        _confirm(f"Park {_these(count, state, queue, match)}?", yes)
        _report(
            "parked",
            _in_steps(inspector, queue, "park", state=state, match=match, count=count, reason=reason),
            as_json,
        )
        return
    before = [item for key in keys if (item := inspector.item(queue, key))]
    for item in before:
        if item.state == "processing":
            raise click.ClickException(f"cannot park {item.key}: {_holder(item)} is processing it.")
    changed = inspector.park(queue, *keys, state=state, match=match, reason=reason)
    for item in before:
        if item.state == "dead" and inspector.item(queue, item.key) == item:
            note(f"{escape(item.key)} is dead already ({item.reason}), and nothing but a change revives it.")
    _report("parked", changed, as_json)


@command("distq resync foos --wait")
@click.argument("queue", shell_complete=complete_queue)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--wait", is_flag=True, help="Return when everything is listed and enqueued.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=600.0,
    show_default=True,
    help="Seconds to wait at most.",
)
@with_settings()
def resync(*, settings: Settings, as_json: bool, queue: str, yes: bool, wait: bool, timeout: float) -> None:
    """Make the leader list all that feeds a queue and enqueue it, at low priority."""
    inspector = inspector_of(settings)
    require_queue(inspector, queue)
    fed_by = [stream.resource for stream in inspector.streams(queue)]
    if not fed_by:
        raise click.ClickException(f"nothing to list: no informer feeds {queue}.")
    _confirm(f"List {', '.join(fed_by)} and enqueue every object in {queue}?", yes)
    resynced = inspector.resync(queue)
    gone_since = nobody_leads_since(inspector.streams(queue))
    if gone_since is not None and not as_json:
        since = age(inspector.now() - gone_since)
        note(f"nobody leads since {since}: it begins when an informer of {queue} does")
    listing = _wait_until_listed(inspector, queue, resynced, timeout) if wait else []
    if as_json:
        outcome = {"listed": resynced - len(listing)} if wait else {}
        gone = None if gone_since is None else rfc3339(gone_since)
        print_json({"resynced": resynced, "gone_since": gone, **outcome})
    else:
        click.echo(f"resynced {resynced}")
    if listing:
        raise click.ClickException(f"not listed within {timeout:g} s: {', '.join(listing)}. It goes on.")


def _wait_until_listed(inspector: "Inspector", queue: str, resynced: int, timeout: float) -> list[str]:
    """Return when all is listed, or what is not when time is up."""
    progress, until = Progress(), time.monotonic() + timeout
    try:
        while True:
            streams = inspector.streams(queue)
            listing = [stream.resource for stream in streams if stream.version is None]
            led = "" if nobody_leads_since(streams) is None else "; nobody leads"
            progress.show(f"{resynced - len(listing)} of {resynced} listed{led}")
            if not listing or time.monotonic() >= until:
                return listing
            time.sleep(POLL_INTERVAL)
    except KeyboardInterrupt:
        note("not waiting any more; the resync goes on")
        raise
    finally:
        progress.end()


def _in_steps(
    inspector: "Inspector",
    queue: str,
    repair: "Repair",
    *,
    state: "Listing",
    match: str | None,
    count: int,
    reason: str = "parked by hand",
) -> int:
    """Repair all items in a state that match, and show how far that is; return how many changed."""
    progress, chosen, changed, cursor = Progress(), 0, 0, 0
    try:
        while True:
            step = inspector.repair_some(
                repair, queue, state=state, match=match or "*", cursor=cursor, reason=reason
            )
            chosen, changed = chosen + step.chosen, changed + step.changed
            if step.cursor is None:
                if repair == "requeue" and state == "dead" and changed < chosen:
                    _note_left(queue, chosen - changed)
                return changed
            cursor = step.cursor
            progress.show(f"{repair}: {bar(chosen, max(count, chosen))}")
    except KeyboardInterrupt:
        note(f"{repair} stopped after {counted(changed, 'item')}; what is done stays done")
        raise
    finally:
        progress.end()


def _check_choice(keys: Sequence[str], state: "Listing | None", match: str | None) -> None:
    if bool(keys) == bool(state) or (match and not state):
        raise click.UsageError("Give either KEYs, or --state and perhaps --match.")


def _these(count: int, state: str, queue: str, match: str | None) -> str:
    matching = f" that match {escape(match)}" if match else ""
    return f"{counted(count, f'{state} item')} of {queue}{matching}"


def _note_left(queue: str, count: int) -> None:
    left = (
        f"{counted(count, 'item')} {'was' if count == 1 else 'were'} left: changed meanwhile, or not mapped"
    )
    note(f"{left}: {remedy_of_unmapped(queue)}")


def _named(keys: Sequence[str], queue: str) -> str:
    return f"{escape(keys[0]) if len(keys) == 1 else f'{len(keys)} items'} of {queue}"


def _require_items(inspector: "Inspector", queue: str, keys: Sequence[str]) -> None:
    missing = [key for key in keys if inspector.item(queue, key) is None]
    if missing:
        raise click.ClickException(f'no item "{missing[0]}" in {queue}: neither pending, held nor dead.')


def _refuse_unmapped(inspector: "Inspector", queue: str, keys: Sequence[str]) -> None:
    for key in keys:
        item = inspector.item(queue, key)
        if item and item.reason == UNMAPPED:
            raise click.ClickException(f"cannot requeue {escape(key)}: it is no key. Instead {remedy(item)}")


def _refuse_held(inspector: "Inspector", queue: str, keys: Sequence[str]) -> None:
    for key in keys:
        item = inspector.item(queue, key)
        if item and item.state == "processing" and not item.dirty and item.due is None:
            raise click.ClickException(
                f"cannot delete {key}: {_holder(item)} is processing it and nothing is pending."
            )


def _holder(item: "ItemInfo") -> str:
    return item.worker or "a worker"


def _confirm(question: str, yes: bool) -> None:
    """Ask, on stderr; exit 1 for a no, and refuse where nobody can answer."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError(f"not asked: {question.removesuffix('?')}: no terminal to answer on. Add --yes.")
    if not click.confirm(question, err=True):
        raise click.ClickException("nothing changed.")


def _report(verb: str, count: int, as_json: bool) -> None:
    if as_json:
        print_json({verb: count})
    else:
        click.echo(f"{verb} {count}")
