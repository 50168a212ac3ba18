"""Mistakes that the model must notice: each takes one rule of the protocol away."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from unittest import mock

from distq.redisio import object_cache, scripts


@dataclass(frozen=True)
class Control:
    """A mistake: in the scripts, by a text and its replacement; in readers; else in the leader."""

    name: str
    seed: int
    """Of a schedule that shows it; ``--control`` finds another one where schedules are drawn otherwise."""

    text: str = ""
    instead: str = ""
    trusts_readers: bool = False


_GONE_AT_ONCE = "if found_by == 'gone' then"

CONTROLS = [
    Control("no comparison", 2, "if not older(version, stored_version or '') then", "if true then"),
    Control("own writes behind the position", 12, "if older(passed, version) and (", "if ("),
    Control("no markers", 4, "if found_by == 'gone' and not older(passed, version) then", _GONE_AT_ONCE),
    Control("own writes behind a list", 89, "string.match(position, '@(%d+)$') or ''", "''"),
    Control("nothing replaced behind a list", 588, "or is_there(name)", ""),
    Control("markers for ever", 2, "if is_marker and not older(passed, version) then", "if false then"),
    Control("markers dropped at once", 5, "if is_marker and not older(passed, version) then", "if true then"),
    Control("old values stay in the index", 2, "add_members(from_index, name, stored_found_by)", ""),
    Control("a new list on an old cache", 0, "if clears_cache == '1' then", "if false then"),
    Control("a list's end without a version", 2),
    Control("cleared after the list was asked for", 14),
    Control("a resync puts", 37),
    Control("an incomplete cache is read", 6, trusts_readers=True),
]


@contextmanager
def planted(control: Control | None) -> Iterator[frozenset[str]]:
    """Plant a mistake; give the names of those that the leader makes itself."""
    if control is None:
        yield frozenset()
    elif control.trusts_readers:
        with mock.patch.object(object_cache, "_indices_of", return_value=frozenset({"owner"})):
            yield frozenset()
    elif not control.text:
        yield frozenset({control.name})
    else:
        wrong = {
            name: _with_mistake(scripts.load(name), control)
            for name in ("commit", "cache/read", "cache/write")
        }
        assert any(each.source != scripts.load(name).source for name, each in wrong.items()), control.text
        with mock.patch.object(scripts, "load", wrong.__getitem__):
            yield frozenset()


def _with_mistake(script: scripts.Script, control: Control) -> scripts.Script:
    source = script.source.replace(control.text, control.instead)
    return replace(
        script, source=source, sha=hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
    )
