"""The pages to log in and out."""

import math
import re
from urllib.parse import urlsplit

from flask import Flask, abort, g, make_response, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from distq.dashboard.access import Access
from distq.dashboard.attempts import Attempts
from distq.dashboard.audit import audit
from distq.dashboard.session import Sessions
from distq.dashboard.users import is_name

_PATH = re.compile(r"/(?![/\\])[^\\\x00-\x20\x7f]*")


def local_path(text: str | None) -> str | None:
    """Return the text where it is a path on this server; None for what leads elsewhere, and for nothing."""
    if not text or not _PATH.fullmatch(text):
        return None
    try:
        parts = urlsplit(text)
    except ValueError:
        return None
    return None if parts.scheme or parts.netloc else text


class Login:
    """Lets people in by a password, not too often wrong, and out again."""

    def __init__(self, access: Access, sessions: Sessions, attempts: Attempts) -> None:
        self._access = access
        self._sessions = sessions
        self._attempts = attempts

    def install(self, app: Flask) -> None:
        """Serve ``/login`` and ``/logout``."""
        app.add_url_rule("/login", "login", self.log_in, methods=["GET", "POST"])
        app.add_url_rule("/logout", "logout", self.log_out, methods=["POST"])
        app.jinja_env.globals["asks_for_passwords"] = self._access.asks_for_passwords

    def log_in(self) -> ResponseReturnValue:
        """Show the form, or take it: then lead to where the person wanted to go."""
        if self._access.users is None or not self._access.asks_for_passwords:
            abort(404, "nobody logs in here.")
        onward = local_path(request.values.get("next")) or url_for("rq_dashboard.queues_overview")
        if request.method != "POST":
            return redirect(onward) if "person" in g else _form(onward)
        if wait := self._attempts.take(request.remote_addr or ""):
            answer = make_response(_form(onward, f"Too many tries. Wait {math.ceil(wait)} seconds."), 429)
            answer.headers["Retry-After"] = str(math.ceil(wait))
            return answer
        name, password = request.form.get("name", ""), request.form.get("password", "")
        person = self._access.users.check(name, password) if is_name(name) else None
        if person is None:
            known = name if self._access.users.person(name) else "an unknown name"  # it may be a password
            audit(f"login refused, as {known}")
            return _form(onward, "Name or password is wrong."), 403
        self._attempts.succeeded(request.remote_addr or "")
        self._sessions.begin(person, self._access.users.mark(person.name))
        audit("logged in")
        return redirect(onward, 303)

    def log_out(self) -> ResponseReturnValue:
        """End the session."""
        audit("logged out")
        self._sessions.end()
        return redirect(url_for("rq_dashboard.queues_overview"), 303)


def _form(onward: str, refusal: str = "") -> str:
    return render_template("distq/login.html", next=onward, refusal=refusal)
