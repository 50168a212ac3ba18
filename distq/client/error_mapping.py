"""How answers of the API server, and their absence, become typed errors of one line."""

import email.utils
import http.client
import math
import re
import ssl
import time
from collections.abc import Mapping
from typing import Any

import msgspec
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NameResolutionError,
    NewConnectionError,
    ProxyError,
    ReadTimeoutError,
)

from distq.client.http_answer import Response
from distq.errors import ApiError, Conflict, Expired, NotFound, TooManyRequests, causes_of
from distq.wording import duration

_REMEDIES = {
    400: "Correct the request.",
    404: "Check the name.",
    409: "Read it again and repeat.",
    410: "List again.",
    415: "Use a format that it takes: a custom resource takes no strategic merge patch.",
    422: "Correct the object.",
}
_UNTYPED = "failed to create typed patch object"
"""The answer, with status 500, to an apply whose object does not fit its schema."""
_DENIED = re.compile(
    r'User ".*?" cannot (?P<verb>\S+) '
    r'(?:path "(?P<path>[^"]+)"|resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)")'
    r'(?: in the namespace "(?P<namespace>[^"]+)")?'
)
"""The refusal of the API server's authorizer. Source: apiserver responsewriters.Forbidden."""
_KINDS: dict[int, type[ApiError]] = {404: NotFound, 409: Conflict, 410: Expired}


def response_error(what: str, response: Response, origin: str) -> ApiError:
    """Return the error for an answer of 300 or more; ``what`` was asked for, by credentials of ``origin``."""
    body = _status_object(response.data)
    reason = str(body.get("reason") or response.reason or "")
    text = response.data[:200].decode(errors="replace")
    cause = _one_line(str(body.get("message") or text or response.reason or "no message"))
    message = f"{what}: {response.status} {cause.rstrip('.')}. "
    seconds = _retry_after(response.headers.get("Retry-After"), body)
    if response.status == 429:
        seconds = 1.0 if seconds is None else seconds
        message += f"Repeat after {duration(seconds)}."
        return TooManyRequests(message, status=429, reason=reason, answer=body, retry_after=seconds)
    # a name in the details would mean that the object is missing, not the subresource
    if response.status == 404 and what.endswith("/status") and not _details(body).get("name"):
        message += "Its CRD needs subresources: {status: {}}, or its name is wrong."
    elif response.status < 400 and (location := response.headers.get("Location")):
        message += f"It leads to {_without_secrets(location)}: check the server in {origin}."
    else:
        message += _remedy(response.status, cause, body, origin)
    kind = _KINDS.get(response.status, ApiError)
    return kind(message, status=response.status, reason=reason, answer=body, retry_after=seconds)


def no_answer(what: str, error: Exception, address: str, origin: str) -> ApiError:
    """Return the error for a request that got no answer, or only a part of one."""
    remedy = f"Check that the API server runs and that {origin} is right."
    return ApiError(f"{what}: no answer from {address}: {_cause(error)}. {remedy}")


def missing_object(error: NotFound) -> bool:
    """Return whether only the object is missing, not the resource that serves it."""
    return bool(_details(error.answer).get("name"))


def _remedy(status: int, cause: str, answer: Mapping[str, Any], origin: str) -> str:
    details = _details(answer)
    if status == 401:
        return f"Check the credentials in {origin}: they are unknown to the API server, or expired."
    if any(each.reason == "NamespaceTerminating" for each in causes_of(answer)):
        return "Its namespace is being deleted: take another one, or create it anew when it is gone."
    if status == 403:  # after NamespaceTerminating, which has this status and is no matter of rights
        return _missing_right(cause)
    if status == 404 and details.get("kind") == "namespaces":
        return f"Create the namespace {details.get('name')}."
    if status == 500 and cause.startswith(_UNTYPED):
        return _REMEDIES[422]
    return _REMEDIES.get(status, "Repeat later.")


def _missing_right(cause: str) -> str:
    """Return the remedy for a denial: a rule of RBAC on one line, and where to add it."""
    if (denied := _DENIED.search(cause)) is None:
        return "Change it, or what refuses it: this is no matter of RBAC."  # an admission, a quota, a proxy
    verbs = f'verbs: ["{denied["verb"]}"]'
    if denied["path"]:
        return f'Add to a ClusterRole of this user: - {{nonResourceURLs: ["{denied["path"]}"], {verbs}}}.'
    role = f"Role in {denied['namespace']}" if denied["namespace"] else "ClusterRole"
    rule = f'apiGroups: ["{denied["group"]}"], resources: ["{denied["resource"]}"], {verbs}'
    return f"Add to a {role} of this user: - {{{rule}}}."


def _cause(error: BaseException) -> str:
    if isinstance(error, NameResolutionError):
        return "unknown host"
    if isinstance(error, ReadTimeoutError):
        return "silence for too long"
    # a NewConnectionError is a ConnectTimeoutError, also if the server refused the connection
    if isinstance(error, ConnectTimeoutError) and not isinstance(error, NewConnectionError):
        return "no connection in time"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate not trusted, {error.verify_message}"
    if isinstance(error, http.client.IncompleteRead):
        return "the connection ended within the answer"
    # urllib3 keeps the error that it wraps in one of these places
    inner = error.__cause__ or next((arg for arg in error.args if isinstance(arg, BaseException)), None)
    if isinstance(error, ProxyError) and inner is not None:
        return f"its proxy: {_cause(inner)}"
    if isinstance(error, HTTPError) and inner is not None:
        return _cause(inner)
    if isinstance(error, OSError) and error.strerror:
        return _one_line(error.strerror).lower()
    return _one_line(str(error)).rstrip(".") or type(error).__name__


def _status_object(data: bytes) -> Mapping[str, Any]:
    try:
        body = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # proxies answer, too
        return {}
    return body if isinstance(body, dict) and body.get("kind") == "Status" else {}


def _details(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    details = answer.get("details")
    return details if isinstance(details, dict) else {}


def _retry_after(header: str | None, body: Mapping[str, Any]) -> float | None:
    """Return the seconds of a Retry-After header, a number or a date; None where it makes no sense."""
    stated = header or _details(body).get("retryAfterSeconds")
    if not isinstance(stated, str | int | float) or not stated:
        return None
    try:
        seconds = float(stated)
    except (ValueError, OverflowError):
        try:
            seconds = email.utils.parsedate_to_datetime(str(stated)).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _without_secrets(location: str) -> str:
    """Return a URL without user, query and fragment."""
    return _one_line(re.sub(r"^([^/]*//)[^/?#]*@|[?#].*", r"\1", location))[:200]


def _one_line(text: str) -> str:
    return " ".join(text.split())
