"""An event about an object, as it was recorded and as the API server takes it (core/v1)."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from distq.client.objects import Object, metadata, reference, resource_text, title
from distq.dns1123 import DNS1123_SUBDOMAIN
from distq.errors import ConfigError

About = Object | Callable[[], Object | None]
"""An object, or a function that finds it; None where it is gone."""


@dataclass(frozen=True, eq=False)
class RecordedEvent:
    """An event, and its time; ``find`` returns the reference to its object, None where that is gone."""

    find: Callable[[], Object | None]
    what: Object
    nanoseconds: int

    def about(self, reference: Object, component: str) -> Object:
        """Return the event about this object, reported by this component."""
        moment = datetime.fromtimestamp(self.nanoseconds // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        name = f"{reference['name']}.{self.nanoseconds:x}"
        if not DNS1123_SUBDOMAIN.fullmatch(name):  # a few kinds allow any name, and this one may be too long
            name = str(uuid.uuid4())
        return {
            "apiVersion": "v1",
            "kind": "Event",
            # kubectl looks in "default" for events about objects without a namespace
            "metadata": {"name": name, "namespace": reference.get("namespace") or "default"},
            "involvedObject": reference,
            **self.what,
            "count": 1,
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            "source": {"component": component},
            "reportingComponent": component,
        }


def finder_of(about: About, field_path: str) -> Callable[[], Object | None]:
    """Return a function that returns the reference to an object, found now, or when the event is sent."""
    if not callable(about):
        found_now = _reference(about, field_path)
        return lambda: found_now

    def find() -> Object | None:
        found = about()
        return None if found is None else _reference(found, field_path)

    return find


def _reference(about: Object, field_path: str) -> Object:
    """Return the reference to an object as ``involvedObject`` has it; raise ConfigError where it is none."""
    if not isinstance(about, dict):
        raise ConfigError(f"bad object {about!r:.80}: a {type(about).__name__}. Give a dict.")
    resource_text(about)  # for its error
    if not metadata(about).get("name"):
        raise ConfigError(f"bad object {title(about)}: no metadata.name. Give an object that exists.")
    return reference(about) | ({"fieldPath": field_path} if field_path else {})


def content_of(reason: str, message: str, kind: str) -> Object:
    """Return the event's text; raise ConfigError where there is none."""
    if kind not in {"Normal", "Warning"}:
        raise ConfigError(f'bad type {kind!r:.80}. Use "Normal" or "Warning".')
    if not (isinstance(reason, str) and reason and isinstance(message, str)):
        raise ConfigError(
            f"bad event {reason!r:.80}, {message!r:.80}. Give a reason and a message, as texts."
        )
    return {"reason": reason, "message": message, "type": kind}
