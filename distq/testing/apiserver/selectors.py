"""Label and field selectors.

Source: apimachinery pkg/labels and pkg/fields.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from distq.errors import ConfigError
from distq.informer.selectors import label_selector
from distq.testing.apiserver.resources import ANY_FIELD, ServedResource
from distq.testing.apiserver.status import bad_request
from distq.testing.apiserver.store import Content, Stored, value_at

Labels = Mapping[str, str]
Requirement = Callable[[Content], bool]

_EQUALITY = re.compile(r"^([^\s=!]+)\s*(==|=|!=)\s*([^\s=!]*)$")


class Selector:
    """What a list or watch asks for: the objects of a namespace, or all, that meet each requirement."""

    def __init__(
        self, resource: ServedResource, namespace: str = "", labels: str = "", fields: str = ""
    ) -> None:
        self.prefix = f"{namespace}/" if namespace else ""
        self._requirements = [*_label_requirements(labels), *_field_requirements(resource, fields)]

        named = bool(namespace) or not resource.namespaced
        self.of_one = named and any(_names_one(part.strip()) for part in fields.split(","))
        """Whether it asks for one object by its name, which is looked up alone."""

    @property
    def selective(self) -> bool:
        """Return whether there is more to it than the namespace."""
        return bool(self._requirements)

    def matches(self, stored: Stored) -> bool:
        """Return whether the object is asked for."""
        return stored.key.startswith(self.prefix) and all(
            requirement(stored.content) for requirement in self._requirements
        )


def _label_requirements(text: str) -> list[Requirement]:
    try:
        matches = label_selector(text)
    except ConfigError as error:
        raise bad_request(f"unable to parse requirement: {error}") from None
    return [lambda content: matches(_labels(content))] if text.strip() else []


def _labels(content: Content) -> Labels:
    labels: Labels = content["metadata"].get("labels") or {}
    return labels


def _field_requirements(resource: ServedResource, text: str) -> list[Requirement]:
    return [_field_requirement(resource, part.strip()) for part in text.split(",") if part.strip()]


def _field_requirement(resource: ServedResource, text: str) -> Requirement:
    match = _EQUALITY.match(text)
    if match is None:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{text}'")
    path, operator, value = match.groups()
    if path not in resource.fields:
        if resource.kind == "Job":
            raise bad_request(f'field label "{path}" not supported for Job')
        if resource.fields != ANY_FIELD or resource.custom:
            raise bad_request(f"field label not supported: {path}")
        known = ", ".join(f'"{each}"' for each in ANY_FIELD)
        raise bad_request(f'"{path}" is not a known field selector: only {known}')
    steps = path.split(".")
    if operator == "!=":
        return lambda content: field_text(content, steps) != value
    return lambda content: field_text(content, steps) == value


def _names_one(text: str) -> bool:
    match = _EQUALITY.match(text)
    return match is not None and match[1] == "metadata.name" and match[2] != "!=" and match[3] != ""


def field_text(content: Content, steps: list[str]) -> str:
    """Return a field as selectors compare it: absent is empty, booleans are lower case."""
    value = value_at(content, steps)
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


_OPERATORS = {
    "In": "{key} in ({values})",
    "NotIn": "{key} notin ({values})",
    "Exists": "{key}",
    "DoesNotExist": "!{key}",
}


def text_of_label_selector(selector: Mapping[str, Any]) -> str:
    """Return a selector that an object holds (metav1.LabelSelector) as queries write it."""
    wanted = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for each in selector.get("matchExpressions") or ():
        values = ",".join(sorted(each.get("values") or ()))
        wanted.append((each["key"], _OPERATORS[each["operator"]].format(key=each["key"], values=values)))
    return ",".join(text for _, text in sorted(wanted, key=lambda each: each[0]))
