"""Fields of built-in kinds that an update cannot change.

Where the real server quotes a difference, or a value by Go's names, the message
has the JSON instead.
Source: kubernetes pkg/apis/*/validation (ValidateUpdate).
"""

from collections.abc import Collection, Iterator
from typing import Any

from distq.testing.apiserver.built_in_kinds import names_in
from distq.testing.apiserver.causes import Cause, forbidden, wrong
from distq.testing.apiserver.resources import ServedResource
from distq.testing.apiserver.store import Content, value_at


def changes_of_immutable(resource: ServedResource, new: Content, old: Content) -> Iterator[Cause]:
    """Yield what an update changes that stays as it was created."""
    rules = resource.rules
    for path in names_in(rules, "fixed"):
        value, before = value_at(new, path), value_at(old, path)
        if value != before and before is not None:
            yield wrong(path, value, "field is immutable")
    for path, message in rules.get("forbidden", {}).items():
        if value_at(new, path) != value_at(old, path):
            yield forbidden(path, message)
    if "roleRef" in new and new["roleRef"] != old["roleRef"]:
        yield wrong("roleRef", new["roleRef"], "cannot change roleRef")
    changeable = names_in(rules, "changeable")
    if changeable and _fixed(new["spec"], changeable) != _fixed(old["spec"], changeable):
        yield forbidden("spec", rules["immutable"])


def _fixed(spec: dict[str, Any], changeable: Collection[str]) -> dict[str, Any]:
    return {name: _without_images(each) for name, each in spec.items() if name not in changeable}


def _without_images(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return [
        {k: v for k, v in each.items() if k != "image"} if isinstance(each, dict) else each for each in value
    ]
