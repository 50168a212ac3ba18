"""Causes of a refusal, in the server's words.

Source: apimachinery pkg/util/validation/field.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from distq.testing.apiserver.names import Form, label_key, label_value

Cause = tuple[str, str, str]
"""Reason, field and message, as ``status.invalid`` takes them."""
Fields = dict[str, Any]
Rule = Callable[[Fields, str], Iterator[Cause]]
"""Yields what is wrong with the fields of a type; the text is the path to them, with a dot behind it."""

GO_TYPES = {str: "string", bool: "bool", int: "int64", float: "float64", type(None): "<nil>"}
GO_TYPES |= {dict: "map[string]interface {}", list: "[]interface {}"}
"""The types of values as Go prints them."""


def go_text(value: Any) -> str:
    """Return a value as Go prints it."""
    if value is None:
        return "<nil>"
    return str(value).lower() if isinstance(value, bool) else str(value)


def json_text(value: Any, *, sort: bool = False) -> str:
    """Return a value as JSON; with ``sort`` equal ones have equal texts."""
    return msgspec.json.encode(value, order="sorted" if sort else None).decode()


def required(path: str, detail: str = "") -> Cause:
    """Return the cause that a value is missing."""
    return "FieldValueRequired", path, f"Required value{': ' if detail else ''}{detail}"


def wrong(path: str, value: Any, rule: str) -> Cause:
    """Return the cause that a value breaks a rule."""
    shown = value if isinstance(value, int) else json_text(value, sort=True)
    return "FieldValueInvalid", path, f"Invalid value: {shown}: {rule}"


def forbidden(path: str, rule: str) -> Cause:
    """Return the cause that a field may not be so, with any value."""
    return "FieldValueForbidden", path, f"Forbidden: {rule}"


def too_long(path: str, most: int) -> Cause:
    """Return the cause that a value is of more bytes than it may be."""
    return "FieldValueTooLong", path, f"Too long: may not be more than {most} bytes"


def misformed(path: str, text: str, form: Form) -> Iterator[Cause]:
    """Yield what is wrong with a text that is to be of a form."""
    for rule in form(text):
        yield wrong(path, text, rule)


def misformed_labels(path: str, labels: Mapping[str, str]) -> Iterator[Cause]:
    """Yield what is wrong with labels."""
    for key, value in labels.items():
        yield from misformed(path, key, label_key)
        yield from misformed(path, value, label_value)


def unsupported(path: str, value: Any, supported: Sequence[str]) -> Iterator[Cause]:
    """Yield the cause that a value is none of those that there are, if so."""
    if value not in supported:
        yield no_choice(path, f'"{value}"', supported)


def no_choice(path: str, shown: str, supported: Sequence[Any]) -> Cause:
    """Return the cause that a value, as it is shown, is none of those that there are."""
    listed = ", ".join(map(json_text, supported))
    return "FieldValueNotSupported", path, f"Unsupported value: {shown}: supported values: {listed}"


def surplus(before: str, chosen: Iterable[str], what: str) -> Iterator[Cause]:
    """Yield a cause for each field beyond the first, where one of them may be chosen."""
    for field in sorted(chosen)[1:]:
        yield forbidden(f"{before}{field}", f"may not specify more than 1 {what}")


def duplicates(paths_and_values: Iterable[tuple[str, str]]) -> Iterator[Cause]:
    """Yield a cause for each value, as it is shown, that came before."""
    known: set[str] = set()
    for path, shown in paths_and_values:
        if shown in known:
            yield "FieldValueDuplicate", path, f"Duplicate value: {shown}"
        known.add(shown)


def repeated(paths_and_texts: Iterable[tuple[str, str]]) -> Iterator[Cause]:
    """Yield a cause for each text that came before; empty ones are none."""
    return duplicates((path, f'"{text}"') for path, text in paths_and_texts if text)
