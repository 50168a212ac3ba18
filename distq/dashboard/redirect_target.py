"""Redirects after a form lead to a path on this server, and nowhere else."""

import re
from urllib.parse import urlsplit

from flask import request, url_for

_PATH = re.compile(r"/(?![/\\])[^\\\x00-\x20\x7f]*")


def here() -> str:
    """Return the path and query of this request, to redirect back to."""
    return request.script_root + request.full_path.removesuffix("?")


def local_path(text: str | None) -> str | None:
    """Return the text where it is a path on this server; None for any other URL, and for no text."""
    if not text or not _PATH.fullmatch(text):
        return None
    try:
        parts = urlsplit(text)
    except ValueError:
        return None
    return None if parts.scheme or parts.netloc else text


def way_back(queue: str) -> str:
    """Return the path that the form of this request names, if it is on this server; else the queue's page."""
    return local_path(request.form.get("next")) or url_for("distq.queue", queue=queue)
