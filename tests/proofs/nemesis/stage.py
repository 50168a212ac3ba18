"""The fleet on one Redis and one cluster, each process behind a proxy of its own, and load that goes on."""

import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from distq.errors import DistqError
from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.testing.guard import Guard
from distq.testing.promises import left_over
from distq.workqueue.queue import Queue
from tests import ROOT
from tests.informer.faulty_proxy import FaultyProxy
from tests.proofs.nemesis.catalogue import Topology
from tests.proofs.nemesis.fleet import Fleet
from tests.proofs.nemesis.fleet_process import FleetProcess
from tests.proofs.nemesis.gardener import NAMESPACE, Gardener
from tests.proofs.nemesis.journal import Add
from tests.proofs.nemesis.lateness import Lateness
from tests.proofs.nemesis.stepped_clock import VARIABLE, SteppedClock
from tests.proofs.nemesis.traces import Traces
from tests.support.api_servers import ApiServer, kubeconfig_through
from tests.support.ports import free_port
from tests.support.redis_servers import server_of
from tests.support.redis_topologies import Cluster, Sentinels
from tests.support.tcp_proxy import Mode, TcpProxy

WORKERS = ("worker-1", "worker-2", "worker-3")
PRODUCERS = ("producer-1", "producer-2")
INFORMERS = ("informer-1", "informer-2")
NAMES = (*WORKERS, *PRODUCERS, *INFORMERS)
LEASE = {"DISTQ_LEASE_DURATION": "5", "DISTQ_RENEW_DEADLINE": "4", "DISTQ_RETRY_PERIOD": "1"}
LONG_LEASE = {**LEASE, "DISTQ_LEASE_DURATION": "60", "DISTQ_RENEW_DEADLINE": "50"}
"""For a scene that is not about leaders but keeps the machine so busy that they would lose a short lease."""
LEASE_NAME = "nemesis"
LIMITED = ("jobs", "maps")
"""The queues whose namespaces may have a limit."""
ADDS_PER_SECOND, CHANGES_PER_SECOND = 30.0, 6.0
OPTIONS = (
    *("--appendonly", "yes", "--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0"),
    *("--enable-debug-command", "local"),
)
STARTED_WITHIN, AT_REST_WITHIN = 180.0, 180.0


