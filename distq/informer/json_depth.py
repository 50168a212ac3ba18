"""JSON that this process can read: without values nested too deeply, and halves of characters.

API servers take 10,000 levels, Python's readers a thousand or so. Each user with the right to write one
custom object could otherwise stop all followers of its kind.
"""

import logging
import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from distq.errors import ApiError

T = TypeVar("T")

logger = logging.getLogger(__name__)


class Unreadable(ApiError):
    """An answer that cannot be read, now or the next time: no outage."""


MAX_DEPTH = 500
"""Levels that are kept; schemas and objects for people have some dozens."""

_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\\.",
    re.DOTALL,
)
"""Both halves of a character, a half, or any other escape."""

_STRING_OR_BRACKET = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


def decode(read: Callable[[Any], T], text: bytes | msgspec.Raw, what: str) -> T:
    """Read the text, or where that goes too deep the text that ``limit_depth`` makes of it.

    Half a character becomes U+FFFD, as for Go's readers. Raises Unreadable where nothing helps.
    """
    try:
        return read(text)
    except (msgspec.DecodeError, RecursionError):  # the depth that is too much depends on the caller's own
        pass  # once more, with the remedies
    try:
        return _read_whole(read, text)
    except RecursionError:
        shallow = limit_depth(bytes(text), what)
    try:
        return _read_whole(read, shallow)
    except RecursionError:  # the part left out was no JSON, so that the levels behind it were miscounted
        raise _too_deep(what) from None


def _read_whole(read: Callable[[Any], T], text: bytes | msgspec.Raw) -> T:
    """Read the text, or where that is no JSON the text with U+FFFD for halves of characters."""
    try:
        return read(text)
    except msgspec.DecodeError:
        half = len(rb"\ud800")  # both halves are twice as long, any other escape is shorter
        whole = _ESCAPE.sub(lambda escape: rb"\ufffd" if len(escape[0]) == half else escape[0], bytes(text))
        if whole == bytes(text):
            raise
        return read(whole)


def limit_depth(text: bytes, what: str) -> bytes:
    """Return the text with null in place of each value below the last level; log it, naming ``what``.

    Raises Unreadable where there is none.
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


def _too_deep(what: str) -> Unreadable:
    return Unreadable(f"unreadable {what}: nested too deeply. Raise Python's recursion limit.")
