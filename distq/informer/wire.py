"""The bytes of lists and watches, decoded as little as routing needs.

Whole objects stay bytes until one is looked at: decoding them all costs ten times
the time and memory of decoding their metadata.
"""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from distq.client.objects import Object
from distq.client.resources import Resource
from distq.errors import ApiError, Expired, TooManyRequests
from distq.informer.json_depth import Unreadable, decode
from distq.informer.objects import Metadata

logger = logging.getLogger(__name__)

_NOTHING = msgspec.Raw()


class RawObject(msgspec.Struct, eq=False, gc=False):
    """An object as it came: its key and version are decoded, the rest when it is looked at."""

    key: str
    """Empty where name, namespace or version cannot be read: a sink leaves such an object out."""
    version: str
    raw: msgspec.Raw
    resource: Resource
    managed_fields: msgspec.Raw = _NOTHING
    """Their part of the text, empty where there are none."""
    _metadata: Metadata | None = None

    def anew(self) -> "RawObject":
        """Return the same object as it came; the text alone is shared, which does not change."""
        return RawObject(self.key, self.version, self.raw, self.resource, self.managed_fields)

    @property
    def metadata(self) -> Metadata:
        """Return the object's metadata, decoded at the first look."""
        if self._metadata is None:
            self._metadata = decode(PARTIAL.decode, self.raw, self.key).metadata
        return self._metadata

    def decode(self) -> Object:
        """Return the whole object; lists and partial objects leave its kind out, so it is put back."""
        whole: Object = decode(WHOLE.decode, self.raw, self.key)
        return {**whole, "apiVersion": self.resource.api_version, "kind": self.resource.kind}


