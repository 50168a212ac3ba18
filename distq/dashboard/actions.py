"""Actions: posted forms, each of which runs bounded scripts that check an item's state again.

An action that deletes, stops work, or concerns many items shows them and their number first, and waits for
a confirmation. A repair of all items that match goes on from request to request while its page is open, so
that people can watch and stop it; the form of the next step carries how far it is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Self, cast, get_args

from flask import Flask, abort, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from distq.clock import SYSTEM_CLOCK, Clock
from distq.dashboard.audit import audit
from distq.dashboard.logins import Logins, show_message
from distq.dashboard.redirect_target import here, local_path
from distq.errors import ConfigError, DistqError
from distq.inspector import Inspector, Listing, Repair
from distq.inspector.view import glob_of
from distq.redisio.records import UNMAPPED
from distq.wording import counted, duration

STEP_SECONDS = 2.0
"""Seconds for which one request goes on with a repair of all that match."""

REPAIRABLE: Mapping[Listing, tuple[Repair, ...]] = {
    "ready": ("park", "delete"),
    "delayed": ("requeue", "park", "delete"),
    "processing": (),
    "dirty": ("delete",),
    "dead": ("requeue", "delete"),
}
"""What can be done to the items of each state."""

_DONE = {"requeue": "Requeued", "delete": "Deleted", "park": "Parked"}
_DID = {True: "done", False: "it was so already"}
_SHOWN = 80


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The items of a state that a form is about: some by their keys, or all that match; and how far it is."""

    queue: str
    keys: tuple[str, ...]
    state: Listing
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
        if "all" in form:
            keys = ()
        elif not keys:
            raise ConfigError("no items chosen: tick some, or take all that match.")
        return cls(
            queue=queue,
            keys=keys,
            state=cast("Listing", state),
            match=glob_of(form.get("match") or "*"),
            reason=form.get("reason", "").strip() or "parked by hand",
            total=_number("total"),
            cursor=_number("cursor"),
            seen=_number("seen"),
            changed=_number("changed"),
        )

    def __str__(self) -> str:
        """Return them in words: prod/web of foos, 3 items of foos, dead items of foos."""
        if len(self.keys) == 1:
            return f"{_short(self.keys[0])} of {self.queue}"
        if self.keys:
            return f"{counted(len(self.keys), 'item')} of {self.queue}"
        matching = "" if self.match == "*" else f" that match {_short(self.match)}"
        return f"{self.state} items of {self.queue}{matching}"


