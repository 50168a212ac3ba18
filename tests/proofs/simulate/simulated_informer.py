"""An informer process: the real reflector, stream and committer, while it leads."""

import threading
from collections.abc import Callable
from typing import Any, cast

from distq.client.client import Client
from distq.controller.stream.source_config import SourceConfig
from distq.controller.stream.stream_source import StreamSource
from distq.controller.watches import For, ResourceWatch, Watches
from distq.errors import DistqError, LeaseLost
from distq.redisio.connection import Connection
from tests.proofs.simulate.faulty_line import FaultyLine
from tests.proofs.simulate.model_cluster import RESOURCE, ClusterClient, Lease, ModelCluster
from tests.proofs.simulate.stepped_thread import ProcessKilled, SteppedClock, SteppedThread

LEASE_DURATION = 15.0
RENEW_DEADLINE = 10.0

Connect = Callable[[str, Callable[[], None]], FaultyLine]
"""Returns a connection of a process, which gives way before each call."""


def owner_key(obj: dict[str, Any]) -> list[str]:
    """Return the key of an object's owner."""
    return [f"ns/{obj['metadata']['labels']['owner']}"]


class SimulatedTerm:
    """One term of leadership; ``may_act`` is what an elector says."""

    def __init__(self, identity: str, lease: Lease, epoch: str, clock: SteppedClock) -> None:
        self.identity = identity
        self.lease = lease
        self.epoch = epoch
        self.began = self.renewed_at = clock.monotonic()
        self.lost = False
        self._clock = clock

    def may_act(self) -> bool:
        """Return whether no other informer can lead."""
        return not self.lost and self._clock.monotonic() < self.renewed_at + RENEW_DEADLINE


class SimulatedInformer:
    """One process, which leads where it can."""

    def __init__(
        self,
        name: str,
        cluster: ModelCluster,
        clock: SteppedClock,
        connect: Connect,
        *,
        mapped: bool,
        resync: float,
    ) -> None:
        self.name = name
        self.line: FaultyLine | None = None
        self.thread: SteppedThread | None = None
        self.term: SimulatedTerm | None = None
        self._cluster = cluster
        self._clock = clock
        self._connect = connect
        self._watch: ResourceWatch = Watches(RESOURCE, keys=owner_key) if mapped else For(RESOURCE)
        self._resync = resync
        self._unexpected: Exception | None = None

    @property
    def waits_until(self) -> float:
        """Return until when it sleeps."""
        return self.thread.wakes_at if self.thread is not None else 0.0

    def step(self, *, renews: bool) -> None:
        """Lead if no informer does; let the stream go on; renew the Lease, or learn that another has it."""
        if self.thread is None:
            self._compete()
            return
        self._clock.running = self.thread
        self.thread.step()
        if self._unexpected is not None:
            raise self._unexpected
        if self.thread.ended:
            self._end_term()
        elif renews:
            self._renew()

    def kill(self) -> None:
        """Die."""
        if self.thread is not None:
            self._clock.running = self.thread
            self.thread.kill()
        self.thread = self.term = self.line = None

    def _compete(self) -> None:
        now = self._clock.monotonic()
        if lease := self._cluster.lead(self.name, now, lasts=LEASE_DURATION):
            self.term = SimulatedTerm(self.name, lease, epoch_of(self._cluster, lease), self._clock)
            self.thread = thread = SteppedThread(self._run)
            self.line = self._connect(self.name, thread.pause)
            config = SourceConfig(
                queue="foos",
                connection=cast("Connection", self.line),
                client=cast("Client", ClusterClient(self._cluster, thread)),
                leadership=self.term,
                resync_period=self._resync,
                clock=self._clock,
            )
            self._stream = StreamSource(self._watch, config, identity="configmaps")
            self._stream._on_error = self._report  # type: ignore[method-assign]
            self._stopped = threading.Event()

    def _run(self) -> None:
        self._stream.run(self._stopped)

    def _report(self, error: Exception) -> None:
        """Keep what is no fault of the schedule: the stream would try again for ever."""
        if not isinstance(error, DistqError):
            self._unexpected = error

    def _renew(self) -> None:
        term = self.term
        assert term is not None
        if self._cluster.lease is term.lease:
            term.renewed_at = term.lease.renewed_at = self._clock.monotonic()
        else:
            term.lost = True
            self._stopped.set()

    def _end_term(self) -> None:
        assert self.thread is not None
        error, self.thread, self.term, self.line = self.thread.error, None, None, None
        if error is not None and not isinstance(error, LeaseLost | ProcessKilled):
            raise error


def epoch_of(cluster: ModelCluster, lease: Lease) -> str:
    """Return the version of the Lease write that began a term."""
    return str(lease.epoch)
