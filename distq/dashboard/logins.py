"""Logins, by a signed cookie or a trusted proxy's header, and the protection against forged requests.

Pages of other sites cannot act with a person's login: the cookie is SameSite=Strict, each form carries a
token of its browser, browsers name the site that a request comes from, and GET changes nothing.
"""

import hashlib
import hmac
import secrets
from typing import NoReturn

from flask import Flask, Response, abort, flash, g, redirect, request, session, url_for
from flask.sessions import SecureCookieSessionInterface
from flask.typing import ResponseReturnValue

from distq.dashboard.access_policy import AccessPolicy
from distq.dashboard.proxies import NAMED
from distq.dashboard.security import LARGEST_BODY, LARGEST_FORM, here
from distq.dashboard.users import Person
from distq.inspector import Inspector
from distq.redisio.ended_logins import EndedLogins

LIFETIME = 12 * 3600.0
"""Seconds from a login, or the last message shown, to the next."""

REMEMBERED = int(LIFETIME) + 600
"""Seconds for which an ended login is remembered: a request just before the end may have signed it anew."""

_SAFE = {"GET", "HEAD", "OPTIONS"}
_OPEN = {"distq.static", "login"}
"""Endpoints that need no login; they show nothing of any queue."""

_OWN = {"login", "logout"}
"""Endpoints that change nothing but one's own login."""


class Cookie(SecureCookieSessionInterface):
    """The login's cookie, named after the secret: browsers share cookies among the ports of a machine."""

    def __init__(self, secret: bytes) -> None:
        self._name = f"distq_{hashlib.sha256(secret).hexdigest()[:8]}"

    def get_cookie_name(self, app: Flask) -> str:  # noqa: ARG002 - Flask's signature
        """Return a name that the next dashboard on this machine does not use."""
        return self._name

    def get_cookie_secure(self, app: Flask) -> bool:  # noqa: ARG002 - Flask's signature
        """Return whether the browser sends it over TLS alone: if this request came over TLS."""
        return request.is_secure


class Logins:
    """Begins and ends logins, and refuses requests without one where one is needed."""

    def __init__(self, policy: AccessPolicy, inspector: Inspector) -> None:
        self._policy = policy
        self._inspector = inspector

    def install(self, app: Flask) -> None:
        """Identify the person of each request before anything else is done."""
        app.secret_key = self._policy.secret
        app.session_interface = Cookie(self._policy.secret)
        app.config.update(
            SESSION_COOKIE_HTTPONLY=True,
            SESSION_COOKIE_SAMESITE="Strict",
            SESSION_COOKIE_PATH=self._policy.url_prefix or "/",
            PERMANENT_SESSION_LIFETIME=LIFETIME,
        )
        # in this order: how large a form may be depends on the person, and the token is in the form
        app.before_request(self._come_back)
        app.before_request(self._identify)
        app.before_request(self._refuse_large_forms)
        app.before_request(self._refuse_forgeries)
        app.context_processor(lambda: {"may_repair": self.may_repair(), "person": g.get("person")})
        app.jinja_env.globals["csrf_token"] = csrf_token

    def may_repair(self) -> bool:
        """Return whether the person of this request may change anything."""
        person: Person | None = g.get("person")
        return person is not None and self._policy.may_repair(person)

    def refuse_repair(self) -> NoReturn:
        """Answer 403: why repairs are refused, and what allows them."""
        abort(403, f"{self._policy.why_no_repairs()} Nothing was changed.")

    def begin(self, person: Person, mark: str) -> None:
        """Log a person in, whose line has this mark; the browser's login before is void."""
        session.clear()
        session.update(id=secrets.token_urlsafe(16), name=person.name, mark=mark)
        g.person = person

    def end(self) -> None:
        """Log out the person of this request: this browser, and by Redis any copy of its cookie.

        Raises RedisError where Redis does not note it: a copy of the cookie stays valid until it is too old.
        """
        ended = session.get("id")
        session.clear()
        if ended is not None:
            self._ended().add(ended, seconds=REMEMBERED)

    def _ended(self) -> EndedLogins:
        return EndedLogins(self._inspector.connection)

    def _come_back(self) -> Response | None:
        """Reload after a link of another site, now from this one: then the browser sends the cookie."""
        away = request.headers.get("Sec-Fetch-Site") == "cross-site"
        if not away or request.headers.get("Sec-Fetch-Mode") != "navigate" or request.method != "GET":
            return None
        return Response('<!doctype html><meta http-equiv="refresh" content="0"><title>distq</title>')

    def _identify(self) -> ResponseReturnValue | None:
        if request.endpoint == "distq.static":
            return None
        if (person := self._person()) is not None:
            g.person = person
            return None
        if request.endpoint in _OPEN:
            return None
        if not self._policy.asks_for_passwords:
            abort(403, "no user of this dashboard. Use the address of the proxy that logs you in.")
        is_page = request.headers.get("Sec-Fetch-Dest", "document") == "document"
        if request.method not in _SAFE or not is_page or "X-Live" in request.headers:
            abort(401, "your login has ended. Reload the page to log in.")
        return redirect(url_for("login", next=here()))

    def _person(self) -> Person | None:
        policy = self._policy
        if not policy.has_login:
            return policy.anonymous()
        if (named := request.environ.get(NAMED)) is not None:
            return policy.named_by_proxy(named)
        if policy.users is None or "id" not in session:
            return None
        name = str(session.get("name", ""))
        if session.get("mark") != policy.users.mark(name):
            return None
        # a logout asks nothing of Redis before: where Redis is away, this browser is logged out all the same
        if request.endpoint != "logout" and session["id"] in self._ended():
            session.clear()  # a page to log in would sign it anew: it would outlive what is remembered
            return None
        return policy.users.person(name)

    def _refuse_large_forms(self) -> None:
        """Refuse a form by its length, before it is parsed."""
        if request.method in _SAFE:
            return
        if "Transfer-Encoding" in request.headers:
            abort(411)  # waitress counts a body in chunks, and gives its length instead
        # a MiB of fields keeps a core busy for 0.5 s
        is_repair = request.endpoint == "act" and self.may_repair()
        if (request.content_length or 0) > (LARGEST_BODY if is_repair else LARGEST_FORM):
            abort(413)

    def _refuse_forgeries(self) -> None:
        """Refuse what changes something, unless a page of ours in this browser asks for it."""
        if request.method in _SAFE:
            return
        if request.headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
            abort(403, "another site asked for this. Nothing was changed.")
        if request.endpoint not in _OWN and not self.may_repair():
            return  # the view refuses it, with the reason that helps; no page has a form for it
        given = request.form.get("csrf_token", "")
        # as bytes: compare_digest takes no text beyond ASCII
        if "csrf" not in session or not hmac.compare_digest(given.encode(), str(session["csrf"]).encode()):
            abort(
                403,
                "the form is old, or of another browser. Nothing was changed: go back, reload and try again.",
            )


def csrf_token() -> str:
    """Return the token that each form of this browser carries."""
    if "csrf" not in session:
        session["csrf"] = secrets.token_urlsafe(24)
    return str(session["csrf"])


def show_message(text: str, *, refused: bool = False) -> None:
    """Show a message on the next page that is drawn."""
    flash(text, "refused" if refused else "done")
