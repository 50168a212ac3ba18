"""client-go's informer and ours follow the same changes, and call their handlers alike."""

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from distq.client import Client, Object
from distq.informer import ListWatch, SharedInformer
from tests.go.clientgo import MODULE
from tests.informer.original import OriginalInformer
from tests.informer.pods import Notes
from tests.support.api_servers import ApiServer, EmulatedServer
from tests.support.eventually import eventually
from tests.support.go_programs import require
from tests.support.parts import IN_CI
from tests.support.recording import RecordingClient, change_schema, create_when_served
from tests.support.tcp_proxy import TcpProxy

NAMES = ["a", "b", "c", "d", "e", "f"]


class Writer:
    """Creates, updates and deletes Widgets at random; a seed says all about it."""

    def __init__(self, client: Client, resource: str, namespace: str, seed: int) -> None:
        self.random = random.Random(seed)
        self.live: dict[str, Object] = {}
        self._client = client
        self._resource = resource
        self._namespace = namespace

    def write(self, changes: int) -> None:
        """Do so many of them."""
        for _ in range(changes):
            name = self.random.choice(NAMES)
            if name not in self.live:
                self.create(name)
            elif self.random.random() < 0.3:
                self.delete(name)
            else:
                self.update(name)

    def create(self, name: str) -> None:
        """Create one."""
        api_version, _, kind = self._resource.rpartition("/")
        metadata = {"name": name, "namespace": self._namespace}
        obj = {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": {}}
        create_when_served(self._client, obj)
        created = self._client.get(self._resource, f"{self._namespace}/{name}")
        assert created is not None
        self.live[name] = created

    def update(self, name: str) -> None:
        """Change one."""
        changed = {**self.live[name], "spec": {"number": self.random.random()}}
        self.live[name] = self._client.update(changed)

    def delete(self, name: str) -> None:
        """Delete one."""
        del self.live[name]
        self._client.delete(self._resource, f"{self._namespace}/{name}")

    def store(self) -> list[str]:
        """Return what there is now, as ``OriginalInformer.store`` does."""
        versions = {name: obj["metadata"]["resourceVersion"] for name, obj in self.live.items()}
        return sorted(f"{name}@{version}" for name, version in versions.items())


class Pair:
    """Both informers, and the writer of the objects that they follow."""

    def __init__(self, original: OriginalInformer, informer: SharedInformer, writer: Writer) -> None:
        self.notes = Notes()
        self.informer = informer
        self.original = original
        self.writer = writer
        self._ends = 0
        informer.add_event_handler(self.notes)

    def store(self) -> list[str]:
        """Return what is in our cache, as ``OriginalInformer.store`` does."""
        return sorted(
            f"{stored.key.partition('/')[2]}@{stored.version}"
            for stored in self.informer.indexer.all_stored()
        )

    def calls(self) -> tuple[list[str], list[str]]:
        """Return the calls of the original and of ours, since this was asked last, once both made all."""
        self._ends += 1
        end = f"end-{self._ends}"
        self.writer.create(end)
        self.writer.delete(end)

        def ended(heard: list[str]) -> bool:
            return any(call.startswith((f"delete {end}@", f"missed {end}@")) for call in heard)

        eventually(
            lambda: ended(self.original.calls) and ended(self.notes.calls),
            lambda: f"the original: {self.original.calls}, ours: {self.notes.calls}",
        )
        assert self.original.store() == self.store() == self.writer.store()
        theirs, self.original.calls = self.original.calls, []
        ours, self.notes.calls = self.notes.calls, []
        return theirs, ours


@dataclass(frozen=True)
class Scene:
    """Widgets in a namespace, written directly and followed through the proxy."""

    client: Client
    proxied: Client
    kubeconfig: Path
    widgets: str
    namespace: str

    @contextmanager
    def pair(self, seed: int, *, resync_period: float = 0.0) -> Iterator[Pair]:
        """Give both informers, which have synced."""
        writer = Writer(self.client, self.widgets, self.namespace, seed)
        writer.write(8)
        list_watch = ListWatch(self.proxied, self.widgets, self.namespace)
        informer = SharedInformer(list_watch, resync_period=resync_period)
        stop = threading.Event()
        thread = threading.Thread(target=informer.run, args=(stop,), daemon=True)
        plural = self.widgets.replace("Widget", "widgets")
        with OriginalInformer(
            self.kubeconfig, plural, self.namespace, resync_period=resync_period
        ) as original:
            pair = Pair(original, informer, writer)
            thread.start()
            try:
                eventually(lambda: original.has_synced() and informer.has_synced())
                yield pair
            finally:
                stop.set()
                thread.join(10)


@pytest.fixture
def scene(
    client: RecordingClient, proxied: RecordingClient, widgets: str, namespace: str, tmp_path: Path
) -> Scene:
    """Give a resource of the test's own; skip the test without client-go."""
    require(MODULE)
    return Scene(client, proxied, tmp_path / "kubeconfig", widgets, namespace)


def seeds(few: int, many: int) -> list[int]:
    """Return fixed seeds: few at a desk, many in CI."""
    return list(range(many if IN_CI else few))


def is_resync(call: str) -> bool:
    """Return whether an object was delivered again though it did not change."""
    kind, _, what = call.partition(" ")
    before, _, after = what.partition("@")[2].partition("-")
    return kind == "update" and before == after


@pytest.mark.conformance("SI-02", "DF-02", "RF-13", "RF-16")
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_calls_are_the_same_in_the_same_order(scene: Scene, proxy: TcpProxy, seed: int) -> None:
    """Every call, first the list's in any order, then one by one; also where the watch breaks in between."""
    with scene.pair(seed) as pair:
        for _ in range(3):
            pair.writer.write(15)
            proxy.reset()
            pair.writer.write(10)
            theirs, ours = pair.calls()
            begin = sum(call.endswith(" first") for call in theirs)
            assert sorted(ours[:begin]) == sorted(theirs[:begin])
            assert ours[begin:] == theirs[begin:]


@pytest.mark.conformance("RF-04", "RF-12", "DF-05", "SI-05")
@pytest.mark.parametrize("seed", seeds(1, 3))
def test_calls_are_the_same_where_a_list_shows_the_missed_changes(
    scene: Scene, api_server: ApiServer, proxy: TcpProxy, seed: int
) -> None:
    """Both were cut off and could not resume: the same differences are delivered, with missed deletions."""
    with scene.pair(seed) as pair:
        pair.writer.create("unchanged")
        pair.calls()
        known = dict(pair.writer.live)
        proxy.mode = "refuse"
        pair.writer.write(25)
        for name in pair.writer.random.sample(sorted(pair.writer.live.keys() & set(NAMES)), 2):
            pair.writer.delete(name)
        missed = known.keys() - pair.writer.live.keys()
        if isinstance(api_server, EmulatedServer):
            api_server.emulator.compact()
        else:
            change_schema(scene.client, f"widgets.{scene.widgets.partition('/')[0]}")
        pair.writer.create("z")
        proxy.mode = "pass"
        eventually(lambda: any(call.startswith("add z@") for call in pair.original.calls))
        eventually(lambda: any(call.startswith("add z@") for call in pair.notes.calls))
        theirs, ours = pair.calls()
        # there a handler without resyncs is called for unchanged objects, too
        theirs = [call for call in theirs if not is_resync(call)]
        assert Counter(ours) == Counter(theirs)
        assert {call.split()[1].split("@")[0] for call in ours if call.startswith("missed")} == missed


@pytest.mark.conformance("RF-18", "SI-04")
@pytest.mark.parametrize("seed", seeds(1, 2))
def test_resyncs_deliver_everything_again_and_change_nothing_else(scene: Scene, seed: int) -> None:
    """Between the changes, which both deliver in one order, each delivers all its objects as they are."""
    with scene.pair(seed, resync_period=1.0) as pair:

        def all_delivered_again() -> bool:
            wanted = {f"update {one}-{one.partition('@')[2]}" for one in pair.writer.store()}
            return wanted <= set(pair.original.calls) and wanted <= set(pair.notes.calls)

        for _ in range(2):
            pair.writer.write(15)
            eventually(all_delivered_again, lambda: f"{pair.original.calls} {pair.notes.calls}")
            theirs, ours = pair.calls()
            for calls in (theirs, ours):
                assert_resyncs_are_of_the_present(calls)
            begin = sum(call.endswith(" first") for call in theirs)
            changes = [[call for call in calls if not is_resync(call)] for calls in (theirs, ours)]
            assert sorted(changes[0][:begin]) == sorted(changes[1][:begin])
            assert changes[0][begin:] == changes[1][begin:]


def assert_resyncs_are_of_the_present(calls: list[str]) -> None:
    """Fail where an object was delivered again in another state than the last one."""
    last: dict[str, str] = {}
    for call in calls:
        kind, what = call.split()[:2]
        name, _, versions = what.partition("@")
        before, _, after = versions.partition("-")
        if is_resync(call):
            assert last.get(name, before) == before, f"{call} after {last[name]}: {calls}"
        last[name] = after or before
        if kind in {"delete", "missed"}:
            del last[name]
