"""What differs from kind to kind, and from type to type: the YAML beside this module."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

Rules = Mapping[str, Any]
"""What the file has of a kind, or of a type."""
_FILE = Path(__file__).with_name("built_in_kinds.yaml")


@cache
def built_in() -> Mapping[str, Mapping[str, Any]]:
    """Return the kinds, the subresources and the types."""
    content: Mapping[str, Mapping[str, Any]] = msgspec.yaml.decode(_FILE.read_bytes())
    return content


def rules_of(name: str) -> Rules:
    """Return the rules of a type, by its name in the schemas, empty where it has none."""
    rules: Rules = built_in()["types"].get(name, {})
    return rules


def names_in(rules: Rules, key: str) -> list[str]:
    """Return the names that rules list under a key."""
    return str(rules.get(key, "")).split()
