"""The name and namespace of the Lease are checked where they are written, not by the API server for ever."""

import pytest

from distq.config import Settings, lease_name
from distq.errors import ConfigError


@pytest.mark.parametrize(
    "bad", ["", "My Lease", "my_lease", "-lease", "lease-", "a..b", "lease\n", "é", "x" * 254, 5]
)
def test_a_name_that_no_lease_can_have_is_refused(bad: object) -> None:
    """An object's name is a DNS subdomain."""
    with pytest.raises(ConfigError, match=r"bad lease_name: .* Use small letters, digits, dots and dashes"):
        Settings(lease_name=bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", ["", "Team", "a.b", "team-", "x" * 64])
def test_a_namespace_that_no_cluster_has_is_refused(bad: str) -> None:
    """A namespace's name is a DNS label."""
    with pytest.raises(ConfigError, match=r"bad lease_namespace: .* Use small letters, digits and dashes"):
        Settings(lease_namespace=bad)


@pytest.mark.parametrize(
    "name", ["a", "9", "foos.example.com", "x" * 253, lease_name("my.module:FOO", "A_b")]
)
def test_each_name_that_a_lease_can_have_is_taken(name: str) -> None:
    """Those that distq makes itself among them."""
    assert Settings(lease_name=name, lease_namespace="team-a").lease_name == name
