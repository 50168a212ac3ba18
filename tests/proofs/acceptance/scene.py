"""Informers and workers over one cluster and one Redis, and what is asked of all of them."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from distq.cli.demo.journal import Entry
from distq.inspector import Inspector, StreamInfo
from distq.redisio.connection import Connection
from distq.testing.promises import left_over
from tests.proofs.acceptance.journaled_sample import CLAIM_DURATION, QUEUE
from tests.proofs.acceptance.outsider import Outsider
from tests.proofs.acceptance.processes import Process
from tests.support.eventually import eventually

EXIT_WITHIN = 30.0
LOG_TAIL = 3000  # characters of each log; pytest shows them where a test failed
LEASE = {"DISTQ_LEASE_DURATION": "6", "DISTQ_RENEW_DEADLINE": "5", "DISTQ_RETRY_PERIOD": "1"}


class Scene:
    """A context that kills all its processes at its end, and shows what they said last."""

    def __init__(
        self, folder: Path, redis_url: str, outsider: Outsider, *, claim_duration: float = CLAIM_DURATION
    ) -> None:
        self.redis = Connection(redis_url)
        self.inspector = Inspector(self.redis)
        self.outsider = outsider
        self.processes: list[Process] = []
        self._complaints: list[str] = []
        self._folder = folder
        self._settings = {
            "DISTQ_REDIS_URL": redis_url,
            "DISTQ_LEASE_NAMESPACE": outsider.namespace,
            "JOURNALED_CLAIM_DURATION": str(claim_duration),
            **LEASE,
        }

    def start(self, command: str, number: int, kubeconfig: Path) -> Process:
        """Start an informer or a worker."""
        process = Process(
            command, self._folder / f"{command}-{number}", {**self._settings, "KUBECONFIG": str(kubeconfig)}
        )
        self.processes.append(process)
        return process

    def start_informers(self, *kubeconfigs: Path) -> list[Process]:
        """Start informers of which the first leads; return when it does, and the others compete."""
        first = self.start("informer", 1, kubeconfigs[0])
        self.until(self.is_led, "the first informer leads")
        others = [self.start("informer", number, each) for number, each in enumerate(kubeconfigs[1:], 2)]
        for other in others:
            self.until(lambda: "the leader is" in other.log(), "the others compete")  # noqa: B023 - used here
        return [first, *others]

    def start_workers(self, *kubeconfigs: Path) -> list[Process]:
        """Start more workers; return when they have opened their sessions."""
        there = len(self.inspector.workers(QUEUE))
        workers = [self.start("worker", number, each) for number, each in enumerate(kubeconfigs, there + 1)]
        self.until(
            lambda: len(self.inspector.workers(QUEUE)) == there + len(workers), "the workers are there"
        )
        return workers

    def streams(self) -> list[StreamInfo]:
        """Describe what the leader watches."""
        return self.inspector.streams(QUEUE)

    def is_led(self) -> bool:
        """Return whether Foos and Deployments are followed."""
        streams = self.streams()
        return len(streams) == 2 and all(stream.synced for stream in streams)

    def is_done(self, replicas: Mapping[str, int]) -> bool:
        """Return whether the queue rests and each Foo, and no other, has its Deployment with its replicas."""
        (queue,) = self.inspector.queues(QUEUE)
        if queue.depth or queue.processing or queue.delayed:
            return False
        self._complaints = list(self.outsider.complaints(replicas))
        return not self._complaints

    def left_over(self, *, handles: int, objects: int) -> dict[str, int]:
        """Return what Redis holds too much, see ``distq.testing.promises``."""
        return left_over(self.redis, QUEUE, handles=handles, objects=objects, streams=2)

    def journals(self) -> list[Entry]:
        """Return all reconciles."""
        return [entry for process in self.processes for entry in process.journal()]

    def until(self, condition: Callable[[], object], what: str, *, within: float = 60.0) -> None:
        """Return once the condition holds; fail when it takes too long, or a process ends by itself."""

        def holds() -> object:
            fell = [process.name for process in self.processes if process.fell]
            assert not fell, f"{fell} ended before {what}"
            return condition()

        eventually(holds, lambda: f"{what}; {self._complaints[:5]}", timeout=within)

    def terminate_all(self) -> list[int]:
        """SIGTERM what was not killed; return the exit statuses."""
        running = [process for process in self.processes if process.killed_at is None]
        for process in running:
            process.terminate()
        return [process.wait(EXIT_WITHIN) for process in running]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes:
            process.kill()
            sys.stderr.write(f"--- {process.name}\n{process.log()[-LOG_TAIL:]}\n")
        self.redis.close()
