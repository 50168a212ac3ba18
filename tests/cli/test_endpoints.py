"""/metrics, /healthz and /readyz of real processes, asked as the kubelet and Prometheus ask."""

import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import urllib3
from prometheus_client.parser import text_string_to_metric_families

from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.testing import EmulatedApiServer
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.queue import Queue
from tests.cli.conftest import CommandLine
from tests.cli.test_run import WATCHER, WORKER
from tests.support.eventually import eventually
from tests.support.tcp_proxy import Mode, TcpProxy

WITHOUT_METRICS = "import sys; sys.modules['prometheus_client'] = None\n"
ANY = {"DISTQ_HTTP_ADDRESS": "127.0.0.1:0"}


class Process:
    """A process of distq that answers over HTTP."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.said = ""
        assert process.stderr is not None
        while not (found := re.search(r"(http://127\.0\.0\.1:\d+)  /healthz, /readyz", self.said)):
            line = process.stderr.readline()
            assert line, self.said
            self.said += line
        self.url = found[1]

    def get(self, path: str) -> tuple[int, str]:
        """Ask, and return status and body."""
        answer = urllib3.request("GET", self.url + path, timeout=20, retries=False)
        return answer.status, answer.data.decode()

    def metrics(self) -> dict[str, float]:
        """Return what a scrape says, by name and labels as they are written."""
        status, text = self.get("/metrics")
        assert status == 200
        samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
        return {
            sample.name
            + "".join(f" {label}={value}" for label, value in sorted(sample.labels.items())): sample.value
            for sample in samples
        }

    def is_ready(self) -> bool:
        """Return whether /readyz says so."""
        return self.get("/readyz")[0] == 200

    def stop(self) -> str:
        """End it as Kubernetes does, and return what it said."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(30)
        assert self.process.stderr is not None
        # communicate() does not have what was read with the lines before
        self.said += self.process.stderr.read()
        assert status == 0, self.said
        return self.said


Start = Callable[..., Process]


@pytest.fixture
def start(distq: CommandLine) -> Iterator[Start]:
    """Start processes, and end those that are left."""
    with ExitStack() as stack:

        def start(*arguments: str, **settings: str) -> Process:
            process = stack.enter_context(distq.start(*arguments, **settings))
            stack.callback(process.kill)
            return Process(process)

        yield start


def test_a_worker_is_scraped_and_probed(distq: CommandLine, start: Start, redis: Connection) -> None:
    """The worker's metrics show its work; the leader's show the contents of the queue."""
    distq.module("foos", WORKER)
    worker = start("worker", "foos", **ANY)
    Queue("foos", redis).add("good", "bad")
    eventually(lambda: worker.metrics()["controller_runtime_reconcile_total controller=foos result=error"])
    metrics = worker.metrics()
    assert metrics["controller_runtime_reconcile_total controller=foos result=success"] == 1
    assert metrics["workqueue_queue_duration_seconds_count controller=foos name=foos"] >= 2
    assert metrics["controller_runtime_max_concurrent_reconciles controller=foos"] == 8
    assert "process_cpu_seconds_total" in metrics
    assert not any(name.startswith("workqueue_depth") for name in metrics)
    assert worker.get("/healthz") == worker.get("/readyz") == (200, "ok\n")
    worker.stop()


def test_run_without_watches_exposes_the_contents_of_the_queue(
    distq: CommandLine, start: Start, redis: Connection
) -> None:
    """One process of a fleet of plain workers can be started so; the flag is the variable."""
    distq.module("foos", WORKER)
    process = start("run", "foos", "--http-address", "127.0.0.1:0")
    Queue("foos", redis).add("later", after=100)
    metrics = process.metrics()
    assert metrics["workqueue_depth controller=foos name=foos priority=0"] == 0
    assert (metrics["distq_delayed name=foos"], metrics["distq_redis_up name=foos"]) == (1, 1)
    assert metrics["workqueue_unfinished_work_seconds controller=foos name=foos"] == 0
    eventually(lambda: process.metrics()["distq_workers name=foos"] == 1)
    process.stop()


