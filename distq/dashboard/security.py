"""What keeps other people's web pages, and hostile keys, out of the dashboard.

Keys and error texts are written by anyone who may add to a queue, so templates escape them, and no script
runs that this process did not write (the policy with a nonce).
"""

import re
import secrets
from urllib.parse import urlsplit

from flask import Flask, Response, abort, g, request
from jinja2.ext import Extension

from distq.dashboard.gate import Gate

LARGEST_BODY = 1024 * 1024
"""Bytes of a request: a page of the longest keys, all of them selected, takes 600 KiB."""

_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_POLICY = (
    "default-src 'none'; "
    "script-src 'nonce-{nonce}'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


_BASE = "rq_dashboard/base.html"


class NonceExtension(Extension):
    """Give every script tag that stands in a template the nonce; what data may bring has none.

    rq-dashboard's base gets two blocks more: its title, and the end of its head.
    """

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:  # noqa: ARG002 - Jinja's
        """Rewrite a template's source before it is compiled."""
        if name == _BASE:
            source = re.sub("(<title>).*?(</title>)", r"\1{% block title %}distq{% endblock %}\2", source)
            source = source.replace("</head>", "{% block head %}{% endblock %}</head>")
        return source.replace("<script ", '<script nonce="{{ csp_nonce() }}" ')


def protect(app: Flask, gate: Gate) -> None:
    """Check host and size of every request and send the security headers with every answer."""
    app.config.update(MAX_CONTENT_LENGTH=LARGEST_BODY, MAX_FORM_MEMORY_SIZE=LARGEST_BODY)
    app.jinja_env.add_extension(NonceExtension)
    app.jinja_env.globals["csp_nonce"] = _nonce
    app.before_request(lambda: _check_host(gate))
    app.after_request(_add_headers)


def _check_host(gate: Gate) -> None:
    """Refuse names that merely resolve to this machine: another site's script may use one (DNS rebinding)."""
    try:
        hostname = urlsplit(f"//{request.host}").hostname or ""
    except ValueError:
        hostname = ""
    if not gate.answers_to(hostname):
        abort(
            421,
            "the dashboard answers to localhost only, unless an allowed host is given. Use a port-forward.",
        )


def _add_headers(response: Response) -> Response:
    for header, value in _HEADERS.items():
        response.headers.setdefault(header, value)  # static files have a Cache-Control of their own
    response.headers["Content-Security-Policy"] = _POLICY.format(nonce=_nonce())
    return response


def _nonce() -> str:
    if "csp_nonce" not in g:
        g.csp_nonce = secrets.token_urlsafe(16)
    return str(g.csp_nonce)