class WatchEvent(msgspec.Struct, frozen=True):
    """One line of a watch: ADDED, MODIFIED, DELETED (the last state), or BOOKMARK (only a version).

    ``ends_list`` marks the bookmark that follows the objects of a streamed list.
    """

    type: str
    object: RawObject
    ends_list: bool = False

    @property
    def version(self) -> str:
        """Return the version up to which the watch has shown everything."""
        return self.object.version


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list, of so many bytes; all parts of one consistent list bear the same version."""

    version: str
    objects: Sequence[RawObject]
    next_token: str
    size: int = 0

    def anew(self) -> "Page":
        """Return the same page with objects of its own, of which nothing is decoded."""
        return Page(self.version, [obj.anew() for obj in self.objects], self.next_token, self.size)


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Name(msgspec.Struct, rename="camel"):
    resource_version: str
    name: str = ""
    namespace: str | None = ""
    annotations: msgspec.Raw = _NOTHING
    managed_fields: msgspec.Raw = _NOTHING


class _Named(msgspec.Struct):
    metadata: _Name


class _Partial(msgspec.Struct):
    metadata: Metadata


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _OnlyVersion(msgspec.Struct, rename="camel"):
    resource_version: str


class _Versioned(msgspec.Struct):
    metadata: _OnlyVersion


class _LedTo(msgspec.Struct):
    object: _Versioned


class _Details(msgspec.Struct, rename="camel"):
    retry_after_seconds: float = 0


class _Status(msgspec.Struct):
    code: int = 0
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None


ENDS_LIST = "k8s.io/initial-events-end"
"""The annotation of the bookmark after a streamed list."""

_ANNOTATIONS = msgspec.json.Decoder(dict[str, str] | None)
WHOLE: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
_LIST = msgspec.json.Decoder(_List)
_NAMED = msgspec.json.Decoder(_Named)
PARTIAL = msgspec.json.Decoder(_Partial)
_LINE = msgspec.json.Decoder(_Line)
_VERSIONED = msgspec.json.Decoder(_Versioned)
_LED_TO = msgspec.json.Decoder(_LedTo)
_STATUS = msgspec.json.Decoder(_Status)
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z._:+-]*")
_PLAIN = {f'{{"type":"{kind}","object":'.encode(): kind for kind in ("ADDED", "MODIFIED", "DELETED")}
"""How a line of a watch begins."""

_UNREADABLE = (msgspec.MsgspecError, KeyError, UnicodeDecodeError)


def decode_page(body: bytes, resource: Resource) -> Page:
    """Decode one page of a list; an ApiError where it is not one."""
    what = f"list of {resource.kind}"
    try:
        return decode(partial(_page, resource), body, what)
    except _UNREADABLE as error:
        raise Unreadable(f"unreadable {what}: {error}") from None


def decode_event(line: bytes, resource: Resource) -> WatchEvent:
    """Decode one line of a watch; raise the error that an ERROR event reports, ApiError for garbage."""
    end = line.find(b":", len(b'{"type":')) + 1  # of the key "object"
    if (kind := _PLAIN.get(line[:end])) and line.endswith(b"}"):
        try:  # one pass instead of two
            return WatchEvent(kind, raw_object(msgspec.Raw(line[end:-1]), resource))
        except (*_UNREADABLE, RecursionError):
            pass  # it is odd, and looked at again
    what = f"watch event of {resource.kind}"
    try:
        return decode(partial(_event, resource), line, what)
    except _UNREADABLE as error:
        raise Unreadable(f"unreadable {what}: {error}") from None


def version_of(line: bytes) -> str:
    """Return the version that a line of a watch leads to; "" for an error, and for one that is no number."""
    try:
        version = decode(_LED_TO.decode, line, "watch event").object.metadata.resource_version
    except (*_UNREADABLE, ApiError):
        return ""
    return version if version.isdecimal() else ""


def _page(resource: Resource, body: bytes) -> Page:
    page = _LIST.decode(body)
    objects = [_listed_object(raw, resource) for raw in page.items or ()]
    return Page(page.metadata.resource_version, objects, page.metadata.continue_, len(body))


def _event(resource: Resource, line: bytes) -> WatchEvent:
    event = _LINE.decode(line)
    if event.type == "ERROR":
        raise _error(_STATUS.decode(event.object))
    if event.type == "BOOKMARK":
        return _bookmark(event.object, resource)
    return WatchEvent(event.type, _any_object(event.object, resource))


def raw_object(raw: msgspec.Raw, resource: Resource) -> RawObject:
    """Decode of an object its key and version."""
    metadata = _NAMED.decode(raw).metadata
    if not metadata.name:
        raise msgspec.ValidationError("an object without a name")
    version = metadata.resource_version
    if not (version.isdigit() and version.isascii()):  # as all are today
        _require_version(version)
    key = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
    return RawObject(key, version, raw, resource, metadata.managed_fields)


def _listed_object(raw: msgspec.Raw, resource: Resource) -> RawObject:
    """Decode an object of a list; one that cannot be read must not hide the others."""
    try:
        return _any_object(raw, resource)
    except _UNREADABLE as error:
        logger.error("%s: left out of a list, since it cannot be read: %s", resource.kind, error)
        return RawObject("", "", raw, resource)


def _any_object(raw: msgspec.Raw, resource: Resource) -> RawObject:
    """Decode an object that has at least a version; its key is empty where it has no name that is a text."""
    try:
        return raw_object(raw, resource)
    except msgspec.ValidationError:
        version = _VERSIONED.decode(raw).metadata.resource_version
        _require_version(version)
        return RawObject("", version, raw, resource)


def _require_version(version: str) -> None:
    if not _VERSION.fullmatch(version):
        raise msgspec.ValidationError(f"bad version {version!r:.80}")


def _bookmark(raw: msgspec.Raw, resource: Resource) -> WatchEvent:
    metadata = _NAMED.decode(raw).metadata
    _require_version(metadata.resource_version)
    annotations = _ANNOTATIONS.decode(metadata.annotations or b"null") or {}
    bookmark = RawObject("", metadata.resource_version, raw, resource)
    return WatchEvent("BOOKMARK", bookmark, ends_list=annotations.get(ENDS_LIST) == "true")


def _error(status: _Status) -> ApiError:
    reason, message = status.reason or "", status.message or "error event without a message"
    if status.code == 410 or reason == "Expired":
        return Expired(message, status=410, reason=reason)
    if status.code == 429:
        wait = status.details.retry_after_seconds if status.details else 0
        return TooManyRequests(message, reason=reason, retry_after=wait or 1.0)
    return ApiError(message, status=status.code, reason=reason)
