"""What a request costs the process that makes it: ``python -m benchmarks.client``.

distq's Client beside ``http.client`` and urllib3, and with ``--against REV`` beside another version of distq:
each in a process of its own, which take turns, on a server of its own with TLS. What is compared is the CPU
time of the process that asks. Exit code 1 where a bar is missed.
"""

import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import IO

import click

from benchmarks.checkouts import ROOT, checkout, python
from benchmarks.report import Row, publish
from distq.testing.kube_api_server import write_kubeconfig

BARS: Mapping[str, float] = {"get": 1.5, "patch": 1.5, "status patch": 1.5}
"""What a request may cost, as a multiple of what it costs by ``http.client``, which has no pool."""

ASYNC = ("await get", "gather")


@click.command()
@click.option("--times", type=click.IntRange(1), help="Requests of a kind in a round.  [default: 320]")
@click.option("--rounds", type=click.IntRange(1), help="How often each subject has its turn.  [default: 9]")
@click.option("--against", metavar="REV", help="Another version of distq, as git names it.")
@click.option("--quick", is_flag=True, help="Three rounds of 96 requests.")
@click.option("--json", "as_json", is_flag=True, help="End with one JSON object.")
def main(times: int | None, rounds: int | None, against: str | None, quick: bool, as_json: bool) -> None:
    """Measure what requests to an API server cost."""
    times, rounds = times or (96 if quick else 320), rounds or (3 if quick else 9)
    with ExitStack() as stack:
        kubeconfig = stack.enter_context(_api_server())
        subjects = {name: (name, ROOT) for name in ("distq", "http.client", "urllib3")}
        if against:
            subjects[against] = ("distq", stack.enter_context(checkout(against)))
        children = {
            name: stack.enter_context(_requester(subject, version, kubeconfig))
            for name, (subject, version) in subjects.items()
        }
        costs = _take_turns(children, times, rounds)
    rows = list(_rows(costs, against))
    sys.exit(publish(rows, as_json=as_json, facts={"requests": times, "rounds": rounds}))


Child = tuple[IO[str], IO[str]]
"""What a requester reads, and what it writes."""
Costs = Mapping[tuple[str, str], Sequence[float]]
"""By subject and act: µs of CPU of a request, round by round."""


def _take_turns(children: Mapping[str, Child], times: int, rounds: int) -> Costs:
    """Let each subject do each act once a round, the rounds in opposite orders; the first one warms up."""
    costs: dict[tuple[str, str], list[float]] = {}
    for number in range(rounds + 1):
        for act in (*BARS, *ASYNC):
            for name in list(children)[:: 1 if number % 2 else -1]:
                if act in BARS or name not in {"http.client", "urllib3"}:
                    cost = _ask(children[name], f"{act} {times if number else 2}")
                    costs.setdefault((name, act), []).append(cost)
    return {what: measured[1:] for what, measured in costs.items()}


def _rows(costs: Costs, against: str | None) -> Iterator[Row]:
    figures = {what: median(measured) for what, measured in costs.items()}
    for act, bar in BARS.items():
        ours = figures["distq", act]
        yield Row(f"{act}: CPU, to http.client", ours, "µs", bar, figures["http.client", act])
        yield Row(f"{act}: CPU, to urllib3", ours, "µs", 1.0, figures["urllib3", act])
    for act in ASYNC:
        yield Row(f"{act}: CPU, to a get", figures["distq", act], "µs", None, figures["distq", "get"])
    if against:
        for act in (*BARS, *ASYNC):
            yield Row(f"{act}: CPU, to {against}", figures["distq", act], "µs", 1.05, figures[against, act])


@contextmanager
def _api_server() -> Iterator[Path]:
    """Serve with a certificate of its own; yield the kubeconfig."""
    with tempfile.TemporaryDirectory(prefix="distq-benchmark-") as name:
        folder = Path(name)
        certificate, key = folder / "server.crt", folder / "server.key"
        request = [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=api",
        ]
        files = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
        subprocess.run([*request, *files], check=True, capture_output=True)
        command = ["-m", "benchmarks.canned_api_server", str(certificate), str(key)]
        with python(command) as process:
            port = _pipes(process)[1].readline().split()[1]
            cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(certificate)}
            # as long as a service account's
            write_kubeconfig(folder / "kubeconfig", cluster=cluster, user={"token": secrets.token_hex(450)})
            yield folder / "kubeconfig"


@contextmanager
def _requester(subject: str, version: Path, kubeconfig: Path) -> Iterator[Child]:
    """Start a subject on a version of distq."""
    with python([str(ROOT / "benchmarks" / "requesters.py"), subject, str(kubeconfig)], version) as process:
        child = _pipes(process)
        if child[1].readline() != "ready\n":
            raise click.ClickException(f"{subject} does not start.")
        yield child


def _pipes(process: "subprocess.Popen[str]") -> Child:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


def _ask(child: Child, line: str) -> float:
    child[0].write(f"{line}\n")
    child[0].flush()
    return float(child[1].readline())


if __name__ == "__main__":
    main()
