"""One schedule of the model: what befalls a cache, drawn from a seed, and what each read of it must show."""

import itertools
import json
import random
from collections import Counter

from distq.redisio.connection import Connection
from distq.redisio.keys import queue_key
from distq.redisio.object_cache import CachedObject, CacheIncomplete, ObjectCache
from distq.redisio.stream_store import StreamStore
from tests.proofs.cache_model.cluster import FIRST_VERSION, NAMES, OWNERS, Cluster, Event, State
from tests.proofs.cache_model.leader import Leader

QUEUE, STREAM = "model", "pods"
KEYS = [
    queue_key(QUEUE, name)
    for name in ("streams", *(f"{each}:{STREAM}" for each in ("known", "cache", "terms", "index")))
]
STEPS = 120

CHANCES = {
    "others_write": 4,
    "fleet_writes": 6,
    "answer_comes": 6,
    "leader_steps": 16,
    "leader_begins": 1,
    "resyncs": 0.5,
    "compacts": 1,
    "marks": 0.2,
    "saves": 1,
    "goes_back": 0.4,
    "is_restored": 0.15,
    "reads": 8,
}


class Violated(AssertionError):
    """A read showed less than was promised, or something is left at rest."""


Promised = dict[str, State]
"""Of each object the latest state that a read must not be behind."""