def test_a_process_whose_redis_is_away_is_alive_but_not_ready(
    distq: CommandLine, start: Start, redis: Connection, valkey: EmbeddedValkey
) -> None:
    """To start it again would not help; scrapes go on, and say so."""
    distq.module("foos", WORKER)
    with TcpProxy(("127.0.0.1", valkey.port)) as proxy:
        url = f"redis://127.0.0.1:{proxy.port}"
        process = start("run", "foos", **ANY, DISTQ_REDIS_URL=url)
        assert process.get("/readyz")[0] == 200
        modes: tuple[Mode, ...] = ("refuse", "hang")
        for proxy.mode in modes:
            status, why = process.get("/readyz")
            assert (status, f"127.0.0.1:{proxy.port}" in why) == (503, True)
            assert process.get("/healthz") == (200, "ok\n")
            metrics = process.metrics()
            assert metrics["distq_redis_up name=foos"] == 0
            assert metrics["controller_runtime_active_workers controller=foos"] == 0
            assert "distq_ready name=foos" not in metrics
        proxy.mode = "pass"
        eventually(process.is_ready)
        assert process.metrics()["distq_redis_up name=foos"] == 1
        process.stop()


def test_informers_are_ready_when_they_lead_or_follow(
    distq: CommandLine, start: Start, redis: Connection, tmp_path: Path
) -> None:
    """So a rollout goes on; the follower could take over. One that never reached the API server is not."""
    distq.module("foos", WATCHER)
    with EmulatedApiServer() as server:
        kubeconfig = str(server.kubeconfig(tmp_path / "kubeconfig"))
        processes = [start("informer", "foos", "--kubeconfig", kubeconfig, **ANY) for _ in range(2)]
        for process in processes:
            eventually(process.is_ready)
            assert process.get("/healthz")[0] == 200
        eventually(lambda: any(stream.synced for stream in Inspector(redis).streams("foos")))
        status = "leader_election_master_status name=distq-foos"
        assert sorted(process.metrics()[status] for process in processes) == [0, 1]
        synced = "distq_stream_synced name=foos resource=v1/ConfigMap"
        eventually(lambda: [process.metrics().get(synced) for process in processes].count(1) == 1)
        for process in processes:
            process.stop()
    alone = start("informer", "foos", "--kubeconfig", kubeconfig, **ANY)
    assert alone.get("/readyz")[0] == 503
    assert alone.get("/healthz")[0] == 200
    alone.stop()


def test_without_the_extra_there_are_probes(distq: CommandLine, start: Start, redis: Connection) -> None:
    """/metrics names what to install, and so does the log."""
    distq.module("foos", WITHOUT_METRICS + WORKER)
    worker = start("worker", "foos", **ANY)
    assert worker.get("/healthz")[0] == worker.get("/readyz")[0] == 200
    status, why = worker.get("/metrics")
    assert status == 404
    assert "[metrics]" in why
    assert "[metrics]" in worker.stop()


def test_a_bad_or_taken_address_is_a_configuration_error(
    distq: CommandLine, start: Start, redis: Connection, valkey: EmbeddedValkey
) -> None:
    """One line, exit 2."""
    distq.module("foos", WORKER)
    for address in ("8080", f"127.0.0.1:{valkey.port}"):
        done = distq("worker", "foos", "--http-address", address)
        assert (done.returncode, done.stderr.splitlines()[-1].startswith("distq: ")) == (2, True)
        assert "http_address" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["run", "informer", "worker"])
def test_the_address_is_in_the_help_and_the_settings(distq: CommandLine, command: str) -> None:
    """Where people look for it."""
    assert "--http-address" in distq(command, "--help").stdout
    shown = distq(command, "foos", "--show-config", "--http-address", ":8080").stdout
    assert re.search(r"^http_address +:8080$", shown, re.MULTILINE)
