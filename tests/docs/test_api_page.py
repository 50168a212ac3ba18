"""``docs/reference/api.md`` shows every name that the public modules export."""

import importlib
import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "api.md").read_text()
SHOWN = set(
    re.findall(r"^\.\. (?:auto(?:class|exception|function|data)|py:data):: (\S+)$", PAGE, re.MULTILINE)
)
WHOLE = set(re.findall(r"^\.\. automodule:: (\S+)\n   :members:", PAGE, re.MULTILINE))
"""The modules of which all members are shown."""

MODULES = (
    "distq",
    "distq.workqueue",
    "distq.informer",
    "distq.leaderelection",
    "distq.inspector",
    "distq.testing",
)


@pytest.mark.parametrize("module", MODULES)
def test_each_exported_name_is_shown(module: str) -> None:
    """By the module that exports it, or by another that exports the same."""
    shown = {id(found) for name in SHOWN for found in [resolve(name)]}
    exported = importlib.import_module(module).__all__
    missing = [
        name
        for name in exported
        if f"{module}.{name}" not in SHOWN
        and id(value := getattr(importlib.import_module(module), name)) not in shown
        and getattr(value, "__module__", "") not in WHOLE
    ]
    assert missing == []


def test_modules_shown_whole_are_there() -> None:
    """Errors and the metrics providers need no list of their names."""
    assert {"distq.errors", "distq.prometheus", "distq.opentelemetry"} <= WHOLE


def test_each_predicate_is_shown() -> None:
    """All but what combines them inside."""
    module = importlib.import_module("distq.controller.predicate")
    inside = {"predicate_of", "all_of"}
    own = {
        name
        for name, value in vars(module).items()
        if name[0] != "_" and (isinstance(value, module.Predicate) or is_of(value, module.__name__))
    }
    assert {f"{module.__name__}.{name}" for name in own - inside} <= SHOWN


def is_of(value: object, module: str) -> bool:
    """Return whether a function or class is defined in the module."""
    return callable(value) and getattr(value, "__module__", "") == module


def resolve(name: str) -> object:
    """Return what a directive names."""
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)
