"""What goes together when it is said who gets in."""

from pathlib import Path
from typing import Any

import pytest

from distq import dashboard
from distq.dashboard import AccessPolicy
from distq.dashboard.proxies import parse_network
from distq.dashboard.users import Person, Users
from distq.errors import ConfigError
from tests.dashboard.test_users import UNMATCHED_HASH, file_of

PROXY: dict[str, Any] = {
    "trusted_header": "X-Forwarded-User",
    "trusted_proxies": [parse_network("10.0.0.0/8")],
}


@pytest.fixture
def users(tmp_path: Path) -> Users:
    """Give a file with an operator with a password, and a viewer whom a proxy names."""
    return Users(file_of(tmp_path, f"ada:operator:{UNMATCHED_HASH}", "bob:viewer"))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "10.1.2.3", "example.com"])  # noqa: S104 - refused
def test_without_a_login_only_loopback_is_bound(host: str, users: Users) -> None:
    """Any address that others could reach is refused in a line that names the ways round, as a login."""
    for policy in (AccessPolicy(), AccessPolicy(actions=True)):
        with pytest.raises(
            ConfigError,
            match=r"^cannot bind the dashboard to .*: .* loopback only\. .*--users .*port-forward.*$",
        ):
            policy.require_bindable(host)
        policy.require_bindable("127.0.0.1")
    AccessPolicy(users=users).require_bindable(host)
    AccessPolicy(**PROXY, header_role="viewer").require_bindable(host)


@pytest.mark.parametrize(
    ("choices", "why"),
    [
        ({"actions": True, "read_only": True}, "read-only"),
        ({"actions": True, **PROXY, "header_role": "viewer"}, "has a login, whose users have roles"),
        ({"trusted_header": "X-Forwarded-User", "header_role": "viewer"}, "from every client"),
        ({**PROXY}, "without roles"),
        ({"header_role": "operator"}, "the role has no use"),
        ({**PROXY, "trusted_header": "X User", "header_role": "viewer"}, "bad header"),
        ({"url_prefix": "/a/../b"}, "bad URL prefix"),
        ({"url_prefix": "distq"}, "bad URL prefix"),
        ({"url_prefix": "//evil.example"}, "bad URL prefix"),
        ({"url_prefix": "/a%2e%2e"}, "bad URL prefix"),
        ({"url_prefix": "/a\r\nSet-Cookie: x"}, "bad URL prefix"),
        ({"allowed_hosts": ["https://a.example"]}, "bad host"),
        ({"allowed_hosts": ["*"]}, "bad host"),
        ({"allowed_hosts": ["a" * 254]}, "bad host"),
        ({"secret": b"short"}, "bad secret: 5 bytes"),
    ],
)
def test_options_that_do_not_go_together_are_refused(choices: dict[str, Any], why: str) -> None:
    """A dashboard that would let in no user, or every one, is not started."""
    with pytest.raises(ConfigError, match=why):
        AccessPolicy(**choices)


def test_users_without_passwords_need_a_proxy(tmp_path: Path) -> None:
    """Without any hash no user can log in, unless a proxy names people."""
    no_passwords = Users(file_of(tmp_path, "bob:viewer"))
    with pytest.raises(ConfigError, match="no user can log in"):
        AccessPolicy(users=no_passwords)
    assert not AccessPolicy(users=no_passwords, **PROXY).asks_for_passwords


def test_roles_are_the_files_then_the_given_one(users: Users) -> None:
    """A proxy's name has its line's role, else the role for all, else none; odd names have none."""
    strict, open_to_all = (
        AccessPolicy(users=users, **PROXY),
        AccessPolicy(users=users, **PROXY, header_role="viewer"),
    )
    assert strict.named_by_proxy("ada") == Person("ada", "operator")
    assert strict.named_by_proxy("eve") is None
    assert open_to_all.named_by_proxy("eve") == Person("eve", "viewer")
    for name in ("", "eve, ada", "ada:operator", "a\nb", "x" * 65):
        assert open_to_all.named_by_proxy(name) is None, name


def test_read_only_is_stronger_than_a_role(users: Users) -> None:
    """With it no user can repair; without it operators can, and viewers cannot."""
    ada, eve = Person("ada", "operator"), Person("eve", "viewer")
    assert [AccessPolicy(users=users).may_repair(each) for each in (ada, eve)] == [True, False]
    assert not AccessPolicy(users=users, read_only=True).may_repair(ada)
    assert AccessPolicy(actions=True).may_repair(AccessPolicy(actions=True).anonymous())
    assert not AccessPolicy().may_repair(AccessPolicy().anonymous())


def test_the_secret_is_in_no_text(users: Users) -> None:
    """Neither a repr nor the line at the start shows what signs sessions."""
    policy = AccessPolicy(users=users, secret=b"correct-horse-battery")
    assert "correct" not in repr(policy) + str(policy)
    assert str(policy) == "repairs allowed, with a login"
    assert str(AccessPolicy()) == "read-only, no login: loopback only"


def test_the_old_name_works_for_one_version() -> None:
    """With a warning, from the module that exports it."""
    with pytest.warns(DeprecationWarning, match=r"^Gate is AccessPolicy now\.$"):
        assert dashboard.Gate is AccessPolicy
