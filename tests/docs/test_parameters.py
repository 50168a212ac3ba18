"""Docstrings describe each parameter of the classes that programs construct: an editor shows them.

One style, which Sphinx renders: ``:param TYPE NAME: Meaning, unit. Default: VALUE, its meaning.``
"""

import ast
import inspect
import re
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, NamedTuple

import pytest

from distq import Client, Controller, Every, For, Manager, Owns, Queue, Watches
from distq.clock import SYSTEM_CLOCK
from distq.controller import watches
from distq.workqueue import options
from distq.workqueue.options import QueueOptions

CLASSES: tuple[type, ...] = (Controller, Queue, QueueOptions, Manager, For, Owns, Watches, Every, Client)
_ENTRY = re.compile(r"^:param ([^:]+) (\w+):((?:.|\n(?!:))*)", re.MULTILINE)
_SECONDS = re.compile(r"_(timeout|period|duration|after|hold)$|^(timeout|period)$")
"""The names of durations."""


class Parameter(NamedTuple):
    """A parameter as signature or docstring has it."""

    name: str
    type: str
    default: str


def annotations(cls: type) -> dict[str, str]:
    """Return the types of the parameters as they are written in the source."""
    bodies: dict[type, list[type]] = {
        Queue: [Queue, options.QueueKeywords],
        **{cls: [watches._Watch, cls] for cls in (For, Owns, Watches)},
    }
    found: dict[str, str] = {}
    for source in bodies.get(cls, [cls]):
        (tree,) = ast.parse(inspect.getsource(source)).body
        assert isinstance(tree, ast.ClassDef)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                arguments = [*node.args.args[1:], *node.args.kwonlyargs]
                found |= {each.arg: text_of(each.annotation) for each in arguments}
        found |= {
            str(ast.unparse(node.target)): text_of(node.annotation)
            for node in tree.body
            if isinstance(node, ast.AnnAssign)
        }
    return found


def text_of(annotation: ast.expr | None) -> str:
    """Return a type without the quotes that delay its import."""
    assert annotation is not None
    return ast.unparse(annotation).strip("'").replace("'", "")


def of_signature(cls: type) -> list[Parameter]:
    """Return the parameters in their order; those of ``**`` follow."""
    types = annotations(cls)
    factories = {
        each.name: each.default_factory
        for each in (fields(cls) if is_dataclass(cls) else ())
        if each.default_factory is not MISSING
    }
    signature: list[inspect.Parameter] = []
    for each in inspect.signature(cls).parameters.values():
        if each.kind is inspect.Parameter.VAR_KEYWORD:
            signature += inspect.signature(QueueOptions).parameters.values()
        else:
            signature.append(each)
    return [
        Parameter(
            each.name,
            types[each.name],
            written(factories[each.name]() if each.name in factories else each.default),
        )
        for each in signature
    ]


def written(default: Any) -> str:
    """Return a default as docstrings have it."""
    if default is inspect.Parameter.empty:
        return ""
    if isinstance(default, str):
        return f'``"{default}"``'
    if isinstance(default, float):
        return f"{default:g}"
    if default is SYSTEM_CLOCK:
        return "SYSTEM_CLOCK"
    return getattr(default, "__name__", None) or repr(default)


def of_docstring(cls: type) -> list[tuple[Parameter, str]]:
    """Return the parameters that the docstring describes, each with its description."""
    text = inspect.cleandoc(cls.__doc__ or "")
    found = []
    for kind, name, about in _ENTRY.findall(text):
        meaning, _, default = " ".join(about.split()).partition(" Default: ")
        found.append((Parameter(name, kind, re.sub(r"(, .*)?\.$", "", default)), meaning))
    return found


@pytest.mark.parametrize("cls", CLASSES)
def test_each_parameter_has_its_entry(cls: type) -> None:
    """With the type and the default of the signature, in its order."""
    assert [entry for entry, _ in of_docstring(cls)] == of_signature(cls)


@pytest.mark.parametrize("cls", CLASSES)
def test_each_entry_has_its_meaning_and_unit(cls: type) -> None:
    """A sentence; a duration has its unit."""
    for entry, meaning in of_docstring(cls):
        assert re.fullmatch(r"[A-Z].+\.", meaning), (entry.name, meaning)
        if _SECONDS.search(entry.name):
            assert "seconds" in meaning.lower(), entry.name


def test_parameters_of_several_classes_are_described_alike() -> None:
    """A reader who knows one of them knows the others."""
    for group in ((For, Owns, Watches), (Queue, QueueOptions)):
        by_name: dict[str, set[str]] = {}
        for cls in group:
            for entry, meaning in of_docstring(cls):
                by_name.setdefault(entry.name, set()).add(f"{meaning} {entry.default}")
        assert [name for name, texts in by_name.items() if len(texts) > 1] == []
