"""The settings of a deployment; only this module reads the environment.

Every setting is a variable ``DISTQ_*`` and a flag of the command line. The needs of the code are arguments of
constructors instead.
"""

import os
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, Self

from distq.dns1123 import DNS1123_LABEL, DNS1123_SUBDOMAIN
from distq.errors import ConfigError
from distq.mistakes import did_you_mean, suggesting_keywords
from distq.seconds import parse_seconds

_HOST = r"(?:\[[0-9a-fA-F:.]+\]|[^@?#:/,\[\]]*)(?::\d{1,5})?"
_URL = re.compile(
    r"(?P<scheme>[a-z+]{1,16})://(?:(?P<user>[^/?#]*)@)?"
    rf"(?P<place>{_HOST}(?:,{_HOST})*(?:/[^@?#]*)?)(?P<query>\?[^@#]*)?"
)
"""A URL of Redis with each part in its place."""
_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")

_PARSERS: Mapping[object, tuple[Callable[[str], Any], str]] = {
    float: (parse_seconds, "number of seconds, such as 90, 90s or 10m"),
    int | None: (int, "whole number"),
    Path | None: (Path, "path"),
}
"""By the type of a setting; all others are texts."""
_SECRETS = {"redis_password", "redis_sentinel_password"}

_MISTYPED = 0.9
"""How similar a variable and a setting must be to count as mistyped; see ``distq.mistakes.closest``.

Other variables are ignored: Kubernetes itself sets some, for each Service whose name begins with distq.
"""


@suggesting_keywords()
@dataclass(frozen=True, kw_only=True, repr=False)
class Settings:
    """The settings of one process; contradictions raise here."""

    redis_url: str | None = None
    """The URL of the queues' Redis; None is redis://127.0.0.1:6379/0, and messages then name the variable."""

    redis_username: str | None = None
    """Overrides the URL's user."""

    redis_password: str | None = None
    """Overrides the URL's password."""

    redis_password_file: Path | None = None
    """Read at every connection, so that a mounted secret can rotate."""

    redis_sentinel_username: str | None = None
    """The user for Sentinels; the URL's is Redis' own."""

    redis_sentinel_password: str | None = None
    """Its password; None if the Sentinels need none."""

    redis_sentinel_password_file: Path | None = None
    """Read at each connection to a Sentinel."""

    redis_ca_file: Path | None = None
    """Certificate authority of a rediss server; None is the system's."""

    redis_cert_file: Path | None = None
    """Client certificate, with ``redis_key_file``."""

    redis_key_file: Path | None = None
    """Key of the client certificate."""

    prefix: str = "distq"
    """The beginning of the names of all keys in Redis and of the Lease; installations with different prefixes
    can share a Redis, and see nothing of each other."""

    lease_name: str | None = None
    """The Lease that informers compete for; None is PREFIX-TARGET."""

    lease_namespace: str | None = None
    """The namespace of the Lease; None is the pod's, else default."""

    lease_duration: float = 15.0
    """Seconds without renewal after which followers take over (client-go LeaseDuration)."""

    renew_deadline: float = 10.0
    """Seconds without renewal after which the leader gives up (client-go RenewDeadline)."""

    retry_period: float = 2.0
    """Seconds between tries (client-go RetryPeriod)."""

    concurrency: int | None = None
    """Reconciles at a time in one process; None is the Controller's own number."""

    fleet_concurrency: int | None = None
    """Reconciles at a time in all processes that work on a queue; None is the Controller's own number."""

    fleet_concurrency_per_flow: int | None = None
    """Reconciles of one namespace at a time in all processes; None is the Controller's own number."""

    grace_period: float = 25.0
    """Seconds that running reconciles get after SIGTERM; below Kubernetes' 30 s until SIGKILL."""

    revision: str = ""
    """The reconcile logic's revision, e.g. an image digest; another one enqueues every object once."""

    http_address: str | None = None
    """ADDRESS:PORT of /metrics, /healthz and /readyz, e.g. ":8080" for all addresses; None is off."""

    log_level: str = "info"
    """debug, info, warning or error."""

    log_format: Literal["text", "json"] = "text"
    """The format of log lines on stderr."""

    def __post_init__(self) -> None:
        if not isinstance(self.prefix, str) or not _PREFIX.fullmatch(self.prefix):
            raise ConfigError(
                f"bad prefix: {self.prefix!r:.80}. "
                "Use 1 to 63 letters, digits, dots, dashes and underscores, a letter or digit first."
            )
        for name, form in (("lease_name", DNS1123_SUBDOMAIN), ("lease_namespace", DNS1123_LABEL)):
            text = getattr(self, name)
            if text is not None and not (isinstance(text, str) and form.fullmatch(text)):
                dots = ", dots" if form is DNS1123_SUBDOMAIN else ""
                raise ConfigError(f"bad {name}: {text!r:.80}. Use small letters, digits{dots} and dashes.")
        if not self.lease_duration > self.renew_deadline > self.retry_period > 0:
            raise ConfigError(
                f"bad lease times: lease_duration {self.lease_duration:g} s, renew_deadline "
                f"{self.renew_deadline:g} s, retry_period {self.retry_period:g} s. "
                "Make each longer than the next."
            )
        for name in ("concurrency", "fleet_concurrency", "fleet_concurrency_per_flow"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise ConfigError(f"bad {name}: {number}. Give 1 or more.")
        if not self.grace_period >= 0:  # in this form for NaN, too
            raise ConfigError(f"bad grace_period: {self.grace_period}. Give 0 seconds or more.")
        if self.http_address is not None:
            host_and_port(self.http_address)
        if self.log_level not in {"debug", "info", "warning", "error"}:
            raise ConfigError(f'bad log_level: "{self.log_level}". Use debug, info, warning or error.')
        if self.log_format not in {"text", "json"}:
            raise ConfigError(f'bad log_format: "{self.log_format}". Use text or json.')
        if (self.redis_cert_file is None) != (self.redis_key_file is None):
            raise ConfigError("half a client certificate: give both DISTQ_REDIS_CERT_FILE and _KEY_FILE.")

    def __repr__(self) -> str:
        """Return the settings that differ from the defaults, without secrets."""
        masked = self.masked()
        chosen = (one.name for one in fields(self) if getattr(self, one.name) != one.default)
        return f"Settings({', '.join(f'{name}={masked[name]!r}' for name in chosen)})"

    @classmethod
    def from_env(cls, environment: Mapping[str, str] | None = None, **flags: Any) -> Self:
        """Read the variables; flags that are not None override them.

        Raises ConfigError for a variable that is no setting, but has nearly the name of one.
        """
        environment = os.environ if environment is None else environment
        _refuse_mistyped(environment, [variable_of(setting.name) for setting in fields(cls)])
        chosen: dict[str, Any] = {}
        for setting in fields(cls):
            flag = flags.pop(setting.name, None)
            variable = variable_of(setting.name)
            if flag is not None:
                chosen[setting.name] = flag
            elif text := environment.get(variable, ""):  # an empty one counts as not set
                chosen[setting.name] = _parse(variable, text, setting.type)
        return cls(**chosen, **flags)

    def masked(self) -> dict[str, Any]:
        """Return all settings for people to see, with secrets masked."""
        return {
            setting.name: "***" if setting.name in _SECRETS and value else _mask_url(setting.name, value)
            for setting in fields(self)
            for value in [getattr(self, setting.name)]
        }


def variable_of(setting: str) -> str:
    """Return the environment variable of a setting."""
    return f"DISTQ_{setting.upper()}"


def host_and_port(address: str) -> tuple[str, int]:
    """Split ADDRESS:PORT, with IPv6 in brackets and "" for all addresses; raise ConfigError."""
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^\s:\[\]]*)):(\d{1,5})", address)
    if match is None or int(match[3]) > 65535:
        raise ConfigError(f'bad http_address: "{address}". Give ADDRESS:PORT, or :PORT for all addresses.')
    return match[1] or match[2] or "", int(match[3])


