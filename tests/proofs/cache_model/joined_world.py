"""One schedule of two watches whose functions read each other's cache, and what reconciles must have seen."""

import logging
import random
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple
from unittest import mock

from distq.client.objects import Object
from distq.controller.cached.stream_cache import StreamCache
from distq.errors import CacheNotSynced
from distq.informer import reflector
from distq.redisio.checkpoints import checkpoint_of
from distq.redisio.connection import Connection
from distq.redisio.object_cache import CachedObject
from distq.redisio.queue_store import QueueStore
from distq.redisio.stream_keys import StreamKeys
from distq.redisio.stream_store import StreamStore, stream_records
from tests.proofs.cache_model.joined_cluster import (
    FIRST_VERSION,
    FOO,
    GRANT,
    GROUPS,
    NAMES,
    RESOURCES,
    JoinedCluster,
    State,
)
from tests.proofs.cache_model.joined_leader import (
    QUEUE,
    JoinedLeader,
    cache_of,
    group_of,
    lister_of,
    watches_of,
)
from tests.proofs.cache_model.world import Violated
from tests.proofs.simulate.model_cluster import InStepReader
from tests.proofs.simulate.stepped_thread import SteppedClock

STEPS = 80
EPOCH = 1_795_000_000.0
PERIOD = 20.0
"""Seconds between resyncs, where there are any."""
ROUNDS = 100

CHANCES = {
    "others_write": 3,
    "both_come": 4,
    "one_overtakes": 3,
    "fleet_writes": 3,
    "answer_comes": 4,
    "leader_steps": 40,
    "leader_begins": 0.8,
    "leader_dies": 0.4,
    "watches_break": 0.5,
    "bookmark": 1,
    "compacts": 1.5,
    "marks": 0.15,
    "saves": 1,
    "goes_back": 0.3,
    "is_restored": 0.1,
    "loses_a_reply": 1,
    "reconciles": 20,
}


HOSTILE = {
    "fleet_writes",
    "answer_comes",
    "leader_begins",
    "leader_dies",
    "loses_a_reply",
    "marks",
    "goes_back",
    "is_restored",
}
"""What may leave behind what a foo saw before, see ``JoinedWorld``."""


class Answer(NamedTuple):
    """What a write of the fleet will put into a cache, once its answer is there."""

    resource: str
    key: str
    version: int
    state: State | None
    """None: it was found gone as of the version."""


class Patient(SteppedClock):
    """The clock of workers, which wait for nothing here."""

    def wait(self, event: threading.Event, timeout: float) -> bool:
        """Return at once."""
        return event.is_set()


@contextmanager
def in_step() -> Iterator[None]:
    """Let no stream start a thread of its own, nor log."""
    with mock.patch.object(reflector, "ReadAhead", InStepReader):
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)


View = tuple[int, dict[str, int]]
"""What a reconcile saw: the foo's version, 0 for none, and those of its group's grants."""


