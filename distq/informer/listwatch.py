"""One resource's lists and watches, as requests (client-go tools/cache ListWatch)."""

import random
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from distq.client.client import Client
from distq.client.page_size import bytes_of_page
from distq.client.raw import WatchResponse
from distq.client.resources import Resource, UnknownResource, parse_resource
from distq.errors import NotFound
from distq.forks import cached_property
from distq.informer.selectors import require_selectors
from distq.informer.wire import Page, WatchEvent, decode_event, decode_page
from distq.redisio.limits import PAGE_SIZE

READ_TIMEOUT = 75.0
"""Seconds of silence after which a watch is taken for dead; bookmarks come each minute."""

LIFETIME = (300, 600)
"""Seconds that a watch asks for, as client-go's: at random, so that not all clients come back at once."""

BRIEF_LIFETIME = 3
"""Seconds of a watch that is to bring bookmarks soon: the API server sends some in its last two seconds."""

_JSON = "application/json"
_PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
# The API server ends a watch at its first event where the list's form is asked for.
_PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


class Lines(Iterable[bytes], AbstractContextManager["Lines"], Protocol):
    """A watch under way: whole raw lines, read by one thread, which raise ApiError where the watch breaks.

    Any thread may close it.
    """

    def close(self) -> None:
        """End the watch at once."""


class ListerWatcher(Protocol):
    """Lists and watches for a Reflector (client-go tools/cache ListerWatcher)."""

    def version(self) -> str:
        """Return the resource's present version."""

    def page(self, next_token: str = "", *, limit: int = PAGE_SIZE) -> Page:
        """Return a page of the present list, or the one that ``next_token`` names.

        Raises AnswerTooLarge where several objects, but no more than PAGE_SIZE, have more than LIST_BYTES.
        """

    def watch(self, version: str, *, stream_list: bool = False, brief: bool = False) -> Lines:
        """Watch the events after ``version``; with ``stream_list`` all objects come first.

        A ``brief`` watch ends, and brings bookmarks, within BRIEF_LIFETIME.
        """

    def decode(self, line: bytes) -> WatchEvent:
        """Decode a line of a watch; raise the error that an ERROR event reports."""


@dataclass(frozen=True)
class ListWatch:
    """Lists and watches a resource, "apps/v1/Deployment", narrowed by namespace and selectors.

    ``metadata_only`` asks for PartialObjectMetadata: the objects have nothing but their metadata. Raises
    ConfigError for text that is no resource or no selector; whether the API server has the resource, and the
    fields of a field selector, shows when it is asked.
    """

    client: Client
    resource: str
    namespace: str | None = None
    label_selector: str = ""
    field_selector: str = ""
    metadata_only: bool = False

    def __post_init__(self) -> None:
        parse_resource(self.resource)
        require_selectors(self.resource, self.label_selector, self.field_selector)

    def resolve(self) -> Resource:
        """Return the resource; raise NotFound where the API server does not know it."""
        try:
            return self.client.resolve(self.resource)
        except UnknownResource as error:
            raise UnknownResource(self.resource, what="cannot watch", remedy=error.remedy) from None

    def version(self) -> str:
        """Return the resource's present version; the cheapest question that shows whether lists work."""
        return self._list(1, "", _PARTIAL_LIST).version

    def page(self, next_token: str = "", *, limit: int = PAGE_SIZE) -> Page:
        """Return a page of the present list, or the one that ``next_token`` names; 0 is no limit."""
        return self._list(limit, next_token, _PARTIAL_LIST if self.metadata_only else _JSON)

    def watch(self, version: str, *, stream_list: bool = False, brief: bool = False) -> WatchResponse:
        """Watch the events after ``version``, as raw lines; use it in a with statement.

        With ``stream_list`` all objects come first, as of ``version`` or later, and a bookmark after them.
        Source: KEP-3157.
        """
        query = self._selectors() | {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(BRIEF_LIFETIME if brief else random.randint(*LIFETIME)),
        }
        if stream_list:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        accept = _PARTIAL if self.metadata_only else _JSON
        path = self.resolve().path(self.namespace)
        return self.client.stream(path, query=query, read_timeout=READ_TIMEOUT, accept=accept)

    def decode(self, line: bytes) -> WatchEvent:
        """Decode a line of a watch; raise the error that an ERROR event reports."""
        return decode_event(line, self._watched)

    @cached_property
    def _watched(self) -> Resource:
        """Return the resource of lines: looked up once, since no answer changes its version and kind."""
        return self.resolve()

    def __str__(self) -> str:
        return self.resource if self.namespace is None else f"{self.resource} in {self.namespace}"

    def _list(self, limit: int, next_token: str, accept: str) -> Page:
        resource = self.resolve()
        query = self._selectors()  # no version: "0" would mean any that a cache of the API server has
        if limit:
            query["limit"] = str(limit)
        if next_token:
            query["continue"] = next_token
        path, most = resource.path(self.namespace), bytes_of_page(limit)
        try:
            body = self.client.request("GET", path, query=query, accept=accept, max_bytes=most)
        except NotFound:  # it was known a moment ago, and may come again with other paths
            self.client.forget(resource)
            raise UnknownResource(self.resource, what="cannot watch") from None
        return decode_page(body, resource)

    def _selectors(self) -> dict[str, str]:
        selectors = {"labelSelector": self.label_selector, "fieldSelector": self.field_selector}
        return {name: selector for name, selector in selectors.items() if selector}
