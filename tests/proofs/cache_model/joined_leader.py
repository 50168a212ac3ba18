"""A leader whose mapping functions read each other's cache: the real streams, a step at a time."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

from distq.client.client import Client
from distq.client.objects import Object, key_of
from distq.controller.cached import event_context
from distq.controller.cached.caches import CacheLister
from distq.controller.cached.caching import Caching
from distq.controller.cached.event_context import Place
from distq.controller.cached.stream_cache import StreamCache
from distq.controller.stream.catching_up import CatchingUp
from distq.controller.stream.source_config import SourceConfig
from distq.controller.stream.stream_source import StreamSource
from distq.controller.watches import For, ResourceWatch, Watches
from distq.errors import DistqError, LeaseLost, RedisUnavailable
from distq.informer.lister import Lister
from distq.redisio import scripts
from distq.redisio.connection import Argument, Connection
from distq.redisio.conversation import Meanwhile
from distq.redisio.queue_store import QueueStore
from distq.workqueue.queue import Queue
from tests.proofs.cache_model.joined_cluster import FOO, GRANT, ClusterClient, JoinedCluster
from tests.proofs.simulate.stepped_thread import ProcessKilled, SteppedClock, SteppedThread

QUEUE = "joined"
AT_MOST = 60
"""Steps in which a stream comes to where it waits for more, or for the other one."""
_READ = scripts.load("cache/read")
HELD_BACK = 3600.0
"""Seconds for which reconciles wait at most until both streams have caught up; no schedule takes as long."""
LISTED_WITHIN = 5.0
"""Seconds that a function waits for the first list of the other cache."""


def group_of(obj: Object) -> list[str]:
    """Return the group of a foo or grant."""
    return [obj["metadata"]["labels"]["group"]]


Listers = Callable[[str], Lister]


def watches_of(lister: Listers, *, both: bool) -> dict[str, ResourceWatch]:
    """Return the two watches; ``both`` functions read the other's cache, or the grants' alone.

    A foo is then reconciled only if a function found that it has a grant.
    """

    def foos_of(grant: Object) -> list[str]:
        return [key_of(foo) for foo in lister(FOO).by_index("group", *group_of(grant))]

    def granted(foo: Object) -> list[str]:
        return [key_of(foo)] if lister(GRANT).by_index("group", *group_of(foo)) else []

    indexers = {"group": group_of}
    return {
        FOO: Watches(FOO, granted, cached=True, indexers=indexers)
        if both
        else For(FOO, cached=True, indexers=indexers),
        GRANT: Watches(GRANT, foos_of, cached=True, indexers=indexers),
    }


def cache_of(
    watch: ResourceWatch, connection: Connection, clock: SteppedClock, *, timeout: float
) -> StreamCache:
    """Return how a process reads what a watch keeps."""
    caching = Caching.of(watch)
    assert caching is not None
    queue = Queue(QUEUE, connection)
    return StreamCache(
        watch,
        caching,
        Place(QUEUE, watch.resource, None),
        queue=queue,
        client=_no_client,
        with_short_timeouts=lambda: queue.connection,
        timeout=timeout,
        clock=clock,
    )


def lister_of(cache: StreamCache) -> Lister:
    """Return a lister of one cache."""
    return CacheLister([cache], _no_client, _not_oversized)


class SteppedLine(Connection):
    """A stream's connection: it gives way before each call, and ``loses`` the reply of the next one."""

    def __init__(self, connection: Connection, pause: Callable[[], None]) -> None:
        super().__init__()
        self.loses = False
        self.reads = 0
        self._address, self._servers = connection._address, connection._ready_servers()
        self._pause = pause

    def evaluate_and(
        self, source: str, sha: str, arguments: Sequence[Argument], *then: Any, meanwhile: Meanwhile = None
    ) -> list[Any]:
        """Run a script, and commands after it."""
        assert meanwhile is None
        replies = self._in_step(lambda: Connection.evaluate_and(self, source, sha, arguments, *then))
        self.reads += sha == _READ.sha
        return replies

    def pipeline(self, commands: Sequence[Sequence[Argument]], *, keep_refusals: bool = False) -> list[Any]:
        """Run commands."""
        return self._in_step(lambda: Connection.pipeline(self, commands, keep_refusals=keep_refusals))

    def _in_step(self, ask: Callable[[], list[Any]]) -> list[Any]:
        self._pause()
        replies = ask()
        if self.loses:
            self.loses = False
            raise RedisUnavailable("the connection broke off")
        return replies


