"""Whether a custom resource keeps to its schema, in the words of the real server.

Source: kube-openapi pkg/validation/{strfmt,validate}, apiextensions-apiserver pkg/apiserver/validation.
"""

import base64
import ipaddress
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from datetime import date, datetime
from email.utils import parseaddr
from itertools import chain
from typing import Any
from urllib.parse import urlsplit

from distq.testing.apiserver.causes import Cause, duplicates, json_text, no_choice, required, too_long
from distq.testing.apiserver.resources import INT_OR_STRING, Schema
from distq.testing.apiserver.structural import EMBEDDED, same_value

_NOWHERE = "<nil>"
"""The field of messages that name it in their text."""
_TYPE_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
_INTEGER_BITS = {"int32": 32, "int64": 64}
_HOST = re.compile(
    r"([A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?\.?"
)
_MAC = re.compile(  # of 6, 8 or 20 octets; source: Go net.ParseMAC, of which older ones want separators
    r"H{2}([:-])H{2}(\1H{2}){4}((\1H{2}){2}|(\1H{2}){14})?|H{4}(\.H{4}){2}(\.H{4}|(\.H{4}){7})?|H{12}|H{16}|H{40}".replace(
        "H", "[0-9A-Fa-f]"
    )
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_GO_DURATION = re.compile(r"[+-]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)")
_WORDY_DURATION = re.compile(
    r"\d+\s*(ns|us|µs|ms|s|m|h|d|w|(nano|micro|milli)?(sec(ond)?|min(ute)?|hour|day|week)s?)"
)


def violations(schema: Schema, new: Any, old: Any = None, path: str = "") -> Iterator[Cause]:
    """Yield what is wrong with a value that was another one before (None: there was none)."""
    if old is not None and same_value(new, old):
        return  # a stricter schema stops no write of other fields (ratcheting)
    if new is None and schema.get("nullable"):
        return
    yield from _types(schema, new, path)
    yield from _alternatives(schema, new, path)
    if isinstance(new, str):
        yield from _texts(schema, new, path)
    elif isinstance(new, int | float) and not isinstance(new, bool):
        yield from _numbers(schema, new, path)
    elif isinstance(new, list):
        yield from _lists(schema, new, path)
    yield from _choices(schema, new, path)
    if isinstance(new, dict):
        yield from _objects(schema, new, path)
        yield from _fields(schema, new, old, path)
    elif isinstance(new, list):
        yield from _items(schema, new, old, path)


def _fields(schema: Schema, new: dict[str, Any], old: Any, path: str) -> Iterator[Cause]:
    before = old if isinstance(old, dict) else {}
    properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, value in new.items():
        inner = properties.get(name, additional)
        if isinstance(inner, dict):
            yield from violations(inner, value, before.get(name), f"{path}.{name}" if path else name)


def _items(schema: Schema, new: list[Any], old: Any, path: str) -> Iterator[Cause]:
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    # without keys no item is known to be the one that was there before
    before = {_key(each, keys): each for each in old} if keys and isinstance(old, list) else {}
    inner = schema.get("items") or {}
    for index, value in enumerate(new):
        yield from violations(inner, value, before.get(_key(value, keys)), f"{path}[{index}]")


def _types(schema: Schema, value: Any, path: str) -> Iterator[Cause]:
    wanted = [schema["type"]] if "type" in schema else []
    wanted = ["integer", "string"] if schema.get(INT_OR_STRING) else wanted
    found = _TYPE_NAMES.get(type(value), "null")
    if not wanted or found in wanted or (found == "integer" and "number" in wanted):
        return
    cause = f'{path} in body must be of type {",".join(wanted)}: "{found}"'
    yield "FieldValueTypeInvalid", path, f'Invalid value: "{found}": {cause}'


def _objects(schema: Schema, value: dict[str, Any], path: str) -> Iterator[Cause]:
    yield from _counts(schema, value, path, "properties")
    embedded = ["apiVersion", "kind"] if schema.get(EMBEDDED) else []
    for name in [*embedded, *(schema.get("required") or ())]:
        if name not in value:
            yield required(f"{path}.{name}" if path else name)


def _alternatives(schema: Schema, value: Any, path: str) -> Iterator[Cause]:
    any_of, one_of, all_of = (
        [list(violations(each, value, path=path)) for each in schema.get(word) or ()]
        for word in ("anyOf", "oneOf", "allOf")
    )
    if any_of and all(any_of):
        yield _said(f'"{path}" must validate at least one schema (anyOf)')
        yield from any_of[0]
    valid = one_of.count([])
    if one_of and valid != 1:
        how_many = f"Found {valid} valid alternatives" if valid else "Found none valid"
        yield _said(f'"{path}" must validate one and only one schema (oneOf). {how_many}')
        yield from [] if valid else one_of[0]
    yield from chain(*all_of)
    if any(all_of):
        none = ". None validated" if all(all_of) else ""
        yield _said(f'"{path}" must validate all the schemas (allOf){none}')
    if "not" in schema and not list(violations(schema["not"], value, path=path)):
        yield _said(f'"{path}" must not validate the schema (not)')


def _texts(schema: Schema, value: str, path: str) -> Iterator[Cause]:
    most, least, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    if most is not None and len(value) > most:
        yield too_long(path, most)
    elif least is not None and len(value) < least:
        yield _bad(path, value, f"should be at least {least} chars long")
    elif pattern is not None and not re.search(pattern, value):
        yield _bad(path, value, f"should match '{pattern}'")
    if not _is_of_format(value, schema.get("format", "")):
        rule = f"must be of type {schema['format']}: {json_text(value)}"
        yield _bad(path, value, rule, "FieldValueTypeInvalid")


def _numbers(schema: Schema, value: float, path: str) -> Iterator[Cause]:
    if schema.get("type") == "integer":
        yield from _integers(schema.get("format", ""), value, path)
    factor, most, least = schema.get("multipleOf"), schema.get("maximum"), schema.get("minimum")
    if factor is not None and value % factor:
        yield _bad(path, value, f"should be a multiple of {json_text(factor)}")
    if most is not None and (value >= most if schema.get("exclusiveMaximum") else value > most):
        relation = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        yield _bad(path, value, f"should be {relation} {json_text(most)}")
    if least is not None and (value <= least if schema.get("exclusiveMinimum") else value < least):
        relation = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        yield _bad(path, value, f"should be {relation} {json_text(least)}")


def _integers(name: str, value: float, path: str) -> Iterator[Cause]:
    bits = _INTEGER_BITS.get(name)
    size = f"with format {name}" if bits else "(default format)"
    limit = 2 ** ((bits or 64) - 1)
    if value % 1 or not -limit <= value < limit:
        yield _said(f"Checked value must be of type integer {size} in {path}")


def _lists(schema: Schema, value: list[Any], path: str) -> Iterator[Cause]:
    yield from _counts(schema, value, path, "items")
    if schema.get("x-kubernetes-list-type") in {"set", "map"}:
        names = schema.get("x-kubernetes-list-map-keys") or ()
        shown = [(f"{path}[{index}]", _key(each, names)) for index, each in enumerate(value)]
        yield from duplicates(shown)


def _counts(schema: Schema, value: Sized, path: str, what: str) -> Iterator[Cause]:
    most, least = schema.get(f"max{what.capitalize()}"), schema.get(f"min{what.capitalize()}")
    if least is not None and len(value) < least:
        yield _bad(path, len(value), f"should have at least {least} {what}")
    if most is not None and len(value) > most:
        yield "FieldValueTooMany", path, f"Too many: {len(value)}: must have at most {most} items"


def _choices(schema: Schema, value: Any, path: str) -> Iterator[Cause]:
    supported = schema.get("enum")
    if supported is not None and not any(value == each and type(value) is type(each) for each in supported):
        yield no_choice(path, json_text(value), supported)


def _bad(path: str, value: Any, rule: str, reason: str = "FieldValueInvalid") -> Cause:
    return reason, path, f"Invalid value: {json_text(value)}: {path} in body {rule}"


def _said(message: str) -> Cause:
    return "FieldValueInvalid", _NOWHERE, f'Invalid value: "": {message}'


def _key(item: Any, names: Sequence[str]) -> str:
    if names and isinstance(item, dict):
        item = {name: item[name] for name in names if name in item}
    return json_text(item, sort=True)


def _is_of_format(text: str, name: str) -> bool:
    """Return whether a text is of the format; of one that is not known, it is."""
    try:
        return name not in _FORMATS or _FORMATS[name](text)
    except ValueError:
        return False


def _is_date_time(text: str) -> bool:
    return bool(_DATE_TIME.fullmatch(text) and datetime.fromisoformat(text[:19].upper()))


def _is_bytes(text: str) -> bool:
    base64.b64decode("".join(text.splitlines()), validate=True)
    return True


def _is_email(text: str) -> bool:
    address = parseaddr(text)[1]
    return "@" in address and " " not in address


_FORMATS: Mapping[str, Callable[[str], bool]] = {
    "byte": _is_bytes,
    "cidr": lambda text: "/" in text and bool(ipaddress.ip_interface(text)),
    "date": lambda text: bool(_DATE.fullmatch(text) and date.fromisoformat(text)),
    "date-time": _is_date_time,
    "datetime": _is_date_time,
    "duration": lambda text: bool(_GO_DURATION.fullmatch(text) or _WORDY_DURATION.fullmatch(text.lower())),
    "email": _is_email,
    "hostname": lambda text: bool(_HOST.fullmatch(text)),
    "ipv4": lambda text: bool(ipaddress.IPv4Address(text)),
    "ipv6": lambda text: bool(ipaddress.IPv6Address(text)),
    "mac": lambda text: bool(_MAC.fullmatch(text)),
    "uri": lambda text: bool(text.startswith("/") or urlsplit(text).scheme),
    "uuid": lambda text: bool(uuid.UUID(text)),
}
