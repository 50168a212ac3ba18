"""The pages to log in and out."""

import math

from flask import Flask, abort, g, make_response, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from distq.dashboard.access_policy import AccessPolicy
from distq.dashboard.attempts import Attempts
from distq.dashboard.audit import audit
from distq.dashboard.known_browsers import KnownBrowsers
from distq.dashboard.logins import Logins
from distq.dashboard.redirect_target import local_path
from distq.dashboard.users import is_name
from distq.errors import RedisError


class LoginPages:
    """Logs people in by a password, with a limit on wrong ones, and out again."""

    def __init__(
        self, policy: AccessPolicy, logins: Logins, attempts: Attempts, known: KnownBrowsers
    ) -> None:
        self._policy = policy
        self._logins = logins
        self._attempts = attempts
        self._known = known

    def install(self, app: Flask) -> None:
        """Serve ``/login`` and ``/logout``."""
        app.add_url_rule("/login", "login", self.log_in, methods=["GET", "POST"])
        app.add_url_rule("/logout", "logout", self.log_out, methods=["POST"])

    def log_in(self) -> ResponseReturnValue:
        """Show the form, or take it: then redirect to the page that was asked for."""
        if self._policy.users is None or not self._policy.asks_for_passwords:
            abort(404, "this dashboard has no login by password.")
        target = local_path(request.values.get("next")) or url_for("rq_dashboard.queues_overview")
        if request.method != "POST":
            return redirect(target) if "person" in g else _form(target)
        name, password = request.form.get("name", ""), request.form.get("password", "")
        whose = name if is_name(name) else ""
        trying = request.remote_addr or "", whose, self._known.of(whose)
        if wait := self._attempts.take(*trying):
            answer = make_response(_form(target, f"Too many tries. Wait {math.ceil(wait)} seconds."), 429)
            answer.headers["Retry-After"] = str(math.ceil(wait))
            return answer
        person = self._policy.users.check(name, password) if is_name(name) else None
        if person is None:
            known = name if self._policy.users.person(name) else "an unknown name"  # it may be a password
            audit(f"login refused, as {known}")
            return _form(target, "Name or password is wrong."), 403
        self._attempts.succeeded(*trying)
        self._logins.begin(person, self._policy.users.mark(person.name))
        audit("logged in")
        answer = make_response(redirect(target, 303))
        self._known.remember(answer, person.name)
        return answer

    def log_out(self) -> ResponseReturnValue:
        """Log out the person of this request."""
        audit("logged out")
        try:
            self._logins.end()
        except RedisError as error:
            abort(
                503, f"This browser is logged out. A copy of its cookie may stay valid for 12 hours: {error}"
            )
        return redirect(url_for("rq_dashboard.queues_overview"), 303)


def _form(target: str, refusal: str = "") -> str:
    return render_template("distq/login.html", next=target, refusal=refusal)
