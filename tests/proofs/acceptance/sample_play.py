"""The sample controller at work on a Foo and a large one, each side with its own rights, and the results.

Redis has a cache of another cluster, too, as after a move: so workers have to know in which one they are.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from typing import Any

import yaml

from distq import key_of
from distq.client import Client
from distq.config import Settings
from distq.controller.controller import Controller
from distq.controller.manager import Manager
from distq.controller.watches import For, Owns, identities
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.limits import CACHED_LIMIT
from distq.redisio.stream_store import StreamStore
from distq.workqueue.queue import Queue
from tests import ROOT
from tests.controller.test_manager import managing
from tests.proofs.acceptance.governed_cluster import NAME, NAMESPACE, GovernedCluster
from workers import sample_controller as sample

LEASE, KEY = "coordination.k8s.io/v1/Lease", f"{NAMESPACE}/{NAME}"
SETTINGS = Settings(lease_name=NAME, lease_namespace=NAMESPACE, retry_period=0.5, grace_period=1)

_PADDING = {"padding": "x" * (CACHED_LIMIT - 100)}
"""Almost all that annotations may be; with all else an object is too large for a cache."""

RESTORED = 8
"""How often another client scales the Deployment; events of the Foo restore it less often."""


@contextmanager
def both_sides(connection: Connection, informer: Client, worker: Client) -> Iterator[None]:
    """Run informer and worker until the block ends; the sample uses the worker's Client, too."""
    _leave_a_cache_of_another_cluster(connection)
    with ExitStack() as stack:
        for name in ("client", "controller"):
            stack.callback(setattr, sample, name, getattr(sample, name))
        sample.client = worker
        for client, sides in ((informer, {"workers": False}), (worker, {"informer": False})):
            queue = Queue("foos", connection)
            controller = Controller(queue, sample.reconcile, watches=sample.controller.watches)
            sample.controller = controller  # in the end the worker's
            manager = Manager([controller], redis=connection, client=client, settings=SETTINGS)
            stack.enter_context(managing(manager, **sides))
        yield


def _leave_a_cache_of_another_cluster(connection: Connection) -> None:
    """Leave what a stream that watched the same has said, whose leader is gone."""
    for number, identity in enumerate(identities([For(sample.FOO), Owns(sample.DEPLOYMENT)])):
        about = {"watch": identity, "namespace": None, "cluster": "elsewhere", "cached": ["all"]}
        elsewhere = StreamStore(connection, "foos", f"elsewhere-{number}")
        elsewhere.commit(Commit(epoch="1", after="", new="1", batch="1", about=about))


class SamplePlay:
    """A new Foo that is scaled, and whose Deployment another client scales; ``met`` has the reached goals."""

    def __init__(self, cluster: GovernedCluster, informer: Client) -> None:
        self._admin = cluster.admin
        self._informer = informer
        foo = yaml.safe_load((ROOT / "workers" / "sample-foo.yaml").read_text())
        foo["metadata"]["namespace"] = NAMESPACE
        large = deepcopy(foo)
        large["metadata"] |= {"name": "large-foo", "annotations": _PADDING}
        large["spec"]["deploymentName"] = "large-foo"
        self._foo, self._large, self._deployment = key_of(foo), key_of(large), key_of(foo)
        self._admin.delete(LEASE, KEY)
        for key in (self._foo, self._large):
            self._admin.delete(sample.FOO, key)
            self._admin.delete(sample.DEPLOYMENT, key)
        self._admin.create(large)
        self._uid: str = self._admin.create(foo)["metadata"]["uid"]
        self._scale(sample.FOO, self._foo, 1)
        self.met: set[str] = set()
        self._restored = 0

    def go_on(self) -> set[str]:
        """Take the next steps, and return the goals that are reached so far."""
        for goal, has_come in self.goals.items():
            if goal not in self.met and has_come(self):
                self.met.add(goal)
        return self.met

    def _leads(self) -> bool:
        return bool(self._lease().get("spec", {}).get("holderIdentity"))

    def _names_the_leader(self) -> bool:
        return self._has_event(self._lease().get("metadata", {}).get("uid"))

    def _knows_the_cluster(self) -> bool:
        kube_system = self._admin.get("v1/Namespace", "kube-system") or {}
        return bool(self._informer.cluster_id() == kube_system["metadata"]["uid"])

    def _creates(self) -> bool:
        created = self._replicas() == 1
        if created:
            self._scale(sample.FOO, self._foo, 2)
        return created

    def _scales(self) -> bool:
        return "creates" in self.met and self._replicas() == 2

    def _restores(self) -> bool:
        if "scales" in self.met and self._replicas() == 2:
            self._restored += 1
            self._scale(sample.DEPLOYMENT, self._deployment, 7)
        return self._restored > RESTORED

    def _writes_the_status(self) -> bool:
        return "availableReplicas" in (self._admin.get(sample.FOO, self._foo) or {}).get("status", {})

    def _says_so(self) -> bool:
        return self._has_event(self._uid)

    def _reads_large_ones(self) -> bool:
        deployment = self._admin.get(sample.DEPLOYMENT, self._large)
        if deployment is not None and "padding" not in deployment["metadata"].get("annotations", {}):
            larger = {"metadata": {"annotations": _PADDING}, "spec": {"replicas": 7}}
            self._admin.patch(sample.DEPLOYMENT, self._large, larger)
            return False
        return deployment is not None and deployment["spec"]["replicas"] == 1

    goals: dict[str, Callable[["SamplePlay"], bool]] = {  # noqa: RUF012  never changed
        "leads": _leads,
        "says who leads": _names_the_leader,
        "knows the cluster": _knows_the_cluster,
        "creates": _creates,
        "scales": _scales,
        "restores": _restores,
        "writes the status": _writes_the_status,
        "says so": _says_so,
        "reads large ones": _reads_large_ones,
    }

    def _lease(self) -> dict[str, Any]:
        return self._admin.get(LEASE, KEY) or {}

    def _replicas(self) -> int:
        return int(
            (self._admin.get(sample.DEPLOYMENT, self._deployment) or {"spec": {"replicas": 0}})["spec"][
                "replicas"
            ]
        )

    def _scale(self, resource: str, key: str, replicas: int) -> None:
        self._admin.patch(resource, key, {"spec": {"replicas": replicas}})

    def _has_event(self, uid: str | None) -> bool:
        """Return whether there is an event about the object."""
        events = self._admin.list("v1/Event", NAMESPACE)
        return any(event["involvedObject"].get("uid") == uid for event in events)
