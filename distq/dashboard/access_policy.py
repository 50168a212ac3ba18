"""The dashboard's access policy: its users and their roles, its hosts, and the proxies that it trusts."""

import ipaddress
import re
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from distq.dashboard.proxies import Network, require_header
from distq.dashboard.users import Person, Role, Users, is_name
from distq.dns1123 import DNS1123_SUBDOMAIN
from distq.errors import ConfigError

SHORTEST_SECRET = 16

_URL_PREFIX = re.compile(r"(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")


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
    """How people log in, and which roles they have.

    Without ``users`` and ``trusted_header`` there is no login: everyone at the loopback address is a viewer,
    with ``actions`` an operator. ``read_only`` turns all repairs off. ``trusted_header`` names people, in
    requests of ``trusted_proxies`` alone; ``header_role`` is the role of people who are not in ``users``.
    ``allowed_hosts`` are host names that the dashboard answers to, beside this machine's own; ``url_prefix``
    begins its URLs, as ``/distq``. ``secret`` signs logins: another one at the next start ends them. Raises
    ConfigError where these do not go together.
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
            other = "is read-only" if self.read_only else "has a login, whose users have roles"
            raise ConfigError(f"cannot allow actions: the dashboard {other}. Leave one out.")
        if self.trusted_header is not None:
            require_header(self.trusted_header)
            if not self.trusted_proxies:
                raise ConfigError("cannot trust a header from every client. Give the trusted proxies.")
            if self.users is None and self.header_role is None:
                raise ConfigError("cannot trust a header without roles. Give users, or one role for all.")
        elif self.header_role is not None:
            raise ConfigError(
                "the role has no use: it is for people whom a proxy names. Give the trusted header."
            )
        elif self.users is not None and not self.users.has_passwords():
            raise ConfigError("no user can log in: none has a hash. Add one, or give a trusted header.")
        if not _URL_PREFIX.fullmatch(self.url_prefix):
            raise ConfigError(f'bad URL prefix "{self.url_prefix:.60}". Give a path such as /distq.')
        for host in self.allowed_hosts:
            if not DNS1123_SUBDOMAIN.fullmatch(host):
                raise ConfigError(
                    f'bad host "{host:.60}". Give a name in lower case, without scheme or port.'
                )
        if len(self.secret) < SHORTEST_SECRET:
            raise ConfigError(
                f"bad secret: {len(self.secret)} bytes. Give {SHORTEST_SECRET} random ones or more."
            )

    @property
    def has_login(self) -> bool:
        """Return whether people have names here, by a password or by a proxy."""
        return self.users is not None or self.trusted_header is not None

    @property
    def asks_for_passwords(self) -> bool:
        """Return whether there is a page to log in."""
        return self.users is not None and self.users.has_passwords()

    def __str__(self) -> str:
        """Return the policy in a few words, for the log line at the start."""
        login = "with a login" if self.has_login else "no login: loopback only"
        may = "read-only" if self.read_only or not (self.actions or self.has_login) else "repairs allowed"
        return f"{may}, {login}"

    def require_bindable(self, host: str) -> None:
        """Raise ConfigError for an address that other machines reach, where there is no login."""
        if not is_loopback(host) and not self.has_login:
            raise ConfigError(
                f'cannot bind the dashboard to "{host}": it has no login, loopback only. '
                "Give --users or --trusted-header, or bind 127.0.0.1 and use kubectl port-forward."
            )

    def answers_to(self, host: str) -> bool:
        """Return whether the dashboard answers requests for this host name."""
        return is_loopback(host) or host.lower() in self.allowed_hosts

    def anonymous(self) -> Person:
        """Return the person of a dashboard without a login."""
        return Person("", "operator" if self.actions else "viewer")

    def named_by_proxy(self, name: str) -> Person | None:
        """Return the person whom a trusted proxy named; None for a bad name, and for one without a role."""
        if not is_name(name):  # with a comma, too: it joins several headers, and a client may have sent one
            return None
        known = self.users.person(name) if self.users else None
        return known or (Person(name, self.header_role) if self.header_role else None)

    def may_repair(self, person: Person) -> bool:
        """Return whether a person may change anything."""
        return person.role == "operator" and not self.read_only

    def why_no_repairs(self) -> str:
        """Return why repairs are refused, and what allows them."""
        if self.read_only:
            return "actions are off: this dashboard is read-only. Start it without --read-only."
        if not self.has_login:
            return "actions are off: this dashboard only shows. Start it with --actions, or with --users."
        return "your role, viewer, only looks. Ask for the role operator."
