"""A request to the API server as a span, where a reconcile with a span makes it."""

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

import urllib3

from distq.spans import SpanFailure, current_provider, failure_of


class _HasStatus(Protocol):
    @property
    def status(self) -> int: ...


Answer = TypeVar("Answer", bound=_HasStatus)


def within_span(
    send: Callable[[Mapping[str, str]], Answer], method: str, url: str, headers: Mapping[str, str]
) -> Answer:
    """Send a request and return its answer; the span, if any, ends with the answer, or a watch's head."""
    provider = current_provider()
    if provider is None:
        return send(headers)
    server = urllib3.util.parse_url(url)
    about = {"http.request.method": method, "url.full": url, "server.address": server.host or ""}
    port = server.port or (80 if server.scheme == "http" else 443)
    span = provider.begin(method, "client", {**about, "server.port": port})
    try:
        response = send({**span.headers(), **headers})
    except BaseException as error:
        span.end(failure=failure_of(error))
        raise
    status = response.status
    span.end({"http.response.status_code": status}, SpanFailure(str(status)) if status >= 400 else None)
    return response
