"""Browsers that logged in before: each carries a signed cookie that says so.

The cookie grants no access: it only gives its browser tries for one name that a flood does not use up.
"""

import hashlib
import hmac
import secrets

from flask import Flask, Response, request

from distq.dashboard.access_policy import AccessPolicy

REMEMBERED = 90 * 86_400
"""Seconds from the last login in a browser until the browser is unknown again."""


class KnownBrowsers:
    """Signs by the dashboard's secret: with another one at the next start no browser is known."""

    def __init__(self, app: Flask, policy: AccessPolicy) -> None:
        self._app = app
        self._policy = policy

    def of(self, name: str) -> str:
        """Return the id of the browser that asks, if this name logged in there; else "".

        Also "" for a name that is no user any more: many such cookies would allow tries without end, and
        each try costs a hash.
        """
        if self._policy.users is None or self._policy.users.person(name) is None:
            return ""
        browser, _, signature = request.cookies.get(self._cookie(), "").partition(".")
        return browser if hmac.compare_digest(signature.encode(), self._signature(name, browser)) else ""

    def remember(self, answer: Response, name: str) -> None:
        """Add the cookie to an answer, so that its browser is known for this name."""
        browser = secrets.token_urlsafe(16)
        answer.set_cookie(
            self._cookie(),
            f"{browser}.{self._signature(name, browser).decode()}",
            max_age=REMEMBERED,
            path=self._policy.url_prefix or "/",
            secure=request.is_secure,
            httponly=True,
            samesite="Strict",
        )

    def _cookie(self) -> str:
        return f"{self._app.session_interface.get_cookie_name(self._app)}_known"

    def _signature(self, name: str, browser: str) -> bytes:
        text = f"known browser\0{name}\0{browser}"
        return hmac.new(self._policy.secret, text.encode(), hashlib.sha256).hexdigest().encode()
