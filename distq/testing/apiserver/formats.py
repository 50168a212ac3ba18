"""The formats of texts that schemas of custom resources may ask for; others are not checked.

Source: kube-openapi pkg/validation/strfmt, apiextensions-apiserver pkg/apiserver/validation/formats.go.
"""

import base64
import ipaddress
import re
import uuid
from collections.abc import Callable, Mapping
from datetime import date, datetime
from email.utils import parseaddr
from urllib.parse import urlsplit

_HOST = re.compile(
    r"([A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?\.?"
)
_MAC = re.compile(r"[0-9A-Fa-f]{2}(([:-])[0-9A-Fa-f]{2}(\2[0-9A-Fa-f]{2}){4}|(\.?[0-9A-Fa-f]{2}){0})")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_GO_DURATION = re.compile(r"[+-]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)")
_WORDY_DURATION = re.compile(
    r"\d+\s*(ns|us|µs|ms|s|m|h|d|w|(nano|micro|milli)?(sec(ond)?|min(ute)?|hour|day|week)s?)"
)


def matches(text: str, name: str) -> bool:
    """Return whether a text is of the format; of one that is not known, it is."""
    check = _CHECKS.get(name)
    if check is None:
        return True
    try:
        return check(text)
    except ValueError:
        return False


def _is_date_time(text: str) -> bool:
    return bool(_DATE_TIME.fullmatch(text) and datetime.fromisoformat(text[:19].upper()))


def _is_bytes(text: str) -> bool:
    base64.b64decode("".join(text.splitlines()), validate=True)
    return True


def _is_email(text: str) -> bool:
    address = parseaddr(text)[1]
    return "@" in address and " " not in address


_CHECKS: Mapping[str, Callable[[str], bool]] = {
    "byte": _is_bytes,
    "cidr": lambda text: "/" in text and bool(ipaddress.ip_interface(text)),
    "date": lambda text: bool(_DATE.fullmatch(text) and date.fromisoformat(text)),
    "date-time": _is_date_time,
    "datetime": _is_date_time,
    "duration": lambda text: bool(_GO_DURATION.fullmatch(text) or _WORDY_DURATION.fullmatch(text.lower())),
    "email": _is_email,
    "hostname": lambda text: bool(_HOST.fullmatch(text)),
    "ipv4": lambda text: bool(ipaddress.IPv4Address(text)),
    "ipv6": lambda text: bool(ipaddress.IPv6Address(text)),
    "mac": lambda text: bool(_MAC.fullmatch(text)),
    "uri": lambda text: bool(text.startswith("/") or urlsplit(text).scheme),
    "uuid": lambda text: bool(uuid.UUID(text)),
}