class Actions:
    """Takes the forms of operators."""

    def __init__(self, inspector: Inspector, logins: Logins, clock: Clock = SYSTEM_CLOCK) -> None:
        self._inspector = inspector
        self._logins = logins
        self._clock = clock
        self._actions: dict[str, Callable[[str], ResponseReturnValue | None]] = {
            **{repair: self._repairing(repair) for repair in get_args(Repair)},
            "add": self._add,
            "pause": self._pause,
            "resume": self._resume,
            "resync": self._resync,
            "trace-on": self._trace_on,
            "trace-off": self._trace_off,
        }

    def install(self, app: Flask) -> None:
        """Serve ``/queues/QUEUE/actions/ACTION``, to POST alone."""
        app.add_url_rule("/queues/<queue>/actions/<action>", "act", self.act, methods=["POST"])
        app.jinja_env.globals.update(repairable=REPAIRABLE, here=here)

    def act(self, queue: str, action: str) -> ResponseReturnValue:
        """Do the action, or ask first; then redirect back, with a message about what was done."""
        act = self._actions.get(action) or abort(404, f"no action {action!r:.40}.")
        if not self._logins.may_repair():
            audit(f"refused to {action} in {queue}", action=action, queue=queue)
            self._logins.refuse_repair()
        try:
            answer = act(queue)
        except DistqError as error:
            audit(f"{action} in {queue} failed: {error}", action=action, queue=queue)
            show_message(f"{action} failed: {error}", refused=True)
            answer = None
        return answer or redirect(_back(queue), 303)

    def _repairing(self, repair: Repair) -> Callable[[str], ResponseReturnValue | None]:
        return lambda queue: self._repair(repair, Chosen.from_form(queue))

    def _repair(self, repair: Repair, chosen: Chosen) -> ResponseReturnValue | None:
        if (repair == "delete" or not chosen.keys) and "confirmed" not in request.form:
            return self._ask(repair, chosen)
        if chosen.keys:
            done = replace(chosen, seen=len(chosen.keys), changed=self._repair_keys(repair, chosen))
        else:
            done, ended = self._repair_some(repair, chosen)
            if not ended:
                audit(f"{repair} {done}: {done.changed} of {done.seen} changed, going on")
                return self._ask(repair, done)
        facts = {"action": repair, "queue": done.queue, "chosen": done.seen, "changed": done.changed}
        which = f": {', '.join(map(_short, done.keys[:10]))}" if len(done.keys) > 1 else ""
        audit(f"{repair} {done}: {done.changed} of {done.seen} changed{which}", **facts)
        show_message(self._unmapped(done) or _outcome(repair, done), refused=not done.changed)
        return None

    def _unmapped(self, done: Chosen) -> str:
        """Return why the one item that was chosen stays, where its object cannot be mapped; else no text."""
        if done.changed or len(done.keys) != 1:
            return ""
        item = self._inspector.item(done.queue, done.keys[0])
        if item is None or item.reason != UNMAPPED:
            return ""
        key, remedy = _short(item.key), _remedy("the object", done.queue)
        return f"Nothing was changed: {key} could not be mapped: {remedy}."

    def _repair_keys(self, repair: Repair, chosen: Chosen) -> int:
        if repair == "park":
            return self._inspector.park(chosen.queue, *chosen.keys, reason=chosen.reason)
        change = self._inspector.requeue if repair == "requeue" else self._inspector.delete
        return change(chosen.queue, *chosen.keys, state=chosen.state)

    def _repair_some(self, repair: Repair, chosen: Chosen) -> tuple[Chosen, bool]:
        """Repair for STEP_SECONDS; return how far it is, and whether that is the end."""
        until = self._clock.monotonic() + STEP_SECONDS
        some = partial(
            self._inspector.repair_some,
            *(repair, chosen.queue),
            state=chosen.state,
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
                return chosen, True
            chosen = replace(
                chosen,
                cursor=step.cursor or 0,
                seen=chosen.seen + step.chosen,
                changed=chosen.changed + step.changed,
            )
            if step.cursor is None or self._clock.monotonic() >= until:
                return chosen, step.cursor is None

    def _ask(self, repair: Repair, chosen: Chosen) -> str:
        """Show how many items it concerns, or how far it is, with the form that goes on."""
        if chosen.keys:
            chosen = replace(chosen, total=len(chosen.keys))
        elif not chosen.cursor:
            total = self._inspector.count(chosen.queue, state=chosen.state, match=chosen.match)
            chosen = replace(chosen, total=total)
        return render_template("distq/confirm.html", action=repair, chosen=chosen, next=_back(chosen.queue))

    def _add(self, queue: str) -> None:
        form = request.form
        key, delay = form.get("key", ""), form.get("delay", "").strip()
        try:
            priority, after = int(form.get("priority") or 0), float(delay) if delay else None
        except ValueError:
            raise ConfigError("priority and delay are numbers.") from None
        added = self._inspector.add(queue, key, priority=priority, after=after)
        audit(f"add {_short(key)} to {queue}: {added} new", action="add", queue=queue, changed=added)
        show_message(f"Added {_short(key)}." if added else f"{_short(key)} was pending already.")

    def _pause(self, queue: str) -> None:
        changed = self._inspector.pause(queue)
        audit(f"pause {queue}: {_DID[changed]}", action="pause", queue=queue, changed=int(changed))
        show_message(
            f"Paused {queue}: nothing is claimed until it is resumed."
            if changed
            else "It was paused already."
        )

    def _resume(self, queue: str) -> None:
        changed = self._inspector.resume(queue)
        audit(f"resume {queue}: {_DID[changed]}", action="resume", queue=queue, changed=int(changed))
        show_message(f"Resumed {queue}." if changed else "It was not paused.")

    def _resync(self, queue: str) -> ResponseReturnValue | None:
        if "confirmed" not in request.form:
            resources = [stream.resource for stream in self._inspector.streams(queue)]
            if not resources:
                raise ConfigError(f"nothing to list: no informer feeds {queue}.")
            return render_template(
                "distq/resync.html", tab="Queues", queue=queue, resources=resources, next=_back(queue)
            )
        listed = self._inspector.resync(queue)
        audit(f"resync {queue}: {counted(listed, 'resource')}", action="resync", queue=queue, changed=listed)
        show_message(f"The leader lists {counted(listed, 'resource')} and enqueues every object in {queue}.")
        return None

    def _trace_on(self, queue: str) -> None:
        try:
            minutes = float(request.form.get("minutes") or 10)
        except ValueError:
            raise ConfigError("minutes are a number.") from None
        match = request.form.get("match", "").strip()
        self._inspector.trace_on(queue, seconds=minutes * 60, match=match)
        which = f" where keys match {_short(match)}" if match else ""
        audit(f"trace {queue} for {minutes:g} minutes{which}", action="trace-on", queue=queue)
        show_message(f"{queue} is traced for {duration(minutes * 60)}{which}.")

    def _trace_off(self, queue: str) -> None:
        self._inspector.trace_off(queue)
        audit(f"trace {queue} no more", action="trace-off", queue=queue)
        show_message(f"{queue} is traced no more.")


def _outcome(repair: Repair, done: Chosen) -> str:
    """Return the message about what was done, and about items that had changed meanwhile."""
    if len(done.keys) == 1:
        key = _short(done.keys[0])
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
    unmapped = repair == "requeue" and done.state == "dead"
    why = f", or could not be mapped: {_remedy('these objects', done.queue)}" if unmapped else ""
    return f"{text}; {others:,} more had changed meanwhile{why}."


def _remedy(objects: str, queue: str) -> str:
    return f"fix {objects}, or the function and then resync {queue}"


def _back(queue: str) -> str:
    """Return the path to which the form leads back, if it is on this server; else the queue's page."""
    return local_path(request.form.get("next")) or url_for("distq.queue", queue=queue)


def _number(field: str) -> int:
    text = request.form.get(field, "0")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else 0


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