class World:
    """A cluster, its fleet, and a stream's cache in Redis."""

    def __init__(self, connection: Connection, seed: int, mistakes: frozenset[str] = frozenset()) -> None:
        self.seen: Counter[str] = Counter()
        self._connection = connection
        self._draw = random.Random(seed)
        self._mistakes = mistakes
        self._cluster = Cluster(self._draw)
        self._store = StreamStore(connection, QUEUE, STREAM)
        self._cache = ObjectCache(connection, QUEUE, STREAM)
        self._epochs = itertools.count(1)
        self._leaders: list[Leader] = []
        self._unanswered: list[Event] = []
        self._promised: Promised = {}
        self._saved: list[tuple[list[bytes | None], Promised]] = []
        self._trusted = True
        """False from a restore of the cluster until the leader has noticed it."""

    def play(self) -> None:
        """Play the schedule, then let everything come to rest; raise Violated."""
        self._connection.execute("DEL", *KEYS)
        for chosen in self._draw.choices([*CHANCES], [*CHANCES.values()], k=STEPS):
            getattr(self, f"_{chosen}")()
            self.seen[chosen] += 1
        self._come_to_rest()

    # What happens

    def _others_write(self) -> None:
        self._cluster.write()

    def _fleet_writes(self) -> None:
        self._unanswered.append(self._cluster.write())

    def _answer_comes(self) -> None:
        if self._unanswered:
            self._answer(self._unanswered.pop(self._draw.randrange(len(self._unanswered))))

    def _answer(self, event: Event) -> None:
        name, state = event
        if state.selected:
            self._cache.wrote([state.cached(name)])
        else:
            self._cache.wrote(dropped={name: str(state.version)})
        self._promise(name, state)

    def _leader_begins(self) -> None:
        self._new_leader(of_0_1_0=self._draw.random() < 0.15)

    def _new_leader(self, *, of_0_1_0: bool) -> Leader:
        leader = Leader(
            self._store,
            self._cluster,
            draw=self._draw,
            epoch=next(self._epochs),
            handed_over=self._promise,
            marked=self._trust,
            of_0_1_0=of_0_1_0,
            mistakes=self._mistakes,
        )
        self._leaders.append(leader)
        if not self._trusted:
            leader.rewind()
        return leader

    def _trust(self) -> None:
        self._trusted = True

    def _leader_steps(self) -> None:
        leaders = [leader for leader in self._leaders[-2:] if not leader.is_over]
        if leaders:
            self._draw.choice(leaders).step()

    def _resyncs(self) -> None:
        """Let a leader list beside its watch, slowly; what it would put is as old as its list."""
        if self._leaders and self._trusted:
            self._leaders[-1].resync()

    def _compacts(self) -> None:
        self._cluster.oldest = self._draw.randint(self._cluster.oldest, self._cluster.version)

    def _marks(self) -> None:
        self._store.list_all()

    def _saves(self) -> None:
        if self._trusted:
            self._saved = [*self._saved[-2:], (self._dumps(), dict(self._promised))]

    def _goes_back(self) -> None:
        if not self._saved:
            return
        place = self._draw.randrange(len(self._saved))
        dumps, promised = self._saved[place]
        self._saved = self._saved[: place + 1]
        self._promised = dict(promised)
        restore = [("RESTORE", key, 0, dump) for key, dump in zip(KEYS, dumps, strict=True) if dump]
        self._connection.pipeline([("DEL", *KEYS), *restore])

    def _is_restored(self) -> None:
        self._cluster.restore(self._draw.randint(FIRST_VERSION, self._cluster.version))
        self._unanswered, self._saved, self._promised = [], [], {}
        self._trusted = False
        for leader in self._leaders:
            leader.rewind()

    # What is promised

    def _promise(self, name: str, state: State) -> None:
        if name not in self._promised or self._promised[name].version < state.version:
            self._promised[name] = state

    def _reads(self) -> None:
        if not self._trusted:
            return
        try:
            self._compare()
        except CacheIncomplete:
            self.seen["incomplete"] += 1
        else:
            self.seen["complete"] += 1

    def _compare(self) -> dict[str, CachedObject]:
        shown = {obj.name: obj for page in self._cache.pages() for obj in page}
        name, owner = self._draw.choice(NAMES), self._draw.choice(OWNERS)
        if self._cache.get(name) != shown.get(name):
            raise Violated(f"{name} is {self._cache.get(name)}, but {shown.get(name)} in a list")
        found = [obj.name for obj in self._cache.by_index("owner", owner)]
        if found != [each for each, obj in shown.items() if owner in json.loads(obj.data)]:
            raise Violated(f"the index has {found} for {owner}, of {shown}")
        for each, obj in shown.items():
            if (
                not (truth := self._cluster.state(each, int(obj.version))).selected
                or truth.cached(each).data != obj.data
            ):
                raise Violated(f"{obj} was never so, but {truth}")
        for each, state in self._promised.items():
            self._compare_one(each, state, shown.get(each))
        return shown

    def _compare_one(self, name: str, promised: State, shown: CachedObject | None) -> None:
        if shown is not None:
            if int(shown.version) < promised.version:
                raise Violated(f"{shown} is older than {promised}")
        elif promised.selected and not self._cluster.was_gone_after(name, promised.version):
            raise Violated(f"no {name}, which is {promised}")

    # The end

    def _come_to_rest(self) -> None:
        for event in self._unanswered:
            self._answer(event)
        leader = self._new_leader(of_0_1_0=False)
        for _ in range(200):
            leader.step()
            if leader.is_idle:
                break
        leader.step()  # what was left for the next commit
        try:
            shown = {name: int(obj.version) for name, obj in self._compare().items()}
        except CacheIncomplete:
            raise Violated("at rest the cache is not complete") from None
        expected = {name: state.version for name, state in self._cluster.listed().items()}
        if shown != expected:
            raise Violated(f"at rest {shown} instead of {expected}")
        self._find_leftovers(expected)

    def _find_leftovers(self, expected: dict[str, int]) -> None:
        *_, cache, terms, index = KEYS
        members = {f"all\0{name}" for name in expected}
        for name, version in expected.items():
            members |= {f'["owner","{owner}"]\0{name}' for owner in self._cluster.state(name, version).owners}
        commands = [("HKEYS", cache), ("HKEYS", terms), ("ZRANGE", index, 0, -1)]
        left = set[str]()
        all_meant = (expected.keys(), expected.keys(), members)
        for there, meant in zip(self._connection.pipeline(commands), all_meant, strict=True):
            left |= {*map(bytes.decode, there)} ^ meant
        if left:
            raise Violated(f"at rest there is too much or too little: {left}")

    def _dumps(self) -> list[bytes | None]:
        return self._connection.pipeline([("DUMP", key) for key in KEYS])
