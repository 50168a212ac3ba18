"""JSON without what is nested too deeply for this process to read.

API servers take 10,000 levels, Python's readers a thousand or so. Whoever may write one custom
object could otherwise stop everybody who follows its kind.
"""

import logging
import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from distq.errors import ApiError

T = TypeVar("T")

logger = logging.getLogger(__name__)

MAX_DEPTH = 500
"""Levels that are kept; schemas and objects for people have some dozens."""

_STRING_OR_BRACKET = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


def decode(read: Callable[[Any], T], text: bytes | msgspec.Raw, what: str) -> T:
    """Read the text, or where that goes too deep what ``limit_depth`` leaves of it.

    How deep a decoder may go depends on how deep its caller is already. Raises ApiError where nothing helps.
    """
    try:
        return read(text)
    except RecursionError:
        shallow = limit_depth(bytes(text), what)
    try:
        return read(shallow)
    except RecursionError:  # what was left out was no JSON, so that the levels behind it were miscounted
        raise _too_deep(what) from None


def limit_depth(text: bytes, what: str) -> bytes:
    """Return the text with null in place of each value below the last level; log it, naming ``what``.

    Raises ApiError where there is none.
    """
    parts: list[bytes] = []
    level = kept_from = 0
    for mark in _STRING_OR_BRACKET.finditer(text):
        if mark[0] in {b"{", b"["}:
            level += 1
            if level == MAX_DEPTH + 1:
                parts += text[kept_from : mark.start()], b"null"
        elif mark[0] in {b"}", b"]"}:
            level -= 1
            if level == MAX_DEPTH:
                kept_from = mark.end()
    if not parts:
        raise _too_deep(what)
    logger.error("%s: nested deeper than %d levels; what is deeper is read as null", what, MAX_DEPTH)
    return b"".join([*parts, text[kept_from:]])


def _too_deep(what: str) -> ApiError:
    """Return the error of a text that cannot be read at all."""
    return ApiError(f"unreadable {what}: nested too deeply. Raise Python's recursion limit.")