def kubeconfig_variable() -> str | None:
    """Return the value of KUBECONFIG, one or more paths as kubectl takes them; None if it is not set."""
    return os.environ.get("KUBECONFIG") or None


def _refuse_mistyped(environment: Mapping[str, str], settings: list[str]) -> None:
    """Refuse a variable that is no setting, but was probably meant to be one.

    A variable with more or fewer letters at its end belongs to the program: DISTQ_REDIS_USER may be a part of
    a URL.
    """
    for variable in environment:
        is_own = any(variable.startswith(setting) or setting.startswith(variable) for setting in settings)
        if variable.startswith("DISTQ_") and not is_own:
            meant = did_you_mean(variable, settings, alike=_MISTYPED)
            if meant:
                raise ConfigError(f"unknown setting {variable}. {meant}")


def _parse(variable: str, text: str, kind: object) -> Any:
    parse, what = _PARSERS.get(kind, (str, ""))
    try:
        return parse(text)
    except ValueError:
        raise ConfigError(f'bad {variable}: "{text}" is not a {what}.') from None


def _mask_url(name: str, value: Any) -> Any:
    """Mask the password of a URL; the user stays visible, because it helps to find mistakes."""
    if name != "redis_url" or not isinstance(value, str):
        return str(value) if isinstance(value, Path) else value
    parts = _URL.fullmatch(value)
    if parts is None:  # special characters that are not encoded: the password may be anywhere
        return "***"
    user, colon, _ = (parts["user"] or "").partition(":")
    user = "***" if "%3a" in user.lower() else user  # an encoded colon: this may be the password, too
    login = "" if parts["user"] is None else f"{user}{':***' if colon else ''}@"
    return f"{parts['scheme']}://{login}{parts['place']}{'?***' if parts['query'] else ''}"


def lease_name(program: str, prefix: str) -> str:
    """Return the Lease that the informers of a program compete for: PREFIX-PROGRAM, as an object's name."""
    installation, name = _object_name(prefix), _object_name(program)[:57]
    if installation != prefix:  # prefixes that differ in capitals or dots must not share a Lease
        installation += f"-{zlib.crc32(prefix.encode()):08x}"
    return f"{installation}-{name}".rstrip("-")


def _object_name(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
