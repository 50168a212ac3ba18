"""The columns of the tables that ``kubectl get`` asks for.

A definition asks for the columns of its custom resources. Those of a built-in kind are cells by title, in
``built_in_kinds.yaml``: the value at a path (of several, the first that is there), or a function of the table
``CELLS``, of that value as in ``age(spec.time)``, or of the whole object as in ``phase()``. A list has also
what is shown where the value is absent. A column with ``+`` behind its title is shown where there is room;
``#``, ``?`` and ``@`` mark number, boolean, date.
Source: kubernetes pkg/printers/internalversion/printers.go, apiextensions-apiserver
pkg/registry/customresource/tableconvertor, apimachinery meta/table.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import msgspec

from distq.testing.apiserver.cells import CELLS, age
from distq.testing.apiserver.resources import ServedResource
from distq.testing.apiserver.store import Content, value_at

Cell = Callable[[Content], Any]
Column = Mapping[str, Any]
"""What a table has about a column (metav1.TableColumnDefinition)."""

_CALL = re.compile(r"(\w+)\(([\w.|]*)\)")
_TYPES = {"#": "integer", "?": "boolean", "@": "date"}
_OFTEN = {"Age": "age(metadata.creationTimestamp)", "Created At": "metadata.creationTimestamp"}
"""The cells of titles that name none."""
_STEP = re.compile(
    r"\.?(?P<name>(?:\\.|[^.\[\]'\\])+)|\['(?P<quoted>[^']*)'\]|\[(?P<index>-?\d+|\*)\]"
    r"|\[\?\(\s*@\.(?P<field>[^\s=!<>()]+)\s*(?:(?P<compare>==|!=|<=?|>=?)\s*(?P<than>.+?))?\s*\)\]"
)
_COMPARE = {"==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
_ESCAPED = re.compile(r"\\(.)")
_AGE: Mapping[str, Any] = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
"""The column of a definition that has none."""


def columns_of(resource: ServedResource) -> Sequence[tuple[Column, Cell]] | None:
    """Return the columns, each with what makes an object's cell in it; None where they are not known."""
    if resource.custom:
        return list(_custom_columns(resource))
    return _built_in_columns(resource) if "columns" in resource.rules else None


@cache
def _built_in_columns(resource: ServedResource) -> list[tuple[Column, Cell]]:
    return [_built_in_column(title, cell) for title, cell in resource.rules["columns"].items()]


def _built_in_column(title: str, given: Any) -> tuple[Column, Cell]:
    plain = title.removesuffix("+")
    name = plain.rstrip("#?@")
    wanted, absent = given if isinstance(given, list) else (given, None)
    wanted = wanted or _OFTEN.get(name, "metadata.name")
    call = _CALL.fullmatch(wanted)
    show, paths = (CELLS[call[1]], call[2]) if call else (_plain, wanted)

    def make(content: Content) -> Any:
        values = (value_at(content, path) for path in paths.split("|")) if paths else [content]
        value = next((each for each in values if each is not None), None)
        return absent if value is None and absent is not None else show(value)

    kind = _TYPES.get(plain[-1], "string")
    form = "name" if name == "Name" else ""
    return _column(name, kind, form, "", int(plain != title)), make


def _column(name: str, kind: str, form: str, description: str, priority: int) -> Column:
    """Return a column, which ``-o wide`` alone shows where its priority is above 0."""
    return {"name": name, "type": kind, "format": form, "description": description, "priority": priority}


def _plain(value: Any) -> Any:
    return "" if value is None else value


def _custom_columns(resource: ServedResource) -> Iterator[tuple[Column, Cell]]:
    """Yield the name, and the columns that a definition asks for behind it."""
    yield _column("Name", "string", "name", "", 0), lambda content: content["metadata"]["name"]
    for each in resource.columns or (_AGE,):
        path, kind = each["jsonPath"], each["type"]
        described = each.get("description")
        described = described or f"Custom resource definition column (in JSONPath format): {path}"
        column = _column(each["name"], kind, each.get("format", ""), described, each.get("priority", 0))
        yield column, partial(_custom_cell, path, kind)


def _custom_cell(path: str, kind: str, content: Content) -> Any:
    value = next(iter(_find(content, path)), None)
    if value is None:
        return None
    if kind == "string":
        return value if isinstance(value, str) else msgspec.json.encode(value, order="sorted").decode()
    if kind == "date":
        return age(value) if isinstance(value, str) else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if kind == "integer" else value


def _find(content: Content, path: str) -> list[Any]:
    """Return what a JSONPath leads to: names, indices, all of a list, and filters by one field."""
    values: list[Any] = [content]
    for step in _STEP.finditer(path):
        values = [found for value in values for found in _inside(value, step)]
    return values


def _inside(value: Any, step: re.Match[str]) -> Iterator[Any]:
    if isinstance(value, list):
        if step["field"]:
            yield from (each for each in value if _passes(each, step))
        elif step["index"] == "*":
            yield from value
        elif step["index"] and -len(value) <= int(step["index"]) < len(value):
            yield value[int(step["index"])]
    elif isinstance(value, dict):
        name = _ESCAPED.sub(r"\1", step["name"] or step["quoted"] or "")
        if step["index"] == "*":
            yield from value.values()
        elif name in value:
            yield value[name]


def _passes(item: Any, step: re.Match[str]) -> bool:
    found = _find(item, step["field"])
    if not step["compare"] or not found:
        return bool(found)
    text = step["than"]
    than = text[1:-1] if text[0] in "'\"" else msgspec.json.decode(text)
    try:
        return bool(_COMPARE[step["compare"]](found[0], than))
    except TypeError:
        return False
