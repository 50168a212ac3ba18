"""The pages to log in and out, and the browsers that did so before."""

import hashlib
import hmac
import math
import secrets

from flask import Flask, Response, abort, g, make_response, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from distq.dashboard.access_policy import AccessPolicy
from distq.dashboard.attempts import Attempts
from distq.dashboard.audit import log_action
from distq.dashboard.logins import Logins
from distq.dashboard.security import local_path
from distq.dashboard.users import is_name
from distq.errors import RedisError

KNOWN_FOR = 90 * 86_400
"""Seconds from the last login in a browser until the browser is unknown again."""


class LoginPages:
    """Logs people in by a password, with a limit on wrong ones, and out again.

    A browser that logged in before carries a cookie, signed by the dashboard's secret, that says so. It
    grants no access: it only gives its browser tries for one name that a flood does not use up. With another
    secret at the next start no browser is known.
    """

    def __init__(self, policy: AccessPolicy, logins: Logins) -> None:
        self._policy = policy
        self._logins = logins
        self._attempts = Attempts()
        self._cookie = ""

    def install(self, app: Flask) -> None:
        """Serve ``/login`` and ``/logout``."""
        self._cookie = f"{app.session_interface.get_cookie_name(app)}_known"
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
        trying = request.remote_addr or "", whose, self._known_browser(whose)
        if wait := self._attempts.take(*trying):
            answer = make_response(_form(target, f"Too many tries. Wait {math.ceil(wait)} seconds."), 429)
            answer.headers["Retry-After"] = str(math.ceil(wait))
            return answer
        person = self._policy.users.check(name, password) if is_name(name) else None
        if person is None:
            known = name if self._policy.users.person(name) else "an unknown name"  # it may be a password
            log_action(f"login refused, as {known}")
            return _form(target, "Name or password is wrong."), 403
        self._attempts.succeeded(*trying)
        self._logins.begin(person, self._policy.users.mark(person.name))
        log_action("logged in")
        answer = make_response(redirect(target, 303))
        self._remember_browser(answer, person.name)
        return answer

    def log_out(self) -> ResponseReturnValue:
        """Log out the person of this request."""
        log_action("logged out")
        try:
            self._logins.end()
        except RedisError as error:
            abort(
                503, f"This browser is logged out. A copy of its cookie may stay valid for 12 hours: {error}"
            )
        return redirect(url_for("rq_dashboard.queues_overview"), 303)

    def _known_browser(self, name: str) -> str:
        """Return the id of the browser that asks, if this user logged in there before; else ""."""
        # many cookies of names that are no users would allow tries without end, and each costs a hash
        if self._policy.users is None or self._policy.users.person(name) is None:
            return ""
        browser, _, signature = request.cookies.get(self._cookie, "").partition(".")
        return browser if hmac.compare_digest(signature.encode(), self._signature(name, browser)) else ""

    def _remember_browser(self, answer: Response, name: str) -> None:
        browser = secrets.token_urlsafe(16)
        answer.set_cookie(
            self._cookie,
            f"{browser}.{self._signature(name, browser).decode()}",
            max_age=KNOWN_FOR,
            path=self._policy.url_prefix or "/",
            secure=request.is_secure,
            httponly=True,
            samesite="Strict",
        )

    def _signature(self, name: str, browser: str) -> bytes:
        text = f"known browser\0{name}\0{browser}"
        return hmac.new(self._policy.secret, text.encode(), hashlib.sha256).hexdigest().encode()


def _form(target: str, refusal: str = "") -> str:
    return render_template("distq/login.html", next=target, refusal=refusal)
