"""Where people are led after a form: to a page of this server, and nowhere else."""

import re
from urllib.parse import urlsplit

from flask import request

_PATH = re.compile(r"/(?![/\\])[^\\\x00-\x20\x7f]*")


def here() -> str:
    """Return the path of the page that is asked for, to be led back to."""
    return request.script_root + request.full_path.removesuffix("?")


def local_path(text: str | None) -> str | None:
    """Return the text where it is a path on this server; None for what leads elsewhere, and for nothing."""
    if not text or not _PATH.fullmatch(text):
        return None
    try:
        parts = urlsplit(text)
    except ValueError:
        return None
    return None if parts.scheme or parts.netloc else text
