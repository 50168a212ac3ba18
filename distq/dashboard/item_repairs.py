"""Repairs of items by forms: of some by their keys, or of all in a state that match.

A repair of all that match goes on from request to request while its page is open, so that people can watch
and stop it; the form of the next step carries how far it is.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, cast

from flask import render_template, request
from flask.typing import ResponseReturnValue

from distq.dashboard.logins import show_message
from distq.dashboard.security import way_back
from distq.dashboard.wording import shortened
from distq.errors import ConfigError, DistqError
from distq.inspector import Inspector, Listing, Repair, RepairStep
from distq.inspector.choices import BY_HAND
from distq.inspector.operator import Chosen, Operator
from distq.inspector.view import glob_of
from distq.redisio.records import UNMAPPED

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

_DONE = {"requeue": "Requeued", "delete": "Deleted", "park": "Parked"}


def chosen_by_form(queue: str) -> Chosen:
    """Return the items that the form of this request is about. Raises ConfigError where it chooses none.

    Their state is None for items of the list of failing ones, which are in any state.
    """
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
    return Chosen(
        queue=queue,
        keys=keys,
        state=None if state == "failing" else cast("Listing", state),
        match=glob_of(form.get("match") or "*"),
        reason=form.get("reason", "").strip() or BY_HAND,
    )


def repair_by_form(operator: Operator, repair: Repair, queue: str) -> ResponseReturnValue | None:
    """Repair the items of this request's form, or return a page that asks first or goes on."""
    chosen = chosen_by_form(queue)
    done = RepairStep(_number("seen"), _number("changed"), _number("cursor"))
    if (repair == "delete" or not chosen.keys) and "confirmed" not in request.form:
        return _ask(operator.inspector, repair, chosen, done)
    if chosen.keys:
        done = RepairStep(len(chosen.keys), operator.repair(repair, chosen), None)
    else:
        done = _repair_all(operator, repair, chosen, done)
        if done.cursor is not None:
            return _ask(operator.inspector, repair, chosen, done)
    text = _unmapped(operator.inspector, chosen, done) or _outcome(repair, chosen, done)
    show_message(text, refused=not done.changed)
    return None


def _unmapped(inspector: Inspector, chosen: Chosen, done: RepairStep) -> str:
    """Return why the one item that was chosen stays, where its object cannot be mapped; else no text."""
    if done.changed or len(chosen.keys) != 1:
        return ""
    item = inspector.item(chosen.queue, chosen.keys[0])
    if item is None or item.reason != UNMAPPED:
        return ""
    key, remedy = shortened(item.key), _remedy("the object", chosen.queue)
    return f"Nothing was changed: {key} could not be mapped: {remedy}."


def _repair_all(operator: Operator, repair: Repair, chosen: Chosen, before: RepairStep) -> RepairStep:
    """Repair for STEP_SECONDS, after what was done; return what is done then. An error ends it."""
    until, done = time.monotonic() + STEP_SECONDS, before
    steps = operator.repair_all(repair, chosen, before, pauses=lambda: time.monotonic() >= until)
    try:
        for step in steps:
            done = step
    except DistqError as error:
        if not done.chosen:
            raise
        show_message(f"It stopped: {error}", refused=True)
        return replace(done, cursor=None)
    return done


def _ask(inspector: Inspector, repair: Repair, chosen: Chosen, done: RepairStep) -> str:
    """Show how many items it concerns, or how far it is, with the form that goes on."""
    if chosen.keys:
        total = len(chosen.keys)
    elif done.cursor:
        total = _number("total")
    else:
        state = cast("Listing", chosen.state)
        total = inspector.count(chosen.queue, state=state, match=chosen.match)
    return render_template(
        "distq/confirm.html",
        action=repair,
        chosen=chosen,
        done=done,
        total=total,
        next=way_back(chosen.queue),
    )


def _outcome(repair: Repair, chosen: Chosen, done: RepairStep) -> str:
    if len(chosen.keys) == 1:
        key = shortened(chosen.keys[0])
        return (
            f"{_DONE[repair]} {key}."
            if done.changed
            else f"Nothing was changed: {key} left its state meanwhile."
        )
    items = "item" if done.changed == 1 else "items"
    text = f"{_DONE[repair]} {done.changed:,} {items}"
    others = done.chosen - done.changed
    if others <= 0:
        return f"{text}."
    # not looked up which of them a requeue left dead: there may be any number
    unmapped = repair == "requeue" and chosen.state in {"dead", None}
    why = f", or could not be mapped: {_remedy('these objects', chosen.queue)}" if unmapped else ""
    return f"{text}; {others:,} more had changed meanwhile{why}."


def _remedy(objects: str, queue: str) -> str:
    return f"fix {objects}, or the function and then resync {queue}"


def _number(field: str) -> int:
    text = request.form.get(field, "0")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else 0
