"""What tests of the informer share: a Client that notes its requests, a sink that notes what it gets."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from distq.client import Client, Object
from distq.client.raw import WatchResponse
from distq.clock import SYSTEM_CLOCK, Clock
from distq.errors import ApiError
from distq.informer.listwatch import ListerWatcher
from distq.informer.objects import key_of
from distq.informer.reflector import Reflector
from distq.informer.wire import RawObject, WatchEvent
from tests.support.eventually import eventually

CONFIG_MAPS = "v1/ConfigMap"
DEFINITIONS = "apiextensions.k8s.io/v1/CustomResourceDefinition"


class RecordingClient(Client):
    """A Client that notes what kind of lists and watches it makes."""

    def __init__(self, kubeconfig: Path) -> None:
        super().__init__(kubeconfig, timeout=5.0)
        self.asked: list[str] = []
        self.refusals: list[ApiError] = []
        """What the next watches are answered, one each, instead of asking the API server."""

    def request(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, **rest: Any
    ) -> bytes:
        """Note ``list``, ``version``, or ``look`` for the list of one object by its name."""
        if method == "GET" and query is not None and "?" not in path:
            of_one = query.get("limit") == "1"
            by_name = "metadata.name=" in query.get("fieldSelector", "")
            self.asked.append(("look" if by_name else "version") if of_one else "list")
        return super().request(method, path, query=query, **rest)

    def stream(self, path: str, *, query: Mapping[str, str], **rest: Any) -> WatchResponse:
        """Note ``watch`` with its version."""
        streams_list = "sendInitialEvents" in query
        self.asked.append("stream" if streams_list else f"watch {query['resourceVersion']}")
        if self.refusals:
            raise self.refusals.pop(0)
        return super().stream(path, query=query, **rest)

    def lists(self) -> int:
        """Return how many pages of lists were asked for, version checks apart."""
        return self.asked.count("list")

    def watches(self) -> int:
        """Return how many watches were opened."""
        return sum(one.startswith("watch") for one in self.asked)


class Recorder:
    """A sink that notes all it gets, and holds its position in memory."""

    def __init__(self, position: str = "") -> None:
        self.version = position
        self.notes: list[str] = []
        self.pages: list[list[str]] = []
        self.objects: dict[str, RawObject] = {}
        self.on_page: Callable[[], None] = lambda: None
        self.on_events: Callable[[Sequence[WatchEvent]], None] = lambda _: None
        self.ticks = 0
        self.hurries = False

    def position(self) -> str:
        """Return the last version noted."""
        return self.version

    def wants_bookmarks(self) -> bool:
        """Return whether a test wants them."""
        return self.hurries

    def connected(self, present: str) -> None:
        """Note it."""
        assert present, "the version is known"
        self.notes.append("connected")

    def events(self, events: Sequence[WatchEvent], since: float) -> None:
        """Note type and key of each."""
        assert since >= 0
        self.on_events(events)
        for event in events:
            self.version = event.version
            name = "" if event.type == "BOOKMARK" else f" {event.object.key}"
            self.notes.append(f"{event.type}{name}")
            if name:
                self.objects[event.object.key] = event.object

    def begin_list(self) -> None:
        """Note it."""
        self.notes.append("begin")
        self.pages = []

    def page(self, objects: Sequence[RawObject]) -> None:
        """Note the keys."""
        self.pages.append([key_of(obj.metadata) for obj in objects])
        self.objects.update({obj.key: obj for obj in objects})
        self.on_page()

    def unlist(self, obj: RawObject) -> None:
        """Note the key."""
        self.notes.append(f"unlist {obj.key}")

    def end_list(self, version: str) -> None:
        """Note it."""
        self.notes.append("end")
        self.version = version

    def expired(self) -> None:
        """Ask for a list."""
        self.notes.append("expired")
        self.version = ""

    def rewound(self, version: str) -> None:
        """Ask for a list."""
        assert version
        self.notes.append("rewound")
        self.version = ""

    def tick(self) -> None:
        """Count it."""
        self.ticks += 1

    def listed(self) -> set[str]:
        """Return the keys of the last list."""
        return {key for page in self.pages for key in page}

    def noted(self, *notes: str) -> Callable[[], bool]:
        """Return whether all of these were noted, as a condition."""
        return lambda: set(notes) <= set(self.notes)


@contextmanager
def running(
    list_watch: ListerWatcher, sink: Recorder, clock: Clock = SYSTEM_CLOCK, *, stream_lists: bool = False
) -> Iterator[threading.Thread]:
    """Run a Reflector in a thread; it must end by itself when stopped."""
    stop = threading.Event()
    reflector = Reflector(list_watch, sink, stream_lists=stream_lists, clock=clock)
    thread = threading.Thread(target=reflector.run, args=(stop,), daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        stop.set()
        thread.join(10)
        assert not thread.is_alive(), "the Reflector did not stop"


def change_schema(client: Client, definition: str) -> None:
    """Change a CRD's spec, on which the API server forgets what watches of it could resume from."""
    obj = client.get(DEFINITIONS, definition)
    assert obj is not None
    schema = obj["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["description"] = f"as of {obj['metadata']['resourceVersion']}"
    client.update(obj)


def create_when_served(client: Client, obj: Object) -> None:
    """Create an object once the API server takes it: it restarts a resource whose schema changed."""

    def is_created() -> bool:
        try:
            client.create(obj)
        except ApiError as error:
            if error.status not in {429, 503}:
                raise
            return False
        return True

    eventually(is_created, "the API server takes the object")
