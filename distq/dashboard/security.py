"""Protection against pages of other sites, and against hostile keys and error texts."""

import re
from urllib.parse import urlsplit

from flask import Flask, Response, abort, request, url_for

from distq.dashboard.access_policy import AccessPolicy

LARGEST_BODY = 1024 * 1024
"""Bytes of a repair: a page of the longest keys, all of them selected, takes 600 KiB."""

LARGEST_FORM = 24 * 1024
"""Bytes of any other request: the longest name, password and way back to log in take 18 KiB."""

_PATH = re.compile(r"/(?![/\\])[^\\\x00-\x20\x7f]*")
"""Browsers take // and /\\ for the beginning of a host, and leave out tabs and line ends first."""

_HEADERS = {
    "Cache-Control": "no-store",
    # templates escape keys and error texts, which any producer can write; no script in one would run either
    "Content-Security-Policy": (
        "default-src 'none'; "
        "script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def protect(app: Flask, policy: AccessPolicy) -> None:
    """Check host and size of every request and send the security headers with every answer."""
    # Flask's own limit of a form, 500 kB, is less than a page of the longest keys takes
    app.config.update(MAX_CONTENT_LENGTH=LARGEST_BODY, MAX_FORM_MEMORY_SIZE=LARGEST_BODY)
    app.before_request(lambda: _check_host(policy))
    app.after_request(_add_headers)


def _check_host(policy: AccessPolicy) -> None:
    """Refuse names that merely resolve to this machine: another site's script may use one (DNS rebinding)."""
    try:
        hostname = urlsplit(f"//{request.host}").hostname or ""
    except ValueError:
        hostname = ""
    if not policy.answers_to(hostname):
        abort(
            421,
            "the dashboard answers to localhost only, unless an allowed host is given. Use a port-forward.",
        )


def _add_headers(response: Response) -> Response:
    for header, value in _HEADERS.items():
        response.headers.setdefault(header, value)  # static files have a Cache-Control of their own
    return response


def here() -> str:
    """Return the path and query of this request, to redirect back to."""
    return request.script_root + request.full_path.removesuffix("?")


def local_path(text: str | None) -> str | None:
    """Return the text where it is a path on this server; None for any other URL, and for no text."""
    return text if text and _PATH.fullmatch(text) else None


def way_back(queue: str) -> str:
    """Return the path that the form of this request names, if it is on this server; else the queue's page."""
    return local_path(request.form.get("next")) or url_for("distq.queue", queue=queue)
