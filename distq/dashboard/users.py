"""The users file: names, roles and hashes of passwords.

A line is ``name:role:hash``, or ``name:role`` for a person whom a proxy names. Empty lines, and those that
begin with ``#``, are ignored.
"""

import hashlib
import logging
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from werkzeug.security import check_password_hash, generate_password_hash

from distq.errors import ConfigError

Role = Literal["viewer", "operator"]
"""A viewer looks; an operator looks and repairs."""

ROLES: tuple[Role, ...] = get_args(Role)
OLD_ROLES: Mapping[str, Role] = {"see": "viewer", "repair": "operator"}
"""The names of 0.1.0, which are taken until 0.3."""
LONGEST_PASSWORD = 1024

logger = logging.getLogger("distq.dashboard")

_NAME = re.compile(r"[^\s:#,\x00-\x20\x7f][^:,\x00-\x1f\x7f]{0,63}")
_HASH = re.compile(r"(?:scrypt:(?:32768|65536|131072):8:[1-9]\$[A-Za-z0-9]{8,64}\$[0-9a-f]{128})?")
"""Hashes that are expensive enough, and fit into the memory of a small container; or none, for a proxy."""


@dataclass(frozen=True, slots=True)
class Person:
    """A person who uses the dashboard; the name is empty where there is no login."""

    name: str
    role: Role


@dataclass(frozen=True, slots=True)
class UserLine:
    """A line: a person, and the hash of their password or nothing."""

    person: Person
    password_hash: str


def hash_password(password: str) -> str:
    """Return the hash of a password for the file (scrypt, by werkzeug). Raises ConfigError for a bad one."""
    if not password or len(password) > LONGEST_PASSWORD:
        raise ConfigError(f"bad password: give 1 to {LONGEST_PASSWORD} characters.")
    try:
        return generate_password_hash(password, "scrypt")
    except UnicodeEncodeError:
        raise ConfigError("bad password: it is no UTF-8.") from None


def is_name(text: str) -> bool:
    """Return whether the text is a possible name."""
    return bool(_NAME.fullmatch(text)) and text.isprintable()


class Users:
    """The people of a users file, which is read again when it changes.

    Raises ConfigError where it cannot be read at first, or has no user. Where it cannot be read later, the
    last version that could be read stays in force, and an error is logged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._checking = threading.Lock()
        self._seen = self._version()  # before the read: a change in between is seen at the next look
        self._entries = _read(path)
        if not self._entries:
            raise ConfigError(f"no users in users file {path}. Add a line: name:role:hash")

    def person(self, name: str) -> Person | None:
        """Return the person of this name; None where there is none."""
        entry = self._current().get(name)
        return entry.person if entry else None

    def mark(self, name: str) -> str:
        """Return a mark of a user's line for the login: another password or role changes it."""
        entry = self._current().get(name)
        return hashlib.sha256(repr(entry).encode()).hexdigest()[:32] if entry else ""

    def check(self, name: str, password: str) -> Person | None:
        """Return the person with this name and password; None where there is none."""
        entries = self._current()
        known = entries.get(name)
        own_hash = known.password_hash if known else ""
        # each try hashes once by every cost of the file, for unknown names too: its time reveals no name
        hashes = {_cost(entry.password_hash): entry.password_hash for entry in entries.values()}
        hashes |= {_cost(own_hash): own_hash}
        hashes.pop("", None)
        with self._checking:  # one at a time: a hash takes 32 MB or more
            fitting = {
                hashed
                for hashed in hashes.values()
                if check_password_hash(hashed, password[:LONGEST_PASSWORD])
            }
        return known.person if known and own_hash in fitting else None

    def has_passwords(self) -> bool:
        """Return whether any user has a password."""
        return any(entry.password_hash for entry in self._current().values())

    def _current(self) -> dict[str, UserLine]:
        """Return the people of the file as it is now, or as it was when it could be read last."""
        with self._lock:
            if (version := self._version()) != self._seen:
                self._seen = version
                try:
                    self._entries = _read(self._path)
                    logger.info("read %s again: %d users", self._path, len(self._entries))
                except ConfigError as error:
                    logger.error("%s The last version that could be read stays in force.", error)
            return self._entries

    def _version(self) -> object:
        """Return what changes when the file does, also where a mounted Secret is swapped."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns


def _read(path: Path) -> dict[str, UserLine]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        cause = getattr(error, "strerror", None) or "it is no UTF-8"
        raise ConfigError(f"cannot read users file {path}: {cause}.") from None
    return parse_users(text, path)


def parse_users(text: str, path: Path) -> dict[str, UserLine]:
    """Return the people of a users file by their names. Raises ConfigError with the number of a bad line."""
    entries: dict[str, UserLine] = {}
    old_roles = set[str]()
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        if not line or line.startswith("#"):
            continue
        name, _, rest = line.partition(":")
        role, _, password_hash = rest.partition(":")
        current = OLD_ROLES.get(role, role)
        if not is_name(name) or current not in ROLES or not _HASH.fullmatch(password_hash):
            raise ConfigError(
                f"bad line {number} in users file {path}: not name:role:hash with a role of viewer or "
                "operator. Make the hash by: distq dashboard --hash-password"
            )
        if name in entries:
            raise ConfigError(f'bad line {number} in users file {path}: "{name}" has a line above.')
        entries[name] = UserLine(Person(name, current), password_hash)
        old_roles |= {role} & OLD_ROLES.keys()
    for role in sorted(old_roles):
        logger.warning('users file %s: the role "%s" is "%s" now. Rename it.', path, role, OLD_ROLES[role])
    return entries


def _cost(password_hash: str) -> str:
    """Return the part of a hash that says how much work it is; "" of none."""
    return password_hash.partition("$")[0]
