"""The names that ``docs/reference/api.md`` shows, with the members of classes: what semver is about.

``python -m tests.docs.released_names`` writes those of this version, when it is released, to
``docs/reference/names``. Sphinx marks names that no earlier release had.
"""

import importlib
import inspect

import distq
from tests import ROOT
from tests.docs.test_api_page import SHOWN, WHOLE

FOLDER = ROOT / "docs" / "reference" / "names"


def names() -> set[str]:
    """Return the names, those of members behind the name of their class."""
    shown = SHOWN | {f"{module}.{name}" for module in WHOLE for name in _defined(module)}
    return {each for name in shown for each in (name, *_members(name))}


def _defined(module: str) -> list[str]:
    found = vars(importlib.import_module(module))
    return [name for name, value in found.items() if getattr(value, "__module__", "") == module]


def _members(name: str) -> set[str]:
    module, _, attribute = name.rpartition(".")
    value = getattr(importlib.import_module(module), attribute)
    if not inspect.isclass(value):
        return set()
    fields = {field for parent in value.__mro__ for field in getattr(parent, "__annotations__", ())}
    members = (fields | set(dir(value))) - set(dir(Exception))
    return {f"{name}.{member}" for member in members if member[0] != "_"}


if __name__ == "__main__":
    text = "\n".join(sorted(name for name in names() if not name.rpartition(".")[2].startswith("_")))
    (FOLDER / f"{distq.__version__}.txt").write_text(f"{text}\n")
