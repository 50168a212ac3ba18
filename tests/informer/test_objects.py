"""Versions are ordered as digits of any length; keys are namespace/name."""

import pytest

from distq.informer.objects import is_older, key_of


@pytest.mark.parametrize(
    ("version", "than", "older"),
    [
        ("9", "10", True),
        ("10", "9", False),
        ("10", "10", False),
        ("9007199254740992", "9007199254740993", True),
        ("340282366920938463463374607431768211454", "340282366920938463463374607431768211455", True),
        ("abc", "abd", False),
        ("", "10", False),
    ],
)
def test_versions_compare_as_numbers_of_any_length(version: str, than: str, older: bool) -> None:
    """Also beyond 2^53; a text that is no number has no order."""
    assert is_older(version, than) is older


def test_a_key_is_namespace_and_name() -> None:
    """A cluster-scoped object's key is its name."""
    assert key_of({"name": "web", "namespace": "prod"}) == "prod/web"
    assert key_of({"name": "node-1"}) == "node-1"
