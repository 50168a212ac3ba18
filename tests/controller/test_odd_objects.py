"""No object and no function of a program ends or holds up a stream: the next good object is handed over."""

import itertools
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, example, given, settings
from hypothesis import strategies as st

from distq.client.objects import Object
from distq.client.resources import Resource
from distq.controller.predicate import Predicate, changed, generation_changed
from distq.controller.stream.source_config import SourceConfig
from distq.controller.stream.sources import PeriodicSource
from distq.controller.stream.stream_source import StreamSource
from distq.controller.watches import Every, For, Owns, ResourceWatch, Watches, identities
from distq.redisio.connection import Connection
from distq.redisio.queue_store import QueueStore
from distq.redisio.stream_store import stream_records
from distq.testing.fake_clock import FakeClock
from distq.workqueue.queue import Queue
from tests.controller.leading import QUEUE, Term
from tests.controller.odd_objects import (
    ANSWERS,
    DEEP,
    ERRORS,
    LONE,
    NAMESPACE,
    RESOURCE,
    OddListWatch,
    Silent,
    failing,
    odd_objects,
    sample,
)
from tests.support.eventually import eventually
from tests.workqueue.machine import examples_of

pytestmark = [  # it asks little of Redis itself: one server will do
    pytest.mark.random,
    pytest.mark.timeout(24 * 3600),
    pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True),
]

WITHIN = 15.0
"""Seconds for the next good object; a stream that waits for its next attempt takes 1.6 s, then 3.2 s."""


@pytest.fixture(autouse=True)
def log_to_nowhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let lines be formatted, and keep none: pytest cannot report halves of characters."""
    distq = logging.getLogger("distq")
    monkeypatch.setattr(distq, "propagate", False)
    with Path(os.devnull).open("w", encoding="utf-8", errors="backslashreplace") as nowhere:
        handler = logging.StreamHandler(nowhere)
        distq.addHandler(handler)
        yield
        distq.removeHandler(handler)


class FakeClient:
    """A client of one cluster, of which nothing is asked but what it is."""

    def cluster_id(self) -> str:
        """Return the cluster's name."""
        return "cluster"

    def resolve(self, resource: str) -> Resource:
        """Return the owner's resource."""
        assert resource == RESOURCE
        return Resource("v1", "Pod", "pods", namespaced=True)


@dataclass(repr=False)  # of an exception that cannot be written down there is none
class Functions:
    """What the functions of a watch do with objects that are not good: raise, return, or nothing odd."""

    kind: str
    cached: bool
    metadata_only: bool
    mapping: Any
    predicate: Any
    transform: Any
    index: Any
    compares: str

    def __repr__(self) -> str:
        shown = (
            value if isinstance(value, str | bool) else type(value).__name__ for value in vars(self).values()
        )
        return f"Functions({', '.join(map(str, shown))})"

    def watch(self) -> ResourceWatch:
        """Return the watch."""
        predicates = [failing(self.predicate, lambda _: True)]
        if self.compares == "metadata":
            predicates.append(generation_changed | Predicate(lambda _: True))
        elif self.compares and self.cached and not self.metadata_only:
            predicates.append(changed("spec", "status.phase") | Predicate(lambda _: True))
        options: dict[str, Any] = {"predicates": predicates, "metadata_only": self.metadata_only}
        if self.cached:
            indexers = {"odd": failing(self.index, list), "kind": lambda obj: [obj["kind"]]}
            transform = {} if self.transform is None else {"transform": failing(self.transform, _same)}
            options |= {"cached": True, "indexers": indexers, **transform}
        if self.kind == "Watches":
            return Watches(RESOURCE, failing(self.mapping, lambda obj: [obj["metadata"]["name"]]), **options)
        return (For if self.kind == "For" else Owns)(RESOURCE, **options)

    def key_of(self, name: str) -> bytes:
        """Return which key a good object means."""
        key = {"Watches": name, "For": f"{NAMESPACE}/{name}", "Owns": f"{NAMESPACE}/owner"}[self.kind]
        return key.encode()


def _same(obj: Object) -> Object:
    return obj


_how = st.one_of(st.none(), st.none(), st.sampled_from(ERRORS), st.sampled_from(ANSWERS))
_functions = st.builds(
    Functions,
    kind=st.sampled_from(["For", "Owns", "Watches"]),
    cached=st.booleans(),
    metadata_only=st.booleans(),
    mapping=_how,
    predicate=_how,
    transform=_how,
    index=_how,
    compares=st.sampled_from(["", "metadata", "object"]),
)
_step = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 4), odd_objects()),
    st.tuples(st.just("put"), st.integers(0, 4), odd_objects()),
    st.tuples(st.just("drop"), st.integers(0, 4), st.none()),
    st.tuples(st.sampled_from(["good", "break", "compact"]), st.none(), st.none()),
)


