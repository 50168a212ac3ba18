"""The items of a repair: some by their KEYs, or all in a state, in steps that show progress."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import click

from distq.cli.audited import audited
from distq.cli.completion import complete_key, complete_queue
from distq.cli.help import with_parameters
from distq.cli.items import remedy_of_unmapped
from distq.cli.output import escape, note
from distq.cli.progress import Progress, bar, confirm
from distq.cli.queue_access import STATES, inspector_of, require_queue
from distq.config import Settings
from distq.errors import DistqError
from distq.wording import counted

if TYPE_CHECKING:
    from distq.inspector import Inspector, ItemInfo, Listing, Repair, RepairStep
    from distq.inspector.audit import Outcome


with_choice = with_parameters(
    click.argument("queue", shell_complete=complete_queue),
    click.argument("keys", nargs=-1, shell_complete=complete_key, metavar="[KEY...]"),
    click.option("--state", type=STATES, help="All items in this state."),
    click.option("--match", help="Of these, the keys that match this glob."),
    click.option("--yes", is_flag=True, help="Do not ask."),
)


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
            looked_at, changed = _in_steps(repair, step, count, did)
            did(f"{changed} of {looked_at} changed")
        if repair == "requeue" and state == "dead" and changed < looked_at:
            self._note_left(looked_at - changed)
        return changed

    def _note_left(self, count: int) -> None:
        were = "was" if count == 1 else "were"
        why = f"changed meanwhile, or not mapped: {remedy_of_unmapped(self.queue)}"
        note(f"{counted(count, 'item')} {were} left: {why}")


def holder(item: "ItemInfo") -> str:
    """Return the name of the worker that holds an item, as far as it is known."""
    return item.worker or "a worker"


def _in_steps(
    repair: "Repair", step: "Callable[..., RepairStep]", count: int, did: "Outcome"
) -> tuple[int, int]:
    """Repair some ``count`` items step by step; return how many were looked at, and how many changed."""
    looked_at, changed, cursor = 0, 0, 0
    try:
        with Progress() as progress:
            while True:
                some = step(cursor=cursor)
                looked_at, changed = looked_at + some.chosen, changed + some.changed
                if some.cursor is None:
                    return looked_at, changed
                cursor = some.cursor
                progress.show(f"{repair}: {bar(looked_at, max(count, looked_at))}")
    except (DistqError, KeyboardInterrupt) as error:
        how, why = ("failed", f": {error}") if isinstance(error, DistqError) else ("stopped", "")
        did(f"{changed} of {looked_at} changed, then {how}{why}")
        note(f"{repair} {how} after {counted(changed, 'item')}; what is done stays done")
        raise
