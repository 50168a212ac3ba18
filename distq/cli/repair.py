"""Commands that change items: add, requeue, delete, park.

Items of a repair are some by their KEYs, or all in a state, in steps that show progress. Repairs of many
items ask first.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import click

from distq.cli.audit import audited
from distq.cli.completion import complete_key
from distq.cli.items import remedy, remedy_of_unmapped
from distq.cli.options import Seconds, command, with_parameters, with_settings
from distq.cli.output import escape, note, print_result
from distq.cli.progress import Progress, bar, confirm
from distq.cli.queue_access import STATES, inspector_of, require_queue, with_queue
from distq.config import Settings
from distq.errors import DistqError
from distq.redisio.records import UNMAPPED
from distq.wording import counted

if TYPE_CHECKING:
    from distq.inspector import Inspector, ItemInfo, Listing, Repair, RepairStep
    from distq.inspector.audit import Outcome

_with_choice = with_parameters(
    with_queue,
    click.argument("keys", nargs=-1, shell_complete=complete_key, metavar="[KEY...]"),
    click.option("--state", type=STATES, help="All items in this state."),
    click.option("--match", help="Of these, the keys that match this glob."),
    click.option("--yes", is_flag=True, help="Do not ask."),
)


@command("distq add foos default/web --after 60")
@with_queue
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
    print_result({"added": added}, f"added {added}", as_json)


@command("distq requeue foos --state dead --match 'prod/*'")
@_with_choice
@with_settings()
def requeue(*, settings: Settings, as_json: bool, **choice: Any) -> None:
    """Make delayed and dead items pending now, and forget their failures."""
    chosen = ChosenItems.of(settings, **choice)
    for item in chosen.items():
        if item.reason == UNMAPPED:
            raise click.ClickException(
                f"cannot requeue {escape(item.key)}: it is no key. Instead {remedy(item)}"
            )
    changed = chosen.repair("requeue", effect=", forgetting their failures")
    print_result({"requeued": changed}, f"requeued {changed}", as_json)


@command("distq delete foos prod/web")
@_with_choice
@with_settings()
def delete(*, settings: Settings, as_json: bool, **choice: Any) -> None:
    """Drop ready, delayed and dead items; of a processing one only the pending add."""
    chosen = ChosenItems.of(settings, **choice)
    if chosen.state == "processing":
        raise click.ClickException("cannot delete processing items: their workers hold them.")
    for item in chosen.items():
        if item.state == "processing" and not item.dirty and item.due is None:
            holder = item.worker or "a worker"
            raise click.ClickException(
                f"cannot delete {item.key}: {holder} is processing it and nothing is pending."
            )
    if chosen.keys:
        chosen.confirm("delete", len(chosen.keys))
    changed = chosen.repair("delete")
    print_result({"deleted": changed}, f"deleted {changed}", as_json)


@command('distq park foos prod/web --reason "waits for INC-7"')
@_with_choice
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
            raise click.ClickException(
                f"cannot park {item.key}: {item.worker or 'a worker'} is processing it."
            )
    changed = chosen.repair("park", reason=reason)
    for item in before:
        if item.state == "dead" and chosen.inspector.item(chosen.queue, item.key) == item:
            note(f"{escape(item.key)} is dead already ({item.reason}), and nothing but a change revives it.")
    print_result({"parked": changed}, f"parked {changed}", as_json)


@dataclass(frozen=True, kw_only=True)
class ChosenItems:
    """Items of a queue that exists: those of ``keys``, or all in ``state`` that match."""

    inspector: "Inspector"
    queue: str
    keys: tuple[str, ...]
    state: "Listing | None"
    match: str | None
    yes: bool

    @classmethod
    def of(cls, settings: Settings, **choice: Any) -> Self:
        """Return what the arguments choose; exit 2 where they choose nothing, 1 without such a queue."""
        chosen = cls(inspector=inspector_of(settings), **choice)
        if bool(chosen.keys) == bool(chosen.state) or (chosen.match and not chosen.state):
            raise click.UsageError("Give either KEYs, or --state and perhaps --match.")
        require_queue(chosen.inspector, chosen.queue)
        return chosen

    def items(self) -> "list[ItemInfo]":
        """Return the items of the keys; exit 1 where one of them is in no state."""
        found = {key: self.inspector.item(self.queue, key) for key in self.keys}
        missing = [key for key, item in found.items() if item is None]
        if missing:
            raise click.ClickException(
                f'no item "{missing[0]}" in {self.queue}: neither pending, held nor dead.'
            )
        return [item for item in found.values() if item is not None]

    def confirm(self, repair: "Repair", count: int, effect: str = "") -> None:
        """Ask whether to repair so many items; exit 1 for a no."""
        if self.keys:
            which = escape(self.keys[0]) if count == 1 else f"{count} items"
        else:
            which = counted(count, f"{self.state} item")
        matching = f" that match {escape(self.match)}" if self.match else ""
        confirm(f"{repair.capitalize()} {which} of {self.queue}{matching}{effect}?", self.yes)

    def repair(self, repair: "Repair", *, effect: str = "", reason: str = "parked by hand") -> int:
        """Repair the items of the keys; or ask, and repair all in the state. Return how many changed."""
        if not self.keys:
            return self._repair_all(repair, effect, reason)
        with self._audited(repair) as did:
            if repair == "park":
                changed = self.inspector.park(self.queue, *self.keys, reason=reason)
            else:
                change = self.inspector.requeue if repair == "requeue" else self.inspector.delete
                changed = change(self.queue, *self.keys)
            which = f": {', '.join(self.keys[:10])}" if len(self.keys) > 1 else ""
            did(f"{changed} of {len(self.keys)} changed{which}")
        return changed

    def _audited(self, repair: "Repair") -> AbstractContextManager["Outcome"]:
        if self.keys:
            which = self.keys[0] if len(self.keys) == 1 else counted(len(self.keys), "item")
        else:
            which = f"{self.state} items"
        matching = f" that match {self.match}" if self.match else ""
        text = f"{repair} {which} of {self.queue}{matching}"
        return audited(self.inspector.connection, repair, self.queue, text)

    def _repair_all(self, repair: "Repair", effect: str, reason: str) -> int:
        """Repair all items in the state that match, and show progress."""
        state, match = self.state, self.match or "*"
        if state is None or not (count := self.inspector.count(self.queue, state=state, match=match)):
            return 0
        self.confirm(repair, count, effect)
        step = partial(
            self.inspector.repair_some, repair, self.queue, state=state, match=match, reason=reason
        )
        with self._audited(repair) as did:
            done = _in_steps(repair, step, count, did)
        if repair == "requeue" and state == "dead" and done.changed < done.chosen:
            left = counted(done.chosen - done.changed, "item")
            were = "was" if left == "1 item" else "were"
            why = f"changed meanwhile, or not mapped: {remedy_of_unmapped(self.queue)}"
            note(f"{left} {were} left: {why}")
        return done.changed


def _in_steps(
    repair: "Repair", step: "Callable[..., RepairStep]", count: int, did: "Outcome"
) -> "RepairStep":
    """Repair some ``count`` items step by step; return what all steps have done."""
    from distq.inspector.info import RepairStep

    done = RepairStep(0, 0, 0)
    try:
        with Progress() as progress:
            for done in repaired_so_far(step):
                if done.cursor is not None:
                    progress.show(f"{repair}: {bar(done.chosen, max(count, done.chosen))}")
    except (DistqError, KeyboardInterrupt) as error:
        how, why = ("failed", f": {error}") if isinstance(error, DistqError) else ("stopped", "")
        did(f"{done.changed} of {done.chosen} changed, then {how}{why}")
        note(f"{repair} {how} after {counted(done.changed, 'item')}; what is done stays done")
        raise
    did(f"{done.changed} of {done.chosen} changed")
    return done


def repaired_so_far(step: "Callable[..., RepairStep]") -> "Iterator[RepairStep]":
    """Take one step after another; yield after each what all so far have done."""
    from distq.inspector.info import RepairStep

    done = RepairStep(0, 0, 0)
    while done.cursor is not None:
        last = step(cursor=done.cursor)
        done = RepairStep(done.chosen + last.chosen, done.changed + last.changed, last.cursor)
        yield done
