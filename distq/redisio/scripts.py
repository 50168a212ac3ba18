"""Loads the Lua scripts and binds their inputs by the names that the scripts use.

A script names its inputs in its first lines, ``local ready, wake = KEYS[1], KEYS[2]`` and
``local time, items = ARGV[1], { unpack(ARGV, 2) }``; only the last one may be a list. Callers use these
names, so a wrong or missing one is a TypeError before the call is sent.

``lua/traced/script.lua`` surrounds each script of a queue, and writes the trace: so no script can omit it,
whichever value it returns and where.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any

from distq.forks import cached_property

Argument = str | bytes | int | float

_FOLDER = Path(__file__).with_name("lua")
_INCLUDE = re.compile(r"^[ ]*--- @include (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"(?:-- .*\n)+")
_READS_TRACE = "\ntraced = "
"""The text by which a script shows that it reads from ``meta`` itself whether it is traced."""
_HEADER_ENDS = "\nlocal call = redis.call\n"
_DECLARATION = re.compile(r"^local ([\w, ]+) =((?:.|\n(?!local))*)", re.MULTILINE)
_COMMAND = re.compile(r"""(?:call\(|(?<!return )\{ )'([A-Z]+)'""")
"""A command that is called, or with which a table for a later call begins."""
_OPTIONAL = frozenset({"link", "wants_links"})
"""Inputs that are empty unless the caller gives them: most calls have no spans."""

_INPUT = re.compile(r"(KEYS|ARGV)\[(\d+)\]|unpack\((ARGV), (\d+)\)")


@dataclass(frozen=True)
class Script:
    """One atomic operation on a queue."""

    name: str
    source: str
    sha: str
    keys: tuple[str, ...]
    arguments: tuple[str, ...]
    last_is_list: bool

    @cached_property
    def commands(self) -> frozenset[str]:
        """Return the Redis commands that the script may call, in small letters."""
        return frozenset(command.lower() for command in _COMMAND.findall(self.source))

    @cached_property
    def asks(self) -> str:
        """Return a short hash of the names of its arguments, for its entries in a trace."""
        return _asks(self.arguments)

    def bind(self, key: Callable[[str], str], inputs: Mapping[str, object]) -> list[Argument]:
        """Return the arguments of EVALSHA after the hash: the number of keys, the keys, the arguments."""
        return [*self.keys_by(key), *self.values_of(inputs)]

    def keys_by(self, key: Callable[[str], str]) -> list[Argument]:
        """Return the part of these that is the same in each call on one queue."""
        return [str(len(self.keys)), *map(key, self.keys)]

    def values_of(self, inputs: Mapping[str, Any]) -> Sequence[Argument]:
        """Return the arguments, in the order of the script."""
        if inputs.keys() != self._names:
            self._require_names(inputs)
            inputs = {**dict.fromkeys(_OPTIONAL, ""), **inputs}
        values: Sequence[Any] = self._in_order(inputs)
        return [*values[:-1], *values[-1]] if self.last_is_list else values

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self.arguments)

    @cached_property
    def _in_order(self) -> Callable[[Mapping[str, Any]], Sequence[Any]]:
        """Return a function that orders the inputs; with several, one step of C."""
        if len(self.arguments) > 1:
            return itemgetter(*self.arguments)
        return lambda inputs: [inputs[name] for name in self.arguments]

    def _require_names(self, inputs: Mapping[str, object]) -> None:
        if wrong := (inputs.keys() ^ self._names) - (_OPTIONAL & self._names):
            raise TypeError(f"script {self.name}: missing or unknown inputs {', '.join(sorted(wrong))}")


@cache
def load(name: str) -> Script:
    """Read ``lua/<name>.lua`` with its includes."""
    source = _read(f"{name}.lua")
    keys, arguments, last_is_list = _inputs(source)
    if "/" not in name:  # a script of a queue
        keys = tuple(dict.fromkeys((*keys, "meta", "trace")))
        source = _traced(name, source, keys).replace("ASKS", _asks(arguments))
    sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
    return Script(name, source, sha, keys, arguments, last_is_list)


@cache
def names() -> tuple[str, ...]:
    """Return the names of the scripts of a queue, without those in folders, such as ``cache/read``."""
    return tuple(sorted(file.stem for file in _FOLDER.glob("*.lua")))


@cache  # many scripts include the same parts
def _read(file: str) -> str:
    text = (_FOLDER / file).read_text(encoding="utf-8")
    return _INCLUDE.sub(lambda match: _read(f"include/{match[1]}.lua").rstrip("\n"), text)


def _traced(name: str, source: str, keys: tuple[str, ...]) -> str:
    """Return a script that writes an entry while a trace is on."""
    around = _read("traced/script.lua")
    if _READS_TRACE in source:
        around = around.replace("local traced = call('HGET', meta, 'trace')", "local traced")
    for key in ("meta", "trace"):
        around = around.replace(f"KEYS.{key}", f"KEYS[{keys.index(key) + 1}]")
    header = _COMMENT.match(source)
    comment = header[0] if header else ""
    body = source[len(comment) :].rstrip("\n")
    return comment + around.replace("NAME", name).replace("--- @script", body)


def _asks(arguments: Iterable[str]) -> str:
    return hashlib.sha1(" ".join(arguments).encode(), usedforsecurity=False).hexdigest()[:8]


def _inputs(source: str) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    found: dict[tuple[str, int], str] = {}
    last_is_list = False
    header, ends, _ = source.partition(_HEADER_ENDS)
    if not ends:
        raise ValueError("the inputs are not followed by the line: local call = redis.call")
    for declaration in _DECLARATION.finditer(header):
        places = list(_INPUT.finditer(declaration[2]))
        for name, place in zip(re.split(r",\s*", declaration[1]), places, strict=True):
            found[place[1] or place[3], int(place[2] or place[4])] = name
            last_is_list = last_is_list or place[3] is not None
    keys = [name for (kind, _), name in sorted(found.items()) if kind == "KEYS"]
    arguments = [name for (kind, _), name in sorted(found.items()) if kind == "ARGV"]
    if [place for _, place in sorted(found)] != [*range(1, len(arguments) + 1), *range(1, len(keys) + 1)]:
        raise ValueError(f"inputs are not numbered without a gap: {sorted(found)}")
    return tuple(keys), tuple(arguments), last_is_list
