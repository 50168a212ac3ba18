"""Label and field selectors.

Source: apimachinery pkg/labels and pkg/fields.
"""

import re
from collections.abc import Mapping
from typing import Any

from distq.errors import ConfigError
from distq.informer.selectors import label_selector
from distq.testing.apiserver.causes import go_text
from distq.testing.apiserver.resources import ANY_FIELD, ServedResource
from distq.testing.apiserver.status import bad_request
from distq.testing.apiserver.store import Stored, value_at

_EQUALITY = re.compile(r"^([^\s=!]+)\s*(==|=|!=)\s*([^\s=!]*)$")


class Selector:
    """What a list or watch asks for: the objects of a namespace, or all, with these labels and fields."""

    def __init__(
        self, resource: ServedResource, namespace: str = "", labels: str = "", fields: str = ""
    ) -> None:
        self.identity = resource.identity
        self.prefix = f"{namespace}/" if namespace else ""
        try:
            self._has_labels = label_selector(labels)
        except ConfigError as error:
            raise bad_request(f"unable to parse requirement: {error}") from None
        self._fields = [_field(resource, part.strip()) for part in fields.split(",") if part.strip()]
        self.selective = bool(labels.strip() or self._fields)
        """Whether there is more to it than the namespace."""
        self.of_one = (bool(namespace) or not resource.namespaced) and any(
            path == ["metadata", "name"] and is_equal and value for path, is_equal, value in self._fields
        )
        """Whether it asks for one object by its name, which is looked up alone."""

    def matches(self, stored: Stored) -> bool:
        """Return whether the object is asked for."""
        return (
            stored.key.startswith(self.prefix)
            and self._has_labels(stored.metadata.get("labels") or {})
            and all(
                (go_text(value_at(stored.content, path, "")) == value) is is_equal
                for path, is_equal, value in self._fields
            )
        )


def _field(resource: ServedResource, text: str) -> tuple[list[str], bool, str]:
    """Return the path of a field, whether it is to be equal or not, and to what."""
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
    return path.split("."), operator != "!=", value


_OPERATORS = {"In": "{key} in ({values})", "NotIn": "{key} notin ({values})"}
_OPERATORS |= {"Exists": "{key}", "DoesNotExist": "!{key}"}


def text_of_label_selector(selector: Mapping[str, Any]) -> str:
    """Return a selector that an object holds (metav1.LabelSelector) as queries write it."""
    wanted = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for each in selector.get("matchExpressions") or ():
        values = ",".join(sorted(each.get("values") or ()))
        wanted.append((each["key"], _OPERATORS[each["operator"]].format(key=each["key"], values=values)))
    return ",".join(text for _, text in sorted(wanted, key=lambda each: each[0]))
