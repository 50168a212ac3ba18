"""Commands that change items: add, requeue, delete, park.

Items of a repair are some by their KEYs, or all in a state, in steps that show progress. Repairs of many
items ask first.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import click

from distq.cli.audit import operator_of
from distq.cli.completion import complete_key
from distq.cli.items import existing_item, remedy, remedy_of_unmapped
from distq.cli.options import Seconds, command, with_parameters, with_settings
from distq.cli.output import Progress, bar, confirm, escape, note, print_result
from distq.cli.queue_access import STATES, inspector_of, with_queue
from distq.config import Settings
from distq.errors import DistqError
from distq.redisio.records import UNMAPPED
from distq.wording import counted

if TYPE_CHECKING:
    from distq.inspector import ItemInfo, Listing, Repair, RepairStep
    from distq.inspector.operator import Chosen, Operator

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
    from distq.workqueue.memory.queue import MemoryQueue
    from distq.workqueue.rate_limiters import TEN_YEARS

    # a queue in memory refuses what Redis is not asked for: that leaves nothing, not even an audit
    MemoryQueue(queue).add(*keys, priority=priority, after=after)
    added = operator_of(inspector_of(settings)).add(queue, *keys, priority=priority, after=after)
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
    if choice["state"] == "processing":
        raise click.ClickException("cannot delete processing items: their workers hold them.")
    for item in chosen.items():
        if item.state == "processing" and not item.dirty and item.due is None:
            holder = item.worker or "a worker"
            raise click.ClickException(
                f"cannot delete {item.key}: {holder} is processing it and nothing is pending."
            )
    if choice["keys"]:
        chosen.confirm("delete", len(choice["keys"]))
    changed = chosen.repair("delete")
    print_result({"deleted": changed}, f"deleted {changed}", as_json)


@command('distq park foos prod/web --reason "waits for INC-7"')
@_with_choice
@click.option("--reason", default="parked by hand", show_default=True, help="Shown with the item.")
@with_settings()
def park(*, settings: Settings, as_json: bool, **choice: Any) -> None:
    """Make ready and delayed items dead until an event or a requeue revives them; they never expire."""
    chosen = ChosenItems.of(settings, **choice)
    if choice["state"] in {"processing", "dirty"}:
        raise click.ClickException(f"cannot park {choice['state']} items: their workers hold them.")
    before = chosen.items()
    for item in before:
        if item.state == "processing":
            raise click.ClickException(
                f"cannot park {item.key}: {item.worker or 'a worker'} is processing it."
            )
    changed = chosen.repair("park")
    for item in before:
        if item.state == "dead" and chosen.operator.inspector.item(item.queue, item.key) == item:
            note(f"{escape(item.key)} is dead already ({item.reason}), and nothing but a change revives it.")
    print_result({"parked": changed}, f"parked {changed}", as_json)


@dataclass(frozen=True)
class ChosenItems:
    """Items of a queue that exists, and what repairs them; ``yes`` is not to ask first."""

    operator: "Operator"
    chosen: "Chosen"
    yes: bool

    @classmethod
    def of(
        cls,
        settings: Settings,
        *,
        queue: str,
        keys: tuple[str, ...],
        state: "Listing | None",
        match: str | None,
        yes: bool,
        reason: str = "parked by hand",
    ) -> Self:
        """Return what the arguments choose; exit 2 where they choose nothing, 1 without such a queue."""
        from distq.inspector.operator import Chosen

        if bool(keys) == bool(state) or (match and not state):
            raise click.UsageError("Give either KEYs, or --state and perhaps --match.")
        chosen = Chosen(queue=queue, keys=keys, state=state, match=match or "*", reason=reason)
        return cls(operator_of(inspector_of(settings, queue)), chosen, yes)

    def items(self) -> "list[ItemInfo]":
        """Return the items of the keys; exit 1 where one of them is in no state."""
        queue, inspector = self.chosen.queue, self.operator.inspector
        return [existing_item(inspector, queue, key) for key in dict.fromkeys(self.chosen.keys)]

    def confirm(self, repair: "Repair", count: int, effect: str = "") -> None:
        """Ask whether to repair so many items; exit 1 for a no."""
        chosen = self.chosen
        if chosen.keys:
            which = chosen.keys[0] if count == 1 else f"{count} items"
        else:
            which = counted(count, f"{chosen.state} item")
        matching = "" if chosen.match == "*" else f" that match {chosen.match}"
        confirm(escape(f"{repair.capitalize()} {which} of {chosen.queue}{matching}{effect}?"), self.yes)

    def repair(self, repair: "Repair", *, effect: str = "") -> int:
        """Repair the items of the keys; or ask, and repair all in the state. Return how many changed."""
        chosen = self.chosen
        if chosen.state is None:
            return self.operator.repair(repair, chosen)
        count = self.operator.inspector.count(chosen.queue, state=chosen.state, match=chosen.match)
        if not count:
            return 0
        self.confirm(repair, count, effect)
        done = self._in_steps(repair, count)
        if repair == "requeue" and chosen.state == "dead" and done.changed < done.chosen:
            left = counted(done.chosen - done.changed, "item")
            were = "was" if left == "1 item" else "were"
            why = f"changed meanwhile, or not mapped: {remedy_of_unmapped(chosen.queue)}"
            note(f"{left} {were} left: {why}")
        return done.changed

    def _in_steps(self, repair: "Repair", count: int) -> "RepairStep":
        """Repair some ``count`` items, and show progress; return what all steps have done."""
        from distq.inspector.info import RepairStep

        done = RepairStep(0, 0, 0)
        try:
            # closed at Ctrl-C, too: then the audit has how far it came
            with closing(self.operator.repair_all(repair, self.chosen)) as steps, Progress() as progress:
                for done in steps:
                    if done.cursor is not None:
                        progress.show(f"{repair}: {bar(done.chosen, count)}")
        except (DistqError, KeyboardInterrupt) as error:
            how = "failed" if isinstance(error, DistqError) else "stopped"
            note(f"{repair} {how} after {counted(done.changed, 'item')}; what is done stays done")
            raise
        return done
