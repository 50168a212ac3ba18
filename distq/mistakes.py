"""Errors that name the line of the program, and the name that the user probably meant."""

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, NamedTuple, TypeVar

from distq.errors import ConfigError, DistqError

Class = TypeVar("Class")
Error = TypeVar("Error", bound=DistqError)

_CLOSE = 0.6
"""How similar two names must be, from 0 to 1, for a suggestion: the default of difflib."""


def closest(name: str, choices: Iterable[str], alike: float = _CLOSE) -> str | None:
    """Return the choice that is closest to a name, None if none is at least ``alike``, 0 to 1."""
    import difflib  # few programs need it

    by_folded = {choice.casefold(): choice for choice in choices}
    found = difflib.get_close_matches(name.casefold(), by_folded, 1, alike)
    return by_folded[found[0]] if found else None


def did_you_mean(name: str, choices: Iterable[str], otherwise: str = "", *, alike: float = _CLOSE) -> str:
    """Return ``Did you mean "foos"?`` with the closest choice; ``otherwise`` if none is close."""
    meant = closest(name, choices, alike)
    return otherwise if meant is None else f'Did you mean "{meant}"?'


class SourceLine(NamedTuple):
    """A line of the program, as compilers and tracebacks name it."""

    file: str
    number: int

    def __str__(self) -> str:
        """Return ``foos.py:12``; the file is relative to the working directory if it is inside."""
        try:
            here = f"{Path.cwd()}{os.sep}"
        except OSError:  # the working directory is deleted
            here = ""
        return f"{self.file.removeprefix(here)}:{self.number}"


def calling_line(module: str) -> SourceLine:
    """Return the line whose call into a module is running, from any function of the module."""
    frame = inspect.currentframe()
    while frame and frame.f_globals.get("__name__") in {module, __name__}:
        frame = frame.f_back
    return SourceLine(frame.f_code.co_filename, frame.f_lineno) if frame else SourceLine("?", 0)


def raising_line(trace: TracebackType | None) -> SourceLine | None:
    """Return the last line of a traceback that belongs to the program, not to distq or an import."""
    line = None
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__"))
        if module.partition(".")[0] not in {"distq", "importlib"}:
            line = SourceLine(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return line


def pointed(error: Error, *lines: SourceLine | None) -> Error:
    """Begin an error's message with the lines that it is about, unless it begins with some already."""
    if not error.place and (known := [str(line) for line in lines if line is not None]):
        error.place = ", ".join(known)
        error.args = (f"{error.place}: {error}",)
    return error


@contextmanager
def pointing_to(*lines: SourceLine) -> Iterator[None]:
    """Begin the message of each ConfigError that is raised within with these lines."""
    try:
        yield
    except ConfigError as error:
        raise pointed(error, *lines)  # noqa: B904 - it is the same error


def suggesting_keywords(
    *more: str, remedies: Mapping[str, str] = MappingProxyType({})
) -> Callable[[type[Class]], type[Class]]:
    """Let a class suggest the argument that the user probably meant; ``more`` are those of its ``**``.

    ``remedies`` are for arguments that belong elsewhere. Python 3.13 suggests by itself, for arguments that
    the signature names.
    """

    def decorate(cls: type[Class]) -> type[Class]:
        construct: Callable[..., None] = cls.__init__
        named = inspect.signature(construct).parameters.values()
        known = [one.name for one in named if one.kind is not inspect.Parameter.VAR_KEYWORD][1:]
        known += more

        @functools.wraps(construct)
        def init(self: object, *args: Any, **keywords: Any) -> None:
            try:
                construct(self, *args, **keywords)
            except TypeError:
                for name in keywords:
                    if name not in known:
                        remedy = remedies.get(name) or did_you_mean(name, known)
                        text = f"{cls.__name__}() got an unexpected keyword argument {name!r}. {remedy}"
                        raise TypeError(text.rstrip()) from None  # as Python 3.13 words it
                raise

        cls.__init__ = init  # type: ignore[method-assign]
        return cls

    return decorate
