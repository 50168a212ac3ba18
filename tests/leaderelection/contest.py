"""client-go's elector and ours take one Lease from each other again and again, and a witness reads along."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import count, cycle, islice
from pathlib import Path
from typing import Any, Literal

from distq.client import Client
from tests.leaderelection.competitor import Competitor, Kind
from tests.support.eventually import eventually

Manner = Literal["release", "kill", "freeze"]
MANNERS: tuple[Manner, ...] = ("release", "kill", "freeze")
TIMES = (3.0, 2.0, 0.4)
"""Seconds: lease duration, renew deadline, retry period."""
TIMEOUT = 60.0


@dataclass(frozen=True)
class Entry:
    """A Lease's record as it was at some moment."""

    spec: dict[str, Any]

    @property
    def holder(self) -> str:
        """The leader, empty for none."""
        return str(self.spec["holderIdentity"])

    @property
    def transitions(self) -> int:
        """How often the leader changed."""
        return int(self.spec["leaseTransitions"])

    @property
    def acquired(self) -> float:
        """When the term began, by the machine's wall clock."""
        return datetime.fromisoformat(self.spec["acquireTime"]).timestamp()

    @property
    def expires(self) -> float:
        """When the lease runs out unless it is renewed, by the machine's wall clock."""
        renewed = datetime.fromisoformat(self.spec["renewTime"]).timestamp()
        return renewed + float(self.spec["leaseDurationSeconds"])


class Witness:
    """Notes each record that a Lease ever has."""

    def __init__(self, client: Client, namespace: str, lease: str) -> None:
        self.entries: list[Entry] = []
        self._client = client
        self._namespace = namespace
        self._lease = lease

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Read along."""
        query = {"watch": "true", "fieldSelector": f"metadata.name={self._lease}", "timeoutSeconds": "1800"}
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self._namespace}/leases"
        with self._client.stream(path, query=query, read_timeout=600) as stream:
            reader = threading.Thread(target=self._read, args=(stream,), daemon=True)
            reader.start()
            try:
                yield
            finally:
                stream.close()
                reader.join()

    def _read(self, lines: Any) -> None:
        for line in lines:
            event = json.loads(line)
            assert event["type"] in {"ADDED", "MODIFIED"}, event
            self.entries.append(Entry(event["object"]["spec"]))


def clock_offset() -> float:
    """Return what the wall clock shows more than the monotonic one.

    A busy machine may run others between two looks: of many the shortest counts.
    """
    looks = [(time.monotonic(), time.time(), time.monotonic()) for _ in range(100)]
    before, wall, after = min(looks, key=lambda look: look[2] - look[0])
    return wall - (before + after) / 2


class Contest:
    """Two competitors for one Lease: the leader is made to lose it, and another of its kind comes."""

    def __init__(self, client: Client, kubeconfig: Path, namespace: str, number: int) -> None:
        self.lease = f"contest-{number}"
        self.witness = Witness(client, namespace, self.lease)
        self.competitors: list[Competitor] = []
        self.clock_offset = clock_offset()
        self._kubeconfig = kubeconfig
        self._namespace = namespace
        self._number = number
        self._names = count(1)
        self._ending = ExitStack()

    def run(self, handovers: int) -> None:
        """Let it change hands so often: by each manner, from each to the other."""
        with self.witness.watching(), self._ending:
            leader = self._enter("client-go")
            eventually(lambda: bool(leader.acts), timeout=TIMEOUT)
            follower = self._enter("ours", "client-go")
            manners = islice(cycle(MANNERS), self._number, None)
            for manner in islice((each for each in manners for _ in range(2)), handovers):
                self._hand_over(leader, follower, manner)
                leader, follower = follower, self._enter(leader.kind, follower.kind)
        drift = abs(clock_offset() - self.clock_offset)
        assert drift < 0.001, f"the wall clock was set by {drift:.3f} s meanwhile: run it again"

    def _enter(self, kind: Kind, leads: Kind | None = None) -> Competitor:
        """Let a competitor come, and wait until it knows the leader."""
        competitor = Competitor(
            kind,
            f"{kind}-{next(self._names)}",
            kubeconfig=self._kubeconfig,
            namespace=self._namespace,
            lease=self.lease,
            times=TIMES,
        )
        self.competitors.append(self._ending.enter_context(competitor))
        if leads is not None:
            eventually(lambda: bool(competitor.leaders), timeout=TIMEOUT)
        return competitor

    def _hand_over(self, leader: Competitor, follower: Competitor, manner: Manner) -> None:
        """Take the Lease from its leader, unless a busy machine did that already."""
        begin = {"release": leader.cancel, "kill": leader.process.kill, "freeze": leader.freeze}
        begin[manner]()
        eventually(lambda: bool(follower.acts), timeout=TIMEOUT)
        if manner == "freeze":
            leader.thaw()
        eventually(leader.ended, timeout=TIMEOUT)
