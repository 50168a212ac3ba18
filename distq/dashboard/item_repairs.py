"""Repairs of items by forms: of some by their keys, or of all in a state that match.

A repair of all that match goes on from request to request while its page is open, so that people can watch
and stop it; the form of the next step carries how far it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, Self, cast

from flask import render_template, request
from flask.typing import ResponseReturnValue

from distq.clock import SYSTEM_CLOCK, Clock
from distq.dashboard.logins import show_message
from distq.dashboard.security import way_back
from distq.dashboard.wording import shortened
from distq.errors import ConfigError, DistqError
from distq.inspector import Inspector, Listing, Repair
from distq.inspector.audit import Audit
from distq.inspector.choices import BY_HAND
from distq.inspector.view import glob_of
from distq.redisio.records import UNMAPPED
from distq.wording import counted

STEP_SECONDS = 2.0
"""Seconds for which one request goes on with a repair of all that match."""

REPAIRABLE: Mapping[Listing | Literal["failing"], tuple[Repair, ...]] = {
    "ready": ("park", "delete"),
    "delayed": ("requeue", "park", "delete"),
    "processing": (),
    "dirty": ("delete",),
    "dead": ("requeue", "delete"),
    "failing": ("requeue", "park", "delete"),
}
"""The repairs of the items of each state; failing ones are in any, so that only chosen ones are repaired."""

_GOING_ON = ", going on"
_DONE = {"requeue": "Requeued", "delete": "Deleted", "park": "Parked"}


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The items that a form is about: some by their keys, or all of a state that match; and how far it is.

    ``state`` is None for items of the list of failing ones, which are in any state.
    """

    queue: str
    keys: tuple[str, ...]
    state: Listing | None
    match: str
    reason: str
    total: int = 0
    cursor: int = 0
    seen: int = 0
    changed: int = 0

    @classmethod
    def from_form(cls, queue: str) -> Self:
        """Read the form of this request. Raises ConfigError where it chooses nothing."""
        form = request.form
        keys = tuple(dict.fromkeys(form.getlist("key")))
        state = form.get("state", "")
        if state not in REPAIRABLE:
            raise ConfigError(f'no state "{state:.20}". Use {", ".join(REPAIRABLE)}.')
        if "all" in form and state == "failing":
            raise ConfigError("failing items are in several states: tick some, or repair those of one state.")
        if "all" in form:
            keys = ()
        elif not keys:
            raise ConfigError("no items chosen: tick some, or take all that match.")
        return cls(
            queue=queue,
            keys=keys,
            state=None if state == "failing" else cast("Listing", state),
            match=glob_of(form.get("match") or "*"),
            reason=form.get("reason", "").strip() or BY_HAND,
            total=_number("total"),
            cursor=_number("cursor"),
            seen=_number("seen"),
            changed=_number("changed"),
        )

    def __str__(self) -> str:
        """Return them in words: prod/web of foos, 3 items of foos, dead items of foos."""
        if len(self.keys) == 1:
            return f"{shortened(self.keys[0])} of {self.queue}"
        if self.keys:
            return f"{counted(len(self.keys), 'item')} of {self.queue}"
        matching = "" if self.match == "*" else f" that match {shortened(self.match)}"
        return f"{self.state} items of {self.queue}{matching}"


