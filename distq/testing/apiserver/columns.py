"""The columns of tables. Those of built-in kinds are cells by title, in ``built_in_kinds.yaml``.

A cell is the value at a path, or a function of the table ``CELLS``: of that value, as in ``age(spec.time)``,
or of the whole object, as in ``phase()``. A list has also what is shown where the value is absent. A column
with ``+`` behind its title is shown where there is room; ``#``, ``?`` and ``@`` mark number, boolean, date.
Source: kubernetes pkg/printers/internalversion/printers.go.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

from distq.testing.apiserver.cells import CELLS
from distq.testing.apiserver.resources import ServedResource
from distq.testing.apiserver.store import Content, value_at

Cell = Callable[[Content], Any]
_CALL = re.compile(r"(\w+)\(([\w.]*)\)")
_TYPES = {"#": "integer", "?": "boolean", "@": "date"}
_OFTEN = {"Age": "age(metadata.creationTimestamp)", "Created At": "metadata.creationTimestamp"}
"""The cells of titles that name none."""


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
    cells: Callable[[Content], list[Any]]


def columns_of(resource: ServedResource) -> Columns | None:
    """Return the columns of a built-in kind, None where they are not known."""
    return _columns(resource) if "columns" in resource.rules else None


@cache
def _columns(resource: ServedResource) -> Columns:
    given: Mapping[str, Any] = resource.rules["columns"]
    definitions = [_definition(title) for title in given]
    makers = [_cell(each.name, cell) for each, cell in zip(definitions, given.values(), strict=True)]
    return Columns(definitions, lambda content: [make(content) for make in makers])


def _definition(title: str) -> Column:
    plain = title.removesuffix("+")
    name = plain.rstrip("#?@")
    kind = _TYPES.get(plain[-1], "string")
    return Column(name, kind, "name" if name == "Name" else "", priority=int(plain != title))


def _plain(value: Any) -> Any:
    return "" if value is None else value


def _cell(title: str, given: Any) -> Cell:
    wanted, absent = given if isinstance(given, list) else (given, None)
    wanted = wanted or _OFTEN.get(title, "metadata.name")
    call = _CALL.fullmatch(wanted)
    show, path = (CELLS[call[1]], call[2]) if call else (_plain, wanted)

    def make(content: Content) -> Any:
        value = value_at(content, path) if path else content
        return absent if value is None and absent is not None else show(value)

    return make
