"""Who may look, who may repair, and by which names and proxies the dashboard is reached."""

import ipaddress
import re
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from distq.dashboard.proxies import Network, require_header
from distq.dashboard.users import Person, Role, Users, is_name
from distq.errors import ConfigError

SHORTEST_SECRET = 16

_URL_PREFIX = re.compile(r"(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
_HOST = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")


def is_loopback(host: str) -> bool:
    """Return whether the host, a name or an address without port, is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, kw_only=True)
class AccessPolicy:
    """How people get in, and what they may do.

    Without ``users`` and ``trusted_header`` there is no login: who reaches the loopback address may look, and
    with ``actions`` repair. ``read_only`` keeps everybody from repairing. ``trusted_header`` names people, in
    requests of ``trusted_proxies`` alone; ``header_role`` is the role of those whom ``users`` does not know.
    ``allowed_hosts`` are names beside this machine's own by which the dashboard may be asked for,
    ``url_prefix`` is what its URLs begin with, as ``/distq``. ``secret`` signs logins: another one at
    the next start ends them. Raises ConfigError where these do not go together.
    """

    actions: bool = False
    read_only: bool = False
    users: Users | None = None
    trusted_header: str | None = None
    trusted_proxies: Sequence[Network] = ()
    header_role: Role | None = None
    allowed_hosts: Collection[str] = ()
    url_prefix: str = ""
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def __post_init__(self) -> None:
        if self.actions and (self.read_only or self.has_login):
            other = "read-only" if self.read_only else "with a login, whose users have roles"
            raise ConfigError(f"cannot allow actions: the dashboard is {other}. Leave one out.")
        if self.trusted_header is not None:
            require_header(self.trusted_header)
            if not self.trusted_proxies:
                raise ConfigError("cannot trust a header: anybody could send it. Give the trusted proxies.")
            if self.users is None and self.header_role is None:
                raise ConfigError("cannot trust a header: nobody has a role. Give users, or a role for all.")
        elif self.header_role is not None:
            raise ConfigError("a role for nobody: it is for whom a proxy names. Give the trusted header.")
        elif self.users is not None and not self.users.has_passwords():
            raise ConfigError("nobody could log in: no user has a hash. Add one, or give a trusted header.")
        if not _URL_PREFIX.fullmatch(self.url_prefix):
            raise ConfigError(f'bad URL prefix "{self.url_prefix:.60}". Give a path such as /distq.')
        for host in self.allowed_hosts:
            if not _HOST.fullmatch(host):
                raise ConfigError(
                    f'bad host "{host:.60}". Give a name in lower case, without scheme or port.'
                )
        if len(self.secret) < SHORTEST_SECRET:
            raise ConfigError(
                f"bad secret: {len(self.secret)} bytes. Give {SHORTEST_SECRET} random ones or more."
            )

    @property
    def has_login(self) -> bool:
        """Return whether people say who they are."""
        return self.users is not None or self.trusted_header is not None

    @property
    def asks_for_passwords(self) -> bool:
        """Return whether there is a page to log in."""
        return self.users is not None and self.users.has_passwords()

    def __str__(self) -> str:
        """Return who may do what, for the line that says that the dashboard runs."""
        login = "with a login" if self.has_login else "no login: loopback only"
        may = "read-only" if self.read_only or not (self.actions or self.has_login) else "repairs allowed"
        return f"{may}, {login}"

    def require_bindable(self, host: str) -> None:
        """Raise ConfigError where others could reach the address and need not say who they are."""
        if not is_loopback(host) and not self.has_login:
            raise ConfigError(
                f'cannot bind the dashboard to "{host}": it has no login, loopback only. '
                "Give --users or --trusted-header, or bind 127.0.0.1 and use kubectl port-forward."
            )

    def answers_to(self, host: str) -> bool:
        """Return whether the dashboard may be asked for by this name."""
        return is_loopback(host) or host.lower() in self.allowed_hosts

    def anybody(self) -> Person:
        """Return who uses a dashboard without a login."""
        return Person("", "operator" if self.actions else "viewer")

    def named_by_proxy(self, name: str) -> Person | None:
        """Return whom a trusted proxy named; None for a name that nobody may have, or who has no role.

        A comma joins what several headers said, of which a client may have sent one.
        """
        if not is_name(name):
            return None
        known = self.users.person(name) if self.users else None
        return known or (Person(name, self.header_role) if self.header_role else None)

    def may_repair(self, person: Person) -> bool:
        """Return whether somebody may change anything."""
        return person.role == "operator" and not self.read_only

    def why_no_repairs(self) -> str:
        """Say why somebody may not repair, and what would let them."""
        if self.read_only:
            return "actions are off: this dashboard is read-only. Start it without --read-only."
        if not self.has_login:
            return "actions are off: this dashboard only shows. Start it with --actions, or with --users."
        return "you may look, and not repair. Ask for the role operator."