class Stage:
    """A context; what runs in it ends with it, also where this process is killed."""

    def __init__(
        self,
        folder: Path,
        kind: str,
        api: ApiServer,
        chance: random.Random,
        *,
        claim_duration: float,
        topology: Topology = "one server",
        limit: int | None = None,
        root: Path = ROOT,
    ) -> None:
        self.folder = folder
        self.kind = kind
        self.topology = topology
        self.limit = limit
        """Items of a namespace that the fleet may process at a time, in each of ``LIMITED``."""
        self.api = api
        self.chance = chance
        self.claim_duration = claim_duration
        self.root = root
        """The folder of the distq that runs, and of these tests."""
        self.fleet = Fleet(self._make)
        self.notes: list[str] = []
        """Findings of a fault beside the columns."""
        self.surprises: list[str] = []
        """Requirements of the fault itself that were not met."""
        self.healed_from = 0.0
        self._lease = LEASE
        self._roots: dict[str, Path] = {}
        self._own_adds: list[Add] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.guard = stack.enter_context(Guard("nemesis"))
            self.gates: dict[str, TcpProxy] = {}
            if self.topology == "one server":
                self._start_redis(stack)
            else:
                self._start_group(stack)
            self.connection = Connection(self.url)
            self.traces = Traces(lambda: self.url)
            self.lateness = Lateness()
            self.lateness.start()
            stack.callback(self.lateness.end)
            self.clock = SteppedClock(self.folder / "clock")
            self.faulty_api = stack.enter_context(FaultyProxy(self.api))
            self.api_gates = {
                name: stack.enter_context(TcpProxy(("127.0.0.1", self.faulty_api.port))) for name in INFORMERS
            }
            self._create_namespace()
            self.gardener = Gardener(self.api.client(), self.chance, CHANGES_PER_SECOND)
            self.gardener.start()
            stack.callback(self.gardener.end)
            stack.callback(self.fleet.kill_all)
            for name in NAMES:
                self.fleet.start(name)
            self.until(self._is_complete, "all are there", within=STARTED_WITHIN)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        self.connection.close()

    def _start_redis(self, stack: ExitStack) -> None:
        self.data = self.folder / "redis"
        self.data.mkdir(parents=True)
        self.redis = self.new_redis(self.data)
        stack.callback(self._stop_redis)
        self.redis.start()
        for name in NAMES:
            self.gates[name] = stack.enter_context(TcpProxy(("127.0.0.1", self.redis.port)))

    def _start_group(self, stack: ExitStack) -> None:
        """Start servers that know each other; clients get their addresses, so no gate is in between."""
        if self.topology == "cluster":
            self.cluster = stack.enter_context(Cluster(server_of(self.kind), guard=self.guard))
            return
        self.sentinels = stack.enter_context(Sentinels(server_of(self.kind), guard=self.guard))
        self.sentinels.wait_until_settled()

    @property
    def url(self) -> str:
        """Return where Redis is now."""
        match self.topology:
            case "cluster":
                return self.cluster.url
            case "sentinels":
                return self.sentinels.url
            case _:
                return self.redis.url

    def new_redis(self, folder: Path, *options: str) -> EmbeddedValkey:
        """Return a server of this stage's kind that keeps its log in ``folder``; start it."""
        ours = OPTIONS if self.kind != "redis6" else OPTIONS[:-2]
        return EmbeddedValkey(
            server=server_of(self.kind),
            options=("--dir", str(folder), *ours, *options),
            port=free_port(),  # one that no other server gets while it is away
            guard=self.guard,
        )

    # Processes

    def _make(self, name: str, folder: str) -> FleetProcess:
        settings = {
            "DISTQ_REDIS_URL": f"redis://127.0.0.1:{self.gates[name].port}/0" if self.gates else self.url,
            "DISTQ_LEASE_NAMESPACE": NAMESPACE,
            "DISTQ_LEASE_NAME": LEASE_NAME,
            "NEMESIS_CLAIM_DURATION": str(self.claim_duration),
            "NEMESIS_LIMIT": str(self.limit or ""),
            "KUBECONFIG": str(self._kubeconfig(name)),
            VARIABLE: str(self.folder / "clock"),
            **self._lease,
            **self.guard.environment,
        }
        root = self._roots.get(name, self.root)
        process = FleetProcess(name, self._arguments(name), self.folder / folder, settings, root)
        if name in PRODUCERS and not self.loaded:
            (process.folder / "rest").touch()
        return process

    def replace_by(self, name: str, root: Path) -> None:
        """Let the next incarnations of a process be those of the distq in another folder."""
        self._roots[name] = root

    @contextmanager
    def long_lease(self) -> Iterator[None]:
        """Restart the informers with a lease that no busy machine loses, and again at the end."""
        self._restart_informers(LONG_LEASE)
        yield
        self._restart_informers(LEASE)

    def _restart_informers(self, lease: dict[str, str]) -> None:
        self._lease = lease
        informers = self.fleet.named("informer")
        for informer in informers:
            informer.terminate()
        self.until(lambda: all(informer.has_ended() for informer in informers), "the informers end")

    def leader(self) -> FleetProcess:
        """Return the informer that leads, once one does."""
        found: list[FleetProcess] = []

        def leads() -> bool:
            lease = self.api.client().get("coordination.k8s.io/v1/Lease", f"{NAMESPACE}/{LEASE_NAME}")
            says = f" as {lease['spec'].get('holderIdentity')} (lease" if lease else "no process"
            found[:] = [process for process in self.fleet.named("informer") if says in process.log()]
            return bool(found)

        self.until(leads, "somebody leads")
        return found[0]

    def sleep(self, seconds: float) -> None:
        """Let time pass, while Deployments do their work."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.notes += self.fleet.tend()
            self.traces.look()
            time.sleep(min(0.05, max(0.0, until - time.monotonic())))

    def until(self, condition: Callable[[], object], what: str, *, within: float = 120.0) -> None:
        """Return once the condition holds; raise TimeoutError when it takes too long."""
        deadline = time.monotonic() + within
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {within:g} s: {what}")
            self.sleep(0.05)

    # Redis

    def each_gate(self, mode: Mode) -> None:
        """Let all ways to Redis be so."""
        for gate in self.gates.values():
            gate.mode = mode

    def run(self, *command: str | int) -> object:
        """Run a command at Redis, not through any proxy."""
        return self.connection.execute(*command)

    def move_to(self, redis: EmbeddedValkey) -> None:
        """Let new connections lead to another server."""
        self.redis = redis
        for gate in self.gates.values():
            gate.target = ("127.0.0.1", redis.port)
        self.connection.close()
        self.connection = Connection(redis.url)

    def restart_redis(self, *, away: float, instead: Path | None = None) -> None:
        """Kill Redis, and start it after ``away`` seconds, over its own files or over those ``instead``."""
        self.redis.stop()
        if instead is not None:
            shutil.rmtree(self.data)
            shutil.copytree(instead, self.data)
        self.sleep(away)
        self.redis.start()
        self.cause_is_gone()

    def cause_is_gone(self) -> None:
        """Note that healing may begin; called last, it counts."""
        self.healed_from = time.monotonic()

    # Load

    loaded = False

    def begin_load(self, *, traced: bool) -> None:
        """Let all processes add and change, and scripts leave their trace."""
        self.notes, self.surprises, self._own_adds, self.healed_from = [], [], [], 0.0
        self.lateness.forget()
        self.fleet.forget()
        self.gardener.forget()
        if traced:
            self.traces.begin()
        self.go_on()

    def go_on(self) -> None:
        """Let all processes add and change again, after ``end_load``."""
        self.loaded = True
        (self.folder / "hurry").unlink(missing_ok=True)
        for producer in self.fleet.named("producer"):
            (producer.folder / "rest").unlink(missing_ok=True)
        self.gardener.go_on()

    def end_load(self) -> None:
        """Return when no process adds or changes any more, and all that was acknowledged is known."""
        self.loaded = False
        (self.folder / "hurry").touch()
        for producer in self.fleet.named("producer"):
            (producer.folder / "rests").unlink(missing_ok=True)
            (producer.folder / "rest").touch()
        self.gardener.rest()
        self.until(
            lambda: all((producer.folder / "rests").exists() for producer in self.fleet.named("producer")),
            "the producers rest",
        )

    def add(self, key: str, after: float = 0.0) -> None:
        """Add a key that must run, as producers do."""
        queue, asked = Queue("jobs", self.connection), time.monotonic()
        queue.add(key, after=after)
        self._own_adds.append(Add(key, asked, time.monotonic(), after))

    def adds(self) -> list[Add]:
        """Return what was added and acknowledged."""
        return [*self._own_adds, *self.fleet.adds()]

    def left_over(self) -> dict[str, dict[str, int]]:
        """Return by queue what Redis holds too much."""
        workers, objects = len(self.fleet.named("worker")), len(self.gardener.living)
        found = {
            "jobs": left_over(self.connection, "jobs", handles=workers, objects=0, streams=0),
            "maps": left_over(self.connection, "maps", handles=workers, objects=objects, streams=1),
            "roles": left_over(self.connection, "roles", handles=workers, objects=0, streams=2),
        }
        return {queue: excess for queue, excess in found.items() if excess}

    def revive_dead(self) -> None:
        """Run dead items again, and note it; a poison that is known as one goes."""
        inspector = Inspector(self.connection)
        for queue in ("jobs", "maps"):
            for item in inspector.items(queue, state="dead"):
                if not item.key.startswith("poison"):
                    self.notes.append(f"{item.key} was dead: {item.reason}")
                    inspector.requeue(queue, item.key, state="dead")

    def _is_complete(self) -> bool:
        try:
            return not self.left_over()
        except DistqError:
            return False

    def _create_namespace(self) -> None:
        client = self.api.client()
        if client.get("v1/Namespace", NAMESPACE) is None:
            client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})

    def _kubeconfig(self, name: str) -> Path:
        if name not in INFORMERS:
            return self.api.kubeconfig
        path = self.folder / f"{name}.kubeconfig"
        return kubeconfig_through(self.api, self.api_gates[name].port, path, scheme="http")

    @staticmethod
    def _arguments(name: str) -> list[str]:
        kind = name.partition("-")[0]
        if kind == "producer":
            return ["tests.proofs.nemesis.producer", name, str(ADDS_PER_SECOND / len(PRODUCERS))]
        return ["distq", kind, "tests.proofs.nemesis.subject"]

    def _stop_redis(self) -> None:
        self.redis.stop()