class ItemRepairs:
    """Carries out the repairs that forms ask for."""

    def __init__(self, inspector: Inspector, audit: Audit, clock: Clock = SYSTEM_CLOCK) -> None:
        self._inspector = inspector
        self._audit = audit
        self._clock = clock

    def run(self, repair: Repair, queue: str) -> ResponseReturnValue | None:
        """Repair the items of this request's form, or return a page that asks first or goes on."""
        chosen = Chosen.from_form(queue)
        if (repair == "delete" or not chosen.keys) and "confirmed" not in request.form:
            return self._ask(repair, chosen)
        with self._audit.action(repair, queue, f"{repair} {chosen}") as did:
            if chosen.keys:
                changed = self._repair_keys(repair, chosen)
                done = replace(chosen, seen=len(chosen.keys), changed=changed)
                how = f": {', '.join(map(shortened, done.keys[:10]))}" if len(done.keys) > 1 else ""
            else:
                done, how = self._repair_some(repair, chosen)
            did(f"{done.changed} of {done.seen} changed{how}", chosen=done.seen, changed=done.changed)
        if how == _GOING_ON:
            return self._ask(repair, done)
        show_message(self._unmapped(done) or _outcome(repair, done), refused=not done.changed)
        return None

    def _unmapped(self, done: Chosen) -> str:
        """Return why the one item that was chosen stays, where its object cannot be mapped; else no text."""
        if done.changed or len(done.keys) != 1:
            return ""
        item = self._inspector.item(done.queue, done.keys[0])
        if item is None or item.reason != UNMAPPED:
            return ""
        key, remedy = shortened(item.key), _remedy("the object", done.queue)
        return f"Nothing was changed: {key} could not be mapped: {remedy}."

    def _repair_keys(self, repair: Repair, chosen: Chosen) -> int:
        if repair == "park":
            return self._inspector.park(chosen.queue, *chosen.keys, reason=chosen.reason)
        change = self._inspector.requeue if repair == "requeue" else self._inspector.delete
        return change(chosen.queue, *chosen.keys, state=chosen.state)

    def _repair_some(self, repair: Repair, chosen: Chosen) -> tuple[Chosen, str]:
        """Repair for STEP_SECONDS; return how far it is, and why it is not done, in words."""
        until = self._clock.monotonic() + STEP_SECONDS
        some = partial(
            self._inspector.repair_some,
            *(repair, chosen.queue),
            state=cast("Listing", chosen.state),
            match=chosen.match,
            reason=chosen.reason,
        )
        while True:
            try:
                step = some(cursor=chosen.cursor)
            except DistqError as error:
                if not chosen.seen:
                    raise
                show_message(f"It stopped: {error}", refused=True)
                return chosen, f", then failed: {error}"
            chosen = replace(
                chosen,
                cursor=step.cursor or 0,
                seen=chosen.seen + step.chosen,
                changed=chosen.changed + step.changed,
            )
            if step.cursor is None or self._clock.monotonic() >= until:
                return chosen, "" if step.cursor is None else _GOING_ON

    def _ask(self, repair: Repair, chosen: Chosen) -> str:
        """Show how many items it concerns, or how far it is, with the form that goes on."""
        if chosen.keys:
            chosen = replace(chosen, total=len(chosen.keys))
        elif not chosen.cursor:
            state = cast("Listing", chosen.state)
            total = self._inspector.count(chosen.queue, state=state, match=chosen.match)
            chosen = replace(chosen, total=total)
        return render_template(
            "distq/confirm.html", action=repair, chosen=chosen, next=way_back(chosen.queue)
        )


def _outcome(repair: Repair, done: Chosen) -> str:
    if len(done.keys) == 1:
        key = shortened(done.keys[0])
        return (
            f"{_DONE[repair]} {key}."
            if done.changed
            else f"Nothing was changed: {key} left its state meanwhile."
        )
    items = "item" if done.changed == 1 else "items"
    text = f"{_DONE[repair]} {done.changed:,} {items}"
    others = done.seen - done.changed
    if others <= 0:
        return f"{text}."
    # not looked up which of them a requeue left dead: there may be any number
    unmapped = repair == "requeue" and done.state in {"dead", None}
    why = f", or could not be mapped: {_remedy('these objects', done.queue)}" if unmapped else ""
    return f"{text}; {others:,} more had changed meanwhile{why}."


def _remedy(objects: str, queue: str) -> str:
    return f"fix {objects}, or the function and then resync {queue}"


def _number(field: str) -> int:
    text = request.form.get(field, "0")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else 0
