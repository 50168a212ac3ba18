"""What tests of streams share: a term of leadership, a leader in a thread, a look at a queue."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from distq.clock import SYSTEM_CLOCK, Clock
from distq.controller.stream.source_config import SourceConfig
from distq.controller.stream.stream_source import StreamSource
from distq.controller.watches import For, ResourceWatch, identities
from distq.errors import Expired
from distq.metrics import STREAM_FAILURES
from distq.redisio.connection import Connection
from distq.redisio.queue_store import QueueStore
from distq.redisio.records import StreamRecord
from distq.redisio.scores import decode_order
from distq.redisio.stream_store import StreamStore, stream_records
from tests.support.api_servers import ApiServer, EmulatedServer
from tests.support.eventually import eventually
from tests.support.recorded_metrics import RecordedMetrics
from tests.support.recording import RecordingClient

QUEUE = "foos"

ON_ALL_SERVERS = pytest.mark.parametrize(
    ("api_server", "redis_server"),
    [("emulator", "redis7"), ("emulator", "redis6"), ("emulator", "valkey9"), ("real", "valkey9")],
    indirect=True,
)
"""Where streams are tested: on each Redis, and once on a real kube-apiserver."""


@dataclass
class Term:
    """A term of leadership that lasts as long as the test wants."""

    epoch: str = "1"
    identity: str = "leader-1"
    lasts: bool = True
    began: float = field(default_factory=SYSTEM_CLOCK.monotonic)

    def may_act(self) -> bool:
        """Return whether it still lasts."""
        return self.lasts


@dataclass
class Leader:
    """One process's stream, in a thread; it ends with an error or when stopped."""

    stream: StreamSource
    client: RecordingClient
    term: Term
    metrics: RecordedMetrics
    error: BaseException | None = None
    stopped: threading.Event = field(default_factory=threading.Event)

    @property
    def failures(self) -> int:
        """Return how often a function of the watch failed since the start."""
        return self.metrics.counters[STREAM_FAILURES, (QUEUE, self.stream.resource)]

    def start(self) -> None:
        """Begin to lead."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop as on SIGTERM."""
        self.stopped.set()
        self.join()

    def join(self) -> None:
        """Wait for the end."""
        self._thread.join(15)
        assert not self._thread.is_alive(), "the stream did not stop"

    def ended(self) -> bool:
        """Return whether it ended."""
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self.stream.run(self.stopped)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error


@dataclass
class Scene:
    """A cluster and a Redis, in which leaders come and go."""

    kubeconfig: Path
    connection: Connection
    namespace: str
    api_server: ApiServer | None = None
    _expired: bool = False

    def leader(
        self,
        watch: ResourceWatch | None = None,
        *,
        epoch: str = "1",
        clock: Clock = SYSTEM_CLOCK,
        client: RecordingClient | None = None,
        connection: Connection | None = None,
        **config: Any,
    ) -> Leader:
        """Return a leader of one watch, ConfigMaps of the namespace unless given."""
        watch = watch or For("v1/ConfigMap")
        client = client or RecordingClient(self.kubeconfig)
        if self._expired:
            client.refusals.append(Expired("too old resource version", status=410, reason="Expired"))
            self._expired = False
        term = Term(epoch, f"leader-{epoch}", began=clock.monotonic())
        metrics = RecordedMetrics()
        settings = SourceConfig(
            connection=connection or self.connection,
            client=client,
            leadership=term,
            clock=clock,
            metrics=metrics,
            **{"queue": QUEUE, "owner": "default/distq-foos", **config},
        )
        (identity,) = identities([watch])
        stream = StreamSource(watch, settings, identity=identity, namespace=self.namespace)
        return Leader(stream, client, term, metrics)

    @contextmanager
    def leading(self, watch: ResourceWatch | None = None, **options: Any) -> Iterator[Leader]:
        """Run a leader until it is synced, and stop it at the end."""
        leader = self.leader(watch, **options)
        leader.start()
        try:
            eventually(lambda: leader.stream.synced or leader.ended())
            assert leader.error is None, leader.error
            yield leader
        finally:
            leader.stop()

    def key(self, name: str) -> str:
        """Return the key of an object of the namespace."""
        return f"{self.namespace}/{name}"

    def pending(self, queue: str = QUEUE) -> dict[str, int]:
        """Return what is ready, with its priority."""
        (flat,) = QueueStore(self.connection, queue).read(("ZRANGE", "ready", 0, -1, "WITHSCORES"))
        return {
            key.decode(): decode_order(float(score))[0]
            for key, score in zip(flat[::2], flat[1::2], strict=True)
        }

    def has(self, *names: str) -> bool:
        """Return whether these objects' keys, and no others, are ready."""
        return self.pending().keys() == {self.key(name) for name in names}

    def take(self, queue: str = QUEUE) -> dict[str, int]:
        """Take everything that is ready, as workers do."""
        pending = self.pending(queue)
        QueueStore(self.connection, queue).delete(list(pending))
        return pending

    def record(self) -> StreamRecord | None:
        """Return the record of the one stream."""
        records = stream_records(self.connection, QUEUE)
        assert len(records) <= 1
        return next(iter(records.values()), None)

    def known(self) -> dict[str, str]:
        """Return the known set of the one stream."""
        (name,) = stream_records(self.connection, QUEUE)
        return dict(StreamStore(self.connection, QUEUE, name).known())

    def expire(self) -> None:
        """Let the next leader learn that its position is too old to watch from.

        A real API server forgets by a restart only: it is spared that, and its answer given for it.
        """
        if isinstance(self.api_server, EmulatedServer):
            self.api_server.emulator.compact()
        else:
            self._expired = True

    def dump(self) -> dict[bytes, bytes]:
        """Return all of Redis, as a replica has it."""
        return {key: self.connection.execute("DUMP", key) for key in self.connection.execute("KEYS", "*")}

    def restore(self, dump: dict[bytes, bytes]) -> None:
        """Make Redis what it was, as a failover to a replica that lags does."""
        commands: list[tuple[Any, ...]] = [("MULTI",), ("FLUSHALL",)]
        commands += [("RESTORE", key, 0, value) for key, value in dump.items()]
        self.connection.pipeline([*commands, ("EXEC",)])
