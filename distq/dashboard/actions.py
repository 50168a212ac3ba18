"""Actions of operators: posted forms, each of which runs bounded scripts that check the state again.

An action that deletes, stops work, or concerns many items shows them and their number first, and waits for
a confirmation.
"""

from collections.abc import Callable
from functools import partial
from typing import get_args

from flask import Flask, abort, redirect, render_template, request
from flask.typing import ResponseReturnValue

from distq.dashboard.audit import actor, log_action
from distq.dashboard.item_repairs import REPAIRABLE, repair_by_form
from distq.dashboard.logins import Logins, show_message
from distq.dashboard.security import here, way_back
from distq.dashboard.wording import shortened
from distq.errors import ConfigError, DistqError
from distq.inspector import Inspector, Repair
from distq.inspector.operator import Operator
from distq.redisio.registration import is_registered
from distq.wording import counted, duration


class Actions:
    """Takes the forms of operators."""

    def __init__(self, inspector: Inspector, logins: Logins) -> None:
        self._inspector = inspector
        self._logins = logins
        self._operator = Operator(inspector, actor, log_action)
        self._actions: dict[str, Callable[[str], ResponseReturnValue | None]] = {
            **{repair: partial(repair_by_form, self._operator, repair) for repair in get_args(Repair)},
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
            log_action(f"refused to {action} in {queue}", action=action, queue=queue)
            self._logins.refuse_repair()
        try:
            if not is_registered(self._inspector.connection, queue):  # what is done would be noted nowhere
                raise ConfigError(f'no queue "{queue}": nothing was ever added to it.')
            answer = act(queue)
        except DistqError as error:
            log_action(f"{action} in {queue} failed: {error}", action=action, queue=queue)
            show_message(f"{action} failed: {error}", refused=True)
            answer = None
        return answer or redirect(way_back(queue), 303)

    def _add(self, queue: str) -> None:
        form = request.form
        key, delay = form.get("key", ""), form.get("delay", "").strip()
        try:
            priority, after = int(form.get("priority") or 0), float(delay) if delay else None
        except ValueError:
            raise ConfigError("priority and delay are numbers.") from None
        added = self._operator.add(queue, key, priority=priority, after=after)
        show_message(f"Added {shortened(key)}." if added else f"{shortened(key)} was pending already.")

    def _pause(self, queue: str) -> ResponseReturnValue | None:
        if "confirmed" not in request.form:
            held = counted(self._inspector.count(queue, state="processing"), "item")
            return self._ask_about_queue(
                "pause",
                queue,
                f"Workers claim nothing more until you resume it, and finish {held} in progress. Adds go on.",
            )
        paused = f"Paused {queue}: nothing is claimed until it is resumed."
        show_message(paused if self._operator.pause(queue) else "It was paused already.")
        return None

    def _resume(self, queue: str) -> None:
        show_message(f"Resumed {queue}." if self._operator.resume(queue) else "It was not paused.")

    def _resync(self, queue: str) -> ResponseReturnValue | None:
        if "confirmed" not in request.form:
            resources = [stream.resource for stream in self._inspector.streams(queue)]
            if not resources:
                raise ConfigError(f"nothing to list: no informer feeds {queue}.")
            return self._ask_about_queue(
                "resync",
                queue,
                f"The leader lists {', '.join(resources)} and enqueues every object, at low priority. "
                "Items that back off or are dead stay so.",
            )
        listed = counted(self._operator.resync(queue), "resource")
        show_message(f"The leader lists {listed} and enqueues every object in {queue}.")
        return None

    def _ask_about_queue(self, action: str, queue: str, effect: str) -> str:
        return render_template(
            "distq/confirm_queue.html",
            tab="Queues",
            action=action,
            queue=queue,
            effect=effect,
            next=way_back(queue),
        )

    def _trace_on(self, queue: str) -> None:
        try:
            minutes = float(request.form.get("minutes") or 10)
        except ValueError:
            raise ConfigError("minutes are a number.") from None
        match = request.form.get("match", "").strip()
        which = f" where keys match {shortened(match)}" if match else ""
        self._operator.trace_on(queue, seconds=minutes * 60, match=match)
        show_message(f"{queue} is traced for {duration(minutes * 60)}{which}.")

    def _trace_off(self, queue: str) -> None:
        self._operator.trace_off(queue)
        show_message(f"The trace of {queue} has ended.")