class JoinedWorld:
    """A cluster, leaders, two streams' caches in Redis, and one worker.

    After any events, the last reconcile of a foo saw it, and all its grants, as they are; and each reconcile
    saw no less of them than there was when the newest leader began. In a calm schedule,
    in which nothing of ``HOSTILE`` happens, it saw no others: else the cache may have lost what a grant was
    before, by which its function finds the foos that it turns away from.
    """

    def __init__(self, connection: Connection, seed: int) -> None:
        self.seen: Counter[str] = Counter()
        self._draw = draw = random.Random(seed)
        random.seed(seed)  # what back-offs and resyncs draw
        self._connection = connection
        self._both, self._is_calm = draw.random() < 0.5, draw.random() < 0.5
        self._resync = PERIOD if draw.random() < 0.2 else 0.0
        self._clock = SteppedClock(EPOCH)
        self._cluster = JoinedCluster()
        self._leaders: list[JoinedLeader] = []
        self._unanswered: list[Answer] = []
        self._views: dict[str, View] = {}
        self._saved: list[dict[bytes, bytes]] = []
        self._store = QueueStore(connection, QUEUE)
        self._caches: dict[str, StreamCache] = {}
        self._at_begin: dict[str, dict[str, State]] = {}
        self._find_caches()

    def play(self) -> None:
        """Play the schedule, then let everything come to rest; raise Violated."""
        self._empty()
        try:
            self._new_leader()
            chances = {what: CHANCES[what] for what in CHANCES if not (self._is_calm and what in HOSTILE)}
            for chosen in self._draw.choices([*chances], [*chances.values()], k=STEPS):
                getattr(self, f"_{chosen}")()
                self.seen[chosen] += 1
            self._come_to_rest()
        finally:
            for leader in self._leaders:
                leader.kill()
        self.seen["lists"] += self._cluster.lists

    # What happens

    def _others_write(self) -> State | None:
        resource = self._draw.choice([FOO, GRANT])
        name = self._draw.choice(NAMES[resource])
        group = None if self._draw.random() < 0.2 else self._draw.choice(GROUPS)
        return self._cluster.write(resource, name, group)

    def _both_come(self) -> None:
        """Let a foo and a grant of one group come at once, or the one come and the other go."""
        group = self._draw.choice(GROUPS)
        self._cluster.write(FOO, self._draw.choice(NAMES[FOO]), group)
        there = [each.name for each in self._cluster.present(GRANT).values() if each.group == group]
        if there and self._draw.random() < 0.3:
            self._cluster.write(GRANT, self._draw.choice(there), None)
        else:
            self._cluster.write(GRANT, self._draw.choice(NAMES[GRANT]), group)
        if self._draw.random() < 0.7:
            self._one_overtakes()

    def _one_overtakes(self) -> None:
        """Let a function have read the other's cache, and all of the other go on before its keys come."""
        if not self._leaders or self._leaders[-1].has_ended:
            return
        first, other = self._draw.choice([(FOO, GRANT), (GRANT, FOO)])
        self._leaders[-1].step_until_it_read(first)
        self._leaders[-1].step_until_it_sleeps(other)
        self._reconciles()

    def _fleet_writes(self) -> None:
        if written := self._others_write():
            resource, name, version, group, _ = written
            state = written if group else None  # a list of the one object shows whether it is gone
            self._unanswered.append(Answer(resource, f"ns/{name}", version, state))

    def _answer_comes(self) -> None:
        if self._unanswered:
            self._answer(self._unanswered.pop(self._draw.randrange(len(self._unanswered))))

    def _answer(self, answer: Answer) -> None:
        cache = self._caches[answer.resource]
        if answer.state is None:
            cache.wrote(dropped={answer.key: str(answer.version)})
        else:
            cache.wrote(kept(cache, answer.state))

    def _leader_begins(self) -> None:
        self._new_leader()

    def _new_leader(self) -> JoinedLeader:
        leader = JoinedLeader(
            self._connection, self._cluster, self._clock, both=self._both, resync=self._resync
        )
        self._leaders.append(leader)
        self._at_begin = {each: dict(self._cluster.present(each)) for each in (FOO, GRANT)}
        return leader

    def _leader_steps(self) -> None:
        leaders = [leader for leader in self._leaders[-2:] if not leader.has_ended]
        if leaders:
            self._draw.choice(leaders).step(self._draw.choice([FOO, GRANT]), self._draw.randint(1, 4))

    def _leader_dies(self) -> None:
        if self._leaders:
            self._leaders.pop().kill()

    def _watches_break(self) -> None:
        self._cluster.broken += 1

    def _bookmark(self) -> None:
        self._cluster.bookmarks += 1

    def _compacts(self) -> None:
        self._cluster.compact()

    def _marks(self) -> None:
        for stream in stream_records(self._connection, QUEUE):
            StreamStore(self._connection, QUEUE, stream).list_all()

    def _loses_a_reply(self) -> None:
        if self._leaders:
            self._leaders[-1].lines[self._draw.choice([FOO, GRANT])].loses = True

    def _saves(self) -> None:
        keys = self._keys()
        dumps = self._connection.pipeline([("DUMP", key) for key in keys])
        self._saved = [*self._saved[-2:], dict(zip(keys, dumps, strict=True))]

    def _goes_back(self) -> None:
        if self._saved:
            place = self._draw.randrange(len(self._saved))
            self._saved = self._saved[: place + 1]
            self._empty()
            for key, dump in self._saved[place].items():
                self._connection.execute("RESTORE", key, 0, dump)
            self._at_begin = {}  # so is what the leader had caught up with
            self._find_caches()

    def _is_restored(self) -> None:
        """Go back to before what the streams have passed, which a leader notices before that comes again."""
        passed = self._checkpoints()
        if len(passed) < 2 or min(passed) < FIRST_VERSION + 2:
            return
        self._cluster.restore(self._draw.randint(FIRST_VERSION, min(passed) - 2))
        self._unanswered, self._saved = [], []
        for leader in self._leaders:
            leader.kill()
        self._connection.execute("HDEL", self._store.key("meta"), "catching_up")  # its time is over
        leader = self._new_leader()
        while any(at > self._cluster.version for at in self._checkpoints()):
            for resource in (FOO, GRANT):
                leader.step(resource, 1)

    def _checkpoints(self) -> list[int]:
        positions = [each.position for each in stream_records(self._connection, QUEUE).values()]
        return [int(at) for each in positions if (at := checkpoint_of(each)).isdigit()]

    def _reconciles(self) -> None:
        for key in [] if self._is_held_back() else self._ready():
            self._reconcile(key)

    def _is_held_back(self) -> bool:
        """Return whether a turn would claim nothing, since the newest leader's streams catch up."""
        (waits,) = self._store.read(("HEXISTS", "meta", "catching_up"))
        self.seen["held back"] += waits
        return bool(waits)

    def _reconcile(self, key: bytes) -> None:
        """Read all that a reconcile reads, in one moment: later ones only show more."""
        foos, grants = (lister_of(self._caches[each]) for each in (FOO, GRANT))
        try:
            foo = foos.get(key.decode())
            found = grants.by_index("group", *group_of(foo)) if foo else []
        except CacheNotSynced:
            self.seen["not synced"] += 1
            return
        self._compare_with_begin(key.decode(), [foo] if foo else [], found)
        self._store.delete([key])
        self._views[key.decode()] = (
            int(foo["metadata"]["resourceVersion"]) if foo else 0,
            {each["metadata"]["name"]: int(each["metadata"]["resourceVersion"]) for each in found},
        )

    # The end

    def _come_to_rest(self) -> None:
        for answer in self._unanswered:
            self._answer(answer)
        leader = self._leaders[-1] if self._is_calm else self._new_leader()
        for _ in range(ROUNDS):
            if leader.has_ended:  # of an epoch that a restored cluster had before
                leader = self._new_leader()
            for resource in (FOO, GRANT):
                leader.step_until_it_sleeps(resource)
            if self._is_at_rest():
                break
            self._reconciles()
            self._cluster.bookmarks += 1
        else:
            stand = [record.position for record in stream_records(self._connection, QUEUE).values()]
            raise Violated(f"no rest at {self._cluster.version}: {stand}, ready: {self._ready()}")
        self._compare_caches()
        for name in NAMES[FOO]:
            self._compare_view(name)

    def _is_at_rest(self) -> bool:
        records = stream_records(self._connection, QUEUE)
        stands = [record.position == str(self._cluster.version) for record in records.values()]
        return stands == [True, True] and not self._ready() and not any(map(self._has_markers, records))

    def _has_markers(self, stream: str) -> bool:
        keys = StreamKeys(self._connection, QUEUE, stream)
        terms, cached = keys.read(("HLEN", "terms"), ("HLEN", "cache"))
        return bool(terms != cached)

    def _compare_caches(self) -> None:
        for resource in (FOO, GRANT):
            present = self._cluster.present(resource)
            shown = {
                each["metadata"]["name"]: int(each["metadata"]["resourceVersion"])
                for each in lister_of(self._caches[resource]).list()
            }
            if shown != (meant := {name: state.version for name, state in present.items()}):
                raise Violated(f"at rest {shown} instead of {meant}")

    def _compare_with_begin(self, key: str, foos: Sequence[Object], grants: Sequence[Object]) -> None:
        """Raise Violated if a reconcile saw less than there was when the newest leader began."""
        groups = {each["metadata"]["labels"]["group"] for each in foos}
        for resource, found in ((FOO, foos), (GRANT, grants)):
            saw = {each["metadata"]["name"]: int(each["metadata"]["resourceVersion"]) for each in found}
            present = self._cluster.present(resource)
            for name, state in self._at_begin.get(resource, {}).items():
                concerns = f"ns/{name}" == key if resource == FOO else state.group in groups
                lasts = present.get(name) == state
                if concerns and lasts and saw.get(name) != state.version:
                    raise Violated(f"a reconcile of {key} saw {saw}, and {state} when the term began")

    def _compare_view(self, name: str) -> None:
        """Raise Violated unless the foo's last reconcile saw it, and all its grants, as they are."""
        foo = self._cluster.present(FOO).get(name)
        version, group = (foo.version, foo.group) if foo else (0, None)
        grants = {
            each.name: each.version for each in self._cluster.present(GRANT).values() if each.group == group
        }
        saw, seen = self._views.get(f"ns/{name}", (0, {}))
        if foo and saw != version and (grants or not self._both):
            raise Violated(f"{foo} was last reconciled at version {saw}")
        if foo and (missing := {each for each in grants if seen.get(each) != grants[each]}):
            raise Violated(f"the last reconcile of {foo} saw {seen}, not {missing} of {grants}")
        if left := seen.keys() - grants.keys():
            self.seen["left"] += 1
            if self._is_calm:
                raise Violated(f"the last reconcile of {foo or name} saw {left}, which are none of {grants}")

    # What it takes

    def _find_caches(self) -> None:
        watches = watches_of(lambda _: lister_of(self._caches[FOO]), both=self._both)
        clock = Patient(EPOCH)
        self._caches = {
            each: cache_of(watch, self._connection, clock, timeout=0.0) for each, watch in watches.items()
        }

    def _ready(self) -> list[bytes]:
        (ready,) = self._store.read(("ZRANGE", "ready", 0, -1))
        return list(ready)

    def _keys(self) -> list[bytes]:
        return list(self._connection.execute("KEYS", f"distq:{{{QUEUE}}}:*"))

    def _empty(self) -> None:
        if keys := self._keys():
            self._connection.execute("DEL", *keys)


def kept(cache: StreamCache, state: State) -> CachedObject:
    """Return the part of an object that a cache keeps, for an object as its writer has it."""
    return cache.caching.keep(cache.caching.raw(state.json().encode(), RESOURCES[state.resource])).object
