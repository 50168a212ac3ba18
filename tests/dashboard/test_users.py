"""The users file: what it may hold, and how a password is checked."""

import logging
import re
from pathlib import Path

import pytest

from distq.dashboard import users as users_module
from distq.dashboard.users import Person, Users, hash_password
from distq.errors import ConfigError

UNMATCHED_HASH = "scrypt:32768:8:1$saltsalt$" + "0" * 128
"""A hash of no password."""


def file_of(folder: Path, *lines: str) -> Path:
    """Write a users file."""
    path = folder / "users"
    path.write_text("\n".join(lines))
    return path


def test_a_user_with_the_right_password_is_let_in(tmp_path: Path) -> None:
    """Name and password are a person with a role; all else is none."""
    hashed = hash_password("correct horse")
    users = Users(
        file_of(
            tmp_path,
            "# people",
            "",
            f"ada:operator:{hashed}",
            f"bob:viewer:{UNMATCHED_HASH}",
            "proxied:operator",
        )
    )
    assert users.check("ada", "correct horse") == Person("ada", "operator")
    for name, password in (
        ("ada", "wrong"),
        ("ada", ""),
        ("bob", "correct horse"),
        ("proxied", "correct horse"),
        ("proxied", ""),
        ("unknown", "correct horse"),
        ("", ""),
    ):
        assert users.check(name, password) is None, name
    assert users.person("proxied") == Person("proxied", "operator")
    assert users.person("unknown") is None


def test_the_names_that_roles_had_are_taken(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A file of 0.1.0 lets the same people in, with a warning for each old name."""
    users = Users(
        file_of(
            tmp_path, f"ada:repair:{UNMATCHED_HASH}", f"bob:see:{UNMATCHED_HASH}", f"eve:see:{UNMATCHED_HASH}"
        )
    )
    assert users.person("ada") == Person("ada", "operator")
    assert users.person("bob") == Person("bob", "viewer")
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == 2
    assert warnings[0].endswith('the role "repair" is "operator" now. Rename it.')


def test_hashes_are_salted_and_slow() -> None:
    """The same password has another hash each time, by scrypt with at least 32 MB; none has none."""
    first, second = hash_password("a"), hash_password("a")
    assert first != second
    cost, block, _ = map(int, re.findall(r"\d+", first.partition("$")[0]))
    assert cost * block * 128 >= 32 * 1024 * 1024
    for bad in ("", "x" * 1025, "\udcff"):
        with pytest.raises(ConfigError, match="bad password"):
            hash_password(bad)


def test_an_unknown_name_costs_as_much_as_a_wrong_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every try hashes once by each cost of the file, in one order, so that its time reveals no name."""
    costs = {"ada": "scrypt:32768:8:1", "bob": "scrypt:131072:8:3", "eve": "scrypt:32768:8:2"}
    lines = [
        f"{name}:viewer:{UNMATCHED_HASH.replace('scrypt:32768:8:1', cost)}" for name, cost in costs.items()
    ]
    users = Users(
        file_of(
            tmp_path,
            *lines,
            "twin:viewer:" + UNMATCHED_HASH.replace("saltsalt", "other999"),
            "proxied:viewer",
        )
    )
    checked: list[str] = []

    def check(hashed: str, password: str) -> bool:
        checked.append(hashed)
        return False

    monkeypatch.setattr(users_module, "check_password_hash", check)
    for name in (*costs, "twin", "unknown", "proxied"):
        checked.clear()
        assert users.check(name, "wrong") is None
        assert [hashed.partition("$")[0] for hashed in checked] == list(costs.values()), name
        assert name not in costs or lines[list(costs).index(name)].endswith(
            f":{checked[list(costs).index(name)]}"
        )


def test_the_hash_of_another_user_lets_no_user_in(tmp_path: Path) -> None:
    """A hash that is computed for its time alone opens nothing: a password counts for its own name only."""
    hashed = hash_password("correct horse")
    dear = hash_password("another").replace("scrypt:32768:8:1", "scrypt:65536:8:1")
    users = Users(file_of(tmp_path, f"ada:operator:{hashed}", f"bob:viewer:{dear}", "proxied:viewer"))
    for name in ("bob", "proxied", "unknown"):
        assert users.check(name, "correct horse") is None
    assert users.check("ada", "correct horse") == Person("ada", "operator")


@pytest.mark.parametrize(
    "line",
    [
        "ada",
        "ada:",
        "ada:admin:" + UNMATCHED_HASH,
        "ada:viewer:secret",
        "ada:viewer:pbkdf2:sha256:1$salt$00",
        "ada:viewer:" + UNMATCHED_HASH[:-1],
        "ada:viewer:" + UNMATCHED_HASH.replace("32768", "2"),
        "ada:viewer:" + UNMATCHED_HASH.replace("32768", "99999"),
        ":viewer:" + UNMATCHED_HASH,
        "a da,b:viewer:" + UNMATCHED_HASH,
        "x" * 65 + ":viewer:" + UNMATCHED_HASH,
        "ada\x07:viewer:" + UNMATCHED_HASH,
        "a\u202eda:viewer:" + UNMATCHED_HASH,
    ],
)
def test_a_line_that_means_nothing_is_named(tmp_path: Path, line: str) -> None:
    """A bad line is refused by its number, and not quoted: it may hold a password."""
    with pytest.raises(ConfigError, match=r"bad line 2 in users file .* --hash-password") as refused:
        Users(file_of(tmp_path, f"fine:viewer:{UNMATCHED_HASH}", line))
    assert "secret" not in str(refused.value)


def test_a_file_that_says_nothing_is_refused(tmp_path: Path) -> None:
    """No file, no text, no user, and one user twice are errors in one line."""
    with pytest.raises(ConfigError, match=r"cannot read users file .*: No such file"):
        Users(tmp_path / "none")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="no UTF-8"):
        Users(tmp_path / "bytes")
    with pytest.raises(ConfigError, match="no users in users file"):
        Users(file_of(tmp_path, "# no users yet"))
    with pytest.raises(ConfigError, match='"ada" has a line above'):
        Users(file_of(tmp_path, f"ada:viewer:{UNMATCHED_HASH}", f"ada:operator:{UNMATCHED_HASH}"))


def test_the_file_is_read_again_when_it_changes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A user who is taken out is out at once; a file that cannot be read changes nothing, and is logged."""
    path = file_of(tmp_path, f"ada:operator:{UNMATCHED_HASH}", f"bob:viewer:{UNMATCHED_HASH}")
    users = Users(path)
    before = users.mark("ada")
    replaced = tmp_path / "new"
    replaced.write_text(f"ada:viewer:{UNMATCHED_HASH}\n")
    replaced.rename(path)  # as a mounted Secret changes
    assert users.person("bob") is None
    assert users.person("ada") == Person("ada", "viewer")
    assert users.mark("ada") != before, "a session of the former role has ended"
    assert users.mark("bob") == ""
    with caplog.at_level(logging.ERROR, logger="distq.dashboard"):
        path.write_text("nonsense of some length")
        assert users.person("ada") == Person("ada", "viewer")
        path.unlink()
        assert users.person("ada") == Person("ada", "viewer")
    assert len(caplog.records) == 2
    path.write_text("# all are gone\n")
    assert users.person("ada") is None, "the last one who is taken out is out, too"
    assert not users.has_passwords()