class JoinedLeader:
    """One term of one process: a thread for each of the two streams.

    It goes on when it is deposed, until Redis rejects its commit.
    """

    def __init__(
        self,
        connection: Connection,
        cluster: JoinedCluster,
        clock: SteppedClock,
        *,
        both: bool,
        resync: float,
    ) -> None:
        cluster.version += 1
        self.identity, self.epoch = f"leader-{cluster.version}", str(cluster.version)
        self.began = clock.monotonic()
        self.seen: Counter[str] = Counter()
        self.lines: dict[str, SteppedLine] = {}
        self._clock = clock
        self._threads: dict[str, SteppedThread] = {}
        self._streams: dict[str, StreamSource] = {}
        self._stop = threading.Event()
        self._waits: dict[event_context.EventContext, Place] = {}
        self._unexpected: Exception | None = None
        for resource in (FOO, GRANT):
            self._threads[resource] = thread = SteppedThread(partial(self._run, resource))
            self.lines[resource] = line = SteppedLine(connection, thread.pause)
            listers: dict[str, Lister] = {}
            watches = watches_of(listers.__getitem__, both=both)
            for each, watch in watches.items():
                listers[each] = lister_of(cache_of(watch, line, clock, timeout=LISTED_WITHIN))
            config = SourceConfig(
                queue=QUEUE,
                connection=line,
                client=cast("Client", ClusterClient(cluster, thread)),
                leadership=self,
                resync_period=resync,
                clock=clock,
            )
            stream = StreamSource(watches[resource], config, identity=resource)
            stream._on_error = self._report  # type: ignore[method-assign]
            self._streams[resource] = stream
        streams, store = [*self._streams.values()], QueueStore(connection, QUEUE)
        awaited = [stream.caught_up for stream in streams if stream.is_cached]
        self.catching_up = CatchingUp(awaited, store, epoch=self.epoch, timeout=HELD_BACK, clock=clock)
        self.catching_up.begin()

    def may_act(self) -> bool:
        """Return True: Redis alone stops who was deposed."""
        return True

    @property
    def has_ended(self) -> bool:
        """Return whether nothing is left of it."""
        return all(thread.ended for thread in self._threads.values())

    def step_until_it_read(self, resource: str) -> None:
        """Let a stream go on to where a function has just read the other's cache, or to where it sleeps."""
        line, thread = self.lines[resource], self._threads[resource]
        before = line.reads
        for _ in range(AT_MOST):
            self.step(resource, 1)
            if thread.ended or thread.wakes_at or line.reads > before:
                return

    def step_until_it_sleeps(self, resource: str) -> None:
        """Let a stream do all that there is to do, and wait for more."""
        thread = self._threads[resource]
        for _ in range(AT_MOST):
            self.step(resource, 1)
            if thread.ended or thread.wakes_at:
                return

    def step(self, resource: str, times: int) -> None:
        """Let a stream go on for a few steps, or time pass where it sleeps."""
        thread = self._threads[resource]
        for _ in range(times):
            if thread.ended:
                return
            if (late := thread.wakes_at - self._clock.monotonic()) > 0:
                self._clock.step(late)
            event_context._waits = self._waits  # each process has its own
            self._clock.running = thread
            thread.step()
            if self._unexpected is not None:
                raise self._unexpected
        if thread.error is not None and not isinstance(thread.error, LeaseLost | ProcessKilled):
            raise thread.error

    def kill(self) -> None:
        """Die."""
        for thread in self._threads.values():
            self._clock.running = thread
            thread.kill()

    def _run(self, resource: str) -> None:
        self._streams[resource].run(self._stop)

    def _report(self, error: Exception) -> None:
        """Keep what is no fault of the schedule: the stream would try again for ever."""
        if not isinstance(error, DistqError):
            self._unexpected = error


def _no_client() -> Client:
    raise AssertionError("nothing is asked of the API server")


def _not_oversized() -> None:
    raise AssertionError("nothing is too large")
