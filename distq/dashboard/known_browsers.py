"""From which browsers somebody logged in before; each carries that itself, signed, in a cookie of its own.

It opens nothing: whoever has it may only try the password of one name at a pace that no flood slows down.
"""

import hashlib
import hmac
import secrets

from flask import Flask, Response, request

from distq.dashboard.access_policy import AccessPolicy

REMEMBERED = 90 * 86_400
"""Seconds from the last login in a browser until it is nobody's."""


class KnownBrowsers:
    """Knows browsers by the dashboard's secret: another one at the next start forgets them all."""

    def __init__(self, app: Flask, policy: AccessPolicy) -> None:
        self._app = app
        self._policy = policy

    def of(self, name: str) -> str:
        """Return what stands for the browser that asks, where this name logged in there; "" elsewhere.

        And for who is no user any more: whoever had kept many such cookies could try, and cost, without end.
        """
        if self._policy.users is None or self._policy.users.person(name) is None:
            return ""
        browser, _, signature = request.cookies.get(self._cookie(), "").partition(".")
        return browser if hmac.compare_digest(signature.encode(), self._signature(name, browser)) else ""

    def remember(self, answer: Response, name: str) -> None:
        """Let the browser that gets this answer carry that this name logged in there."""
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
