"""LIST: which version is read, pages, continue tokens, and what is too old or too new.

Source: apiserver pkg/storage/etcd3 (GetList) and pkg/storage/continue.go.
"""

import asyncio
import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Self

import msgspec

from distq.testing.apiserver.causes import forbidden, unsupported
from distq.testing.apiserver.requests import is_set, whole_number
from distq.testing.apiserver.resources import built_in
from distq.testing.apiserver.selectors import Selector
from distq.testing.apiserver.status import StatusError, bad_request, invalid_options
from distq.testing.apiserver.store import Store, Stored

Page = tuple[list[Stored], dict[str, Any]]
"""Some of the objects, and the metadata of their list."""

_WAIT_FOR_VERSION = 3.0
_LATEST = -1
"""The revision in the token of a 410 answer: go on with what is there now."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ListOptions:
    """The query of a LIST or WATCH, parsed."""

    resource_version: str = ""
    match: str = ""
    limit: int = 0
    continue_token: str = ""
    send_initial_events: bool | None = None
    bookmarks: bool = False
    timeout: int = 0

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> Self:
        """Parse the parameters of a request."""
        initial = "sendInitialEvents"
        return cls(
            resource_version=query.get("resourceVersion", ""),
            match=query.get("resourceVersionMatch", ""),
            limit=whole_number(query.get("limit") or "0"),
            continue_token=query.get("continue", ""),
            send_initial_events=is_set(query, initial) if initial in query else None,
            bookmarks=is_set(query, "allowWatchBookmarks"),
            timeout=whole_number(query.get("timeoutSeconds") or "0"),
        )


def parse_version(text: str) -> int:
    """Return a resourceVersion as a number, empty as 0; raise StatusError 500 where it is none."""
    if text and not text.isdecimal():
        cause = f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise StatusError(500, f"resourceVersion: {cause}")
    return int(text or 0)


def _validate(options: ListOptions) -> None:
    field = "resourceVersionMatch"
    exact_zero = options.match == "Exact" and options.resource_version == "0"
    rules = {
        f"{field} is forbidden unless resourceVersion is provided": not options.resource_version,
        f"{field} is forbidden when continue is provided": options.continue_token,
        f'{field} "exact" is forbidden for resourceVersion "0"': exact_zero,
    }
    listed = [forbidden(field, rule) for rule, is_broken in rules.items() if options.match and is_broken]
    listed += unsupported(field, options.match, ["Exact", "NotOlderThan", ""])
    if options.send_initial_events is not None:
        listed.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if listed:
        raise invalid_options("ListOptions", *listed)


async def list_page(store: Store, options: ListOptions, selector: Selector) -> Page:
    """Return one page and its metadata; waits up to 3 seconds for a version that is not reached yet."""
    _validate(options)
    try:
        version = parse_version(options.resource_version)
    except StatusError as error:
        raise bad_request(f"invalid resource version: {error.message}") from None
    if options.continue_token:
        if version:
            raise bad_request("specifying resource version is not allowed when using continue")
        version, start = _decode(options.continue_token, selector.prefix)
        exact = version != _LATEST
    else:
        start = ""
        exact = options.match == "Exact" or bool(version and options.limit > 0 and not options.match)
    if options.resource_version == "0":
        options = ListOptions()  # the real one answers from its watch cache, all at once
    await reach(store, version)
    if not exact:
        version = store.revision
    try:
        return _read(store, selector, version, options.limit, start, past=exact)
    except LookupError:
        if not options.continue_token:
            raise StatusError(410, built_in()["messages"]["compacted"]) from None
        token = _encode(_LATEST, start, selector.prefix)
        message = built_in()["messages"]["continue_expired"]
        raise StatusError(410, message, continue_token=token) from None


async def reach(store: Store, version: int) -> None:
    """Wait up to 3 seconds for a version that is not there yet."""
    deadline = asyncio.get_running_loop().time() + _WAIT_FOR_VERSION
    while store.revision < version:
        if asyncio.get_running_loop().time() >= deadline:
            cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
            message = f"Timeout: {cause['message']}: {version}, current: {store.revision}"
            raise StatusError(504, message, details={"causes": [cause], "retryAfterSeconds": 1})
        await asyncio.sleep(0.02)


def _read(store: Store, selector: Selector, version: int, limit: int, start: str, *, past: bool) -> Page:
    collection = store.collection(selector.identity)
    rest = collection.scan(selector.prefix, start, version if past else None)
    matching = filter(selector.matches, rest) if selector.selective else rest
    items = list(islice(matching, limit)) if limit > 0 else list(matching)
    metadata: dict[str, Any] = {"resourceVersion": str(version)}
    # whether it matches or not: the last page may be empty
    if not selector.of_one and next(rest, None) is not None:
        metadata["continue"] = _encode(version, items[-1].key + "\0", selector.prefix)
        if not selector.selective:
            metadata["remainingItemCount"] = 1 + sum(1 for _ in rest)
    return items, metadata


def _encode(version: int, start: str, prefix: str) -> str:
    token = {"v": "meta.k8s.io/v1", "rv": version, "start": f"/{start.removeprefix(prefix)}"}
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _decode(text: str, prefix: str) -> tuple[int, str]:
    try:
        # Python wants the padding that Go's RawURLEncoding leaves out
        token = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        return int(token["rv"]), prefix + str(token["start"])[1:]
    except (binascii.Error, ValueError, TypeError, KeyError, msgspec.DecodeError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from None
