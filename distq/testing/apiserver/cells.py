"""What the columns of kinds are made of."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from distq.testing.apiserver.durations import age
from distq.testing.apiserver.selectors import text_of_label_selector
from distq.testing.apiserver.store import Content

Cells = list[Any]
_TYPES = {"#": "integer", "?": "boolean"}


class Column(NamedTuple):
    """A column of a table (metav1.TableColumnDefinition)."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    """Above 0 it is shown by ``-o wide`` alone."""


class Columns(NamedTuple):
    """The columns of a kind, and what makes an object's cells."""

    definitions: list[Column]
    cells: Callable[[Content], Cells]


def columns(names: str, cells: Callable[[Content], Cells]) -> Columns:
    """Read names between bars: behind ``*`` shown where there is room, before ``#`` and ``?`` no text."""
    definitions = []
    for text in names.split("|"):
        kind = _TYPES.get(text[-1], "string")
        name = text.strip("*#?")
        form = "name" if name == "Name" else ""
        definitions.append(Column(name, kind, form, priority=int(text.startswith("*"))))
    return Columns(definitions, cells)


def value_at(content: Content, path: str, absent: Any = None) -> Any:
    """Return the value at a path with dots, or else ``absent``."""
    value: Any = content
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return absent if value is None else value


def name_of(content: Content) -> str:
    """Return an object's name."""
    name: str = content["metadata"]["name"]
    return name


def age_of(content: Content) -> str:
    """Return how old an object is."""
    return age(content["metadata"].get("creationTimestamp"))


def labels_text(labels: Mapping[str, str] | None) -> str:
    """Return labels in one line."""
    return ",".join(f"{name}={value}" for name, value in sorted((labels or {}).items())) or "<none>"


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """Return a label selector in one line."""
    return text_of_label_selector(selector or {}) or "<none>"


def container_cells(template: Content) -> Cells:
    """Return the names of a template's containers, and their images."""
    containers = value_at(template, "spec.containers", [])
    return [",".join(each[field] for each in containers) for field in ("name", "image")]