class Scene:
    """A stream in a thread, which follows a resource of odd objects."""

    def __init__(self, connection: Connection, functions: Functions) -> None:
        self.connection = connection
        self.functions = functions
        self.resource = OddListWatch(RESOURCE)
        self._store = QueueStore(connection, QUEUE)
        self._numbers = itertools.count()
        config = SourceConfig(
            queue=QUEUE,
            connection=connection,
            client=FakeClient(),  # type: ignore[arg-type]  # all that is asked
            leadership=Term(),
            owned_by=RESOURCE,
        )
        watch = functions.watch()
        (identity,) = identities([watch])
        self.stream = StreamSource(watch, config, identity=identity, namespace=NAMESPACE)
        self.stream.list_watch = self.resource
        self.error: BaseException | None = None
        self._ended = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the stream until the end of the block."""
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join(WITHIN)
            assert not thread.is_alive(), "the stream did not stop"

    def do(self, what: str, slot: int | None, obj: Object | None) -> None:
        """Let one thing happen to the resource."""
        if what == "put":
            assert slot is not None
            assert obj is not None
            self.resource.put(slot, obj)
        elif what == "drop":
            assert slot is not None
            self.resource.drop(slot)
        elif what == "good":
            self.hand_over_a_good_one()
        elif what == "break":
            self.resource.break_watches()
        else:
            self.resource.compact()

    def hand_over_a_good_one(self) -> None:
        """Create a good object; its key comes, and the checkpoint passes it."""
        name = f"good-{next(self._numbers)}"
        self._store.delete([self.functions.key_of(name).decode()])
        version = self.resource.put(1000 + next(self._numbers), sample(name))
        began = time.monotonic()
        eventually(lambda: self._has_passed(name, version), lambda: self._why(name), timeout=WITHIN)
        event("held up for a moment" if time.monotonic() - began > 0.7 else "at once")

    def _has_passed(self, name: str, version: int) -> bool:
        (score,) = self._store.read(("ZSCORE", "ready", self.functions.key_of(name)))
        position = [record.position for record in stream_records(self.connection, QUEUE).values()]
        has_passed = bool(position) and position[0].isdecimal() and int(position[0]) >= version
        return self.error is not None or (score is not None and has_passed)

    def _why(self, name: str) -> str:
        return f"{name} after {self.resource.asked[-5:]}; failed with {self.stream.last_error.about(float)}"

    def _run(self) -> None:
        try:
            self.stream.run(self._ended)
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self.error = error


def _functions_of(**some: Any) -> Functions:
    parts = dict.fromkeys(("mapping", "predicate", "transform", "index"))
    return Functions(
        **{"kind": "For", "cached": True, "metadata_only": False, "compares": "", **parts, **some}
    )


def _odd(*path: Any, value: Any, name: str = "odd") -> Object:
    obj = sample(name)
    inner: Any = obj
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return obj


def check_stream(
    connection: Connection, functions: Functions, before: list[Object], steps: list[tuple[Any, Any, Any]]
) -> None:
    """Let odd things be there and happen, and a good object come after each list and watch."""
    connection.execute("FLUSHALL")
    scene = Scene(connection, functions)
    for slot, obj in enumerate(before):
        scene.resource.put(slot, obj)
    with scene.running():
        scene.hand_over_a_good_one()
        for step in steps:
            scene.do(*step)
        scene.hand_over_a_good_one()
        scene.resource.compact()
        scene.hand_over_a_good_one()
        assert scene.error is None, repr(type(scene.error))


@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")  # of an object of 1.4 MB
def test_no_object_and_no_function_holds_up_a_stream(connection: Connection) -> None:
    """Any object may be listed and watched, and a watch's functions may do anything: the stream goes on."""

    @settings(
        max_examples=examples_of(desk=8, ci=80),
        deadline=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        phases=[phase for phase in Phase if phase not in {Phase.shrink, Phase.explain}],
    )
    @given(
        functions=_functions,
        before=st.lists(odd_objects(), max_size=3),
        steps=st.lists(_step, max_size=12),
    )
    @example(_functions_of(), [_odd("metadata", value=5)], [])
    @example(_functions_of(), [], [("put", 0, _odd("metadata", "resourceVersion", value=[]))])
    @example(_functions_of(), [], [("put", 0, _odd("metadata", "namespace", value=5))])
    @example(_functions_of(compares="metadata"), [], [("put", 0, _odd("metadata", "labels", value="x"))])
    @example(_functions_of(kind="Owns"), [_odd("metadata", "ownerReferences", value="x")], [])
    @example(_functions_of(), [], [("put", 0, _odd("spec", value=DEEP))])
    @example(_functions_of(), [], [("put", 0, _odd("spec", value=LONE))])
    @example(_functions_of(), [sample("a\nb")], [("put", 1, sample("x" * 1100)), ("drop", 1, None)])
    @example(_functions_of(index=SystemExit()), [sample("a")], [("put", 1, sample("b"))])
    @example(_functions_of(predicate=Silent()), [sample("a")], [("put", 1, sample("b"))])
    @example(_functions_of(transform=KeyboardInterrupt()), [sample("a")], [("put", 1, sample("b"))])
    def check(functions: Functions, before: list[Object], steps: list[tuple[Any, Any, Any]]) -> None:
        check_stream(connection, functions, before, steps)

    check()


@pytest.mark.parametrize("error", ERRORS, ids=[type(error).__name__ for error in ERRORS])
def test_no_exception_ends_an_every(connection: Connection, error: BaseException) -> None:
    """It is called again, sooner than its period; a key that is none stops no other."""
    answers: list[Any] = [error, ["good", "a\nb", "", 5, "x" * 2000, "\ud800", "too"]]

    def keys() -> list[str]:
        answer = answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return list(answer)

    clock, stop, queue = FakeClock(), threading.Event(), Queue(QUEUE, connection)
    config = SourceConfig(
        queue=QUEUE,
        connection=connection,
        client=FakeClient(),  # type: ignore[arg-type]  # all that is asked
        leadership=Term(),
        clock=clock,
    )
    thread = threading.Thread(
        target=PeriodicSource(Every(3600, keys), queue, config).run, args=(stop,), daemon=True
    )
    thread.start()
    try:
        eventually(lambda: clock.waiters() == 1)
        clock.step(2)
        eventually(lambda: queue.depth() == 2)
    finally:
        stop.set()
        clock.step(3600)
        thread.join(10)
    assert not thread.is_alive()
