"""A leader of the model: does on real scripts what a cached stream's leader is to do."""

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from distq.redisio.checkpoints import MARK, checkpoint_of, step_of
from distq.redisio.commit import Commit
from distq.redisio.stream_store import Committed, Fenced, StreamStore
from tests.proofs.cache_model.cluster import Cluster, Event, State

INDICES = ["owner"]


class Deposed(Exception):
    """A later leader has committed, or the stream is elsewhere."""


class Leader:
    """One term; ``of_0_1_0`` keeps no cache.

    ``handed_over`` is called with what keys were enqueued for, ``marked`` once a restore of the cluster is
    noticed. ``mistakes`` are those of the leader itself, by their names in ``controls``.
    """

    def __init__(
        self,
        store: StreamStore,
        cluster: Cluster,
        *,
        draw: random.Random,
        epoch: int,
        handed_over: Callable[[str, State], None],
        marked: Callable[[], None],
        of_0_1_0: bool = False,
        mistakes: frozenset[str] = frozenset(),
    ) -> None:
        self.is_over = False
        self.seen: Counter[str] = Counter()
        self._store = store
        self._cluster = cluster
        self._draw = draw
        self._epoch = epoch
        self._handed_over = handed_over
        self._marked = marked
        self._caches = not of_0_1_0
        self._mistakes = mistakes
        self._batches = itertools.count()
        self._steps: Iterator[None] = iter(())
        self._loaded = False
        self._rewound = False
        self._shown: dict[str, State] | None = None

    def step(self) -> None:
        """Do the next thing, which is one commit at most."""
        try:
            if not self._loaded:
                self._load()
            if next(self._steps, self) is self:
                self._steps = self._work()
        except Deposed:
            self._loaded, self._steps = False, iter(())

    def resync(self) -> None:
        """Take a list beside the watch, or go on with the one that was taken: the watch keeps the cache."""
        shown, self._shown = self._shown, None
        if shown is None:
            self._shown = self._cluster.listed()
        elif "a resync puts" in self._mistakes and self._loaded and self._keeps and self._position.isdigit():
            with suppress(Deposed):
                self._commit(self._position, objects=[state.cached(name) for name, state in shown.items()])

    def rewind(self) -> None:
        """Notice that the cluster was restored."""
        self._rewound, self._shown, self._steps = True, None, iter(())

    @property
    def is_idle(self) -> bool:
        """Return whether all that happened is handed over."""
        at = checkpoint_of(self._position)
        return (
            self._loaded
            and not self._rewound
            and self._position.isdigit()
            and int(at) == self._cluster.version
            and self._keeps
        )

    # What it does

    def _work(self) -> Iterator[None]:
        at = checkpoint_of(self._position)
        if self._rewound:
            self._keeps = False
            self._commit(MARK)
            self._rewound = False
            self._marked()
        elif not at.isdigit() or int(at) < self._cluster.oldest or (self._caches and not self._keeps):
            yield from self._list()
        else:
            yield from self._watch(int(at))

    def _watch(self, at: int) -> Iterator[None]:
        events = self._cluster.events_after(at)[: self._draw.randint(1, 4)]
        if not events:
            self._commit(str(self._cluster.version))  # a bookmark
        elif self._draw.random() < 0.2:
            yield from self._hand_over_in_parts(events[0])
        else:
            self._put([*events], new=str(events[-1].state.version))

    def _hand_over_in_parts(self, event: Event) -> Iterator[None]:
        """Hand over an event of more keys than a commit takes."""
        self.seen["chains"] += 1
        self._put([event], new=self._step())
        yield
        self._commit(str(event.state.version))

    def _list(self) -> Iterator[None]:
        self.seen["lists"] += 1
        late = "cleared after the list was asked for" in self._mistakes
        clears = self._caches and not self._keeps
        shown, version = self._cluster.listed(), self._cluster.version
        self._commit(self._step(), clear_cache=clears and not late)
        yield
        if not late:
            shown, version = self._cluster.listed(), self._cluster.version
        else:
            self._commit(self._step(), clear_cache=clears)
        for name, state in shown.items():
            self._put([Event(name, state)], new=self._step())
            yield
        listed = str(version)
        self._commit(self._step(listed))
        yield
        yield from self._drop_vanished(shown, version)
        self._keeps = self._caches
        self._commit(listed)

    def _drop_vanished(self, shown: dict[str, State], version: int) -> Iterator[None]:
        as_of = "9" * 30 if "a list's end without a version" in self._mistakes else str(version)
        for name in sorted({name for name, _ in self._store.known()} - shown.keys()):
            dropped = {name: as_of} if self._caches else {}
            self._commit(self._step(str(version)), keys=[name], gone=[name], dropped=dropped)
            self._handed_over(name, State(version))
            yield
        for name in itertools.chain(*self._store.cached_names()) if self._caches else ():
            if name not in shown:
                self._commit(self._step(str(version)), dropped={name: as_of})
            yield  # what is there is read page by page
        yield

    # How it does it

    def _load(self) -> None:
        record = self._store.load()
        self._position, self._batch = (record.position, record.batch) if record else ("", "")
        self._keeps = bool(self._caches and record and record.cached_indices() == frozenset(INDICES))
        self._loaded = True

    def _put(self, events: list[Event], *, new: str) -> None:
        last = {event.name: event.state for event in events}
        self._commit(
            new,
            keys=list(last),
            known={name: str(state.version) for name, state in last.items() if state.selected},
            gone=[name for name, state in last.items() if not state.selected],
            objects=[state.cached(name) for name, state in last.items() if state.selected and self._caches],
            dropped={
                name: str(state.version)
                for name, state in last.items()
                if not state.selected and self._caches
            },
        )
        for event in events:
            self._handed_over(*event)

    def _step(self, listed: str = "") -> str:
        return step_of(self._position, f"{self._epoch}:{next(self._batches)}", listed=listed)

    def _commit(self, new: str, **what: Any) -> None:
        batch = f"{self._epoch}-{next(self._batches)}"
        about = {"cached": INDICES} if self._caches and self._keeps else {}
        answer = self._store.commit(
            Commit(epoch=str(self._epoch), after=self._batch, new=new, batch=batch, about=about, **what)
        )
        self.is_over = isinstance(answer, Fenced)
        if not isinstance(answer, Committed):
            raise Deposed
        self._position, self._batch = new, batch
        self.seen["commits"] += 1
