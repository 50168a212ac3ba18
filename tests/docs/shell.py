"""What runs the commands that the pages show."""

import importlib
import os
import re
import runpy
import shlex
from pathlib import Path

import click
import yaml

from distq import Queue
from distq.cli.program import main
from distq.errors import TerminalError
from tests.docs.pages import PAGES, ROOT
from tests.docs.reader import Reader, commands, require_lines, runs
from tests.support.parts import program


@runs("distq sandbox")
def the_tour_works(text: str, reader: Reader) -> None:
    """Give the whole block to one shell, and wait where a person would."""
    program("kubectl", package="kubernetes-client")
    look = "kubectl get deployment web --output jsonpath='{.spec.replicas}'"
    wait = f"until {look} | grep -q %s; do sleep 0.1; done\n"
    script = text.replace(look, wait % 5 + look).replace("kubectl patch", wait % 2 + "kubectl patch")
    output = reader.run("bash", text=script, **reader.bare)
    assert "example.com/web patched" in output
    assert re.search(r"^5", output, re.MULTILINE)
    assert re.search(r"^foos +0 ", output, re.MULTILINE)


@runs("distq sandbox --manifest foos.yaml bash -e")
def the_block_can_be_pasted(text: str, reader: Reader) -> None:
    """Give it to a shell as it is: it waits for what it needs, and leaves nothing running."""
    program("kubectl", package="kubernetes-client")
    output = reader.run("bash", "-e", text=text, **reader.bare)
    assert "example.com/web patched" in output
    assert output.endswith("deployment.apps/web condition met\n")


_SHOWS = {
    "examples.cluster_secret": ("clustersecret registry", "reason: Synced"),
    "examples.pod_set": ("podset web", "fullyLabeledReplicas: 3"),
}
"""What an example has reconciled, and what its status then has."""


@runs("distq sandbox --manifest examples/")
def the_example_can_be_tried(text: str, reader: Reader) -> None:
    """Run it until its object is reconciled, and print its manifests."""
    program("kubectl", package="kubernetes-client")
    tried, printed = text.splitlines()
    sandbox, _, run = tried.partition(" distq run ")
    what, shows = _SHOWS[run]
    look = f"kubectl get {what} --output yaml | grep -q '{shows}'"
    script = f"distq run {run} & until {look}; do sleep 0.1; done; kill $!; wait $!"
    reader.run("bash", "-c", f"cd {ROOT} && {sandbox} bash -c {shlex.quote(script)}", **reader.bare)
    the_manifests_of_an_example_are_printed(printed, reader)


@runs("distq manifests examples.")
def the_manifests_of_an_example_are_printed(text: str, reader: Reader) -> None:
    """Print them; tests/examples/test_fleets.py uses them."""
    command, _, file = text.rstrip().partition(" > ")
    assert file
    assert "kind: ClusterRole" in reader.run("bash", "-c", f"cd {ROOT} && {command}", **reader.bare)


@runs("python3 -m venv .venv && .venv/bin/pip install -q -e '.[demo]'")
def the_demo_keeps_its_word(text: str, reader: Reader) -> None:
    """Compare it with the line that is promised; the block with what it prints runs its last part."""
    assert text == "python3 -m venv .venv && .venv/bin/pip install -q -e '.[demo]' && .venv/bin/distq demo\n"


@runs("python3 -m venv .venv && .venv/bin/pip install -q --no-compile -e '.[dev]'")
def the_tests_are_found(text: str, reader: Reader) -> None:
    """Compare it with the line that is promised; its last part is what runs now."""
    line = "python3 -m venv .venv && .venv/bin/pip install -q --no-compile -e '.[dev]' && .venv/bin/pytest\n"
    assert text == line
    assert "pytest" in reader.run("pytest", "--version", **reader.bare)


@runs("distq queues")
def on_call_commands_work(text: str, reader: Reader) -> None:
    """Run each command on a queue that an informer feeds, with one parked item."""
    reader.sandbox.run_until_idle(runpy.run_path(str(reader.folder / "foos.py"))["controller"])
    queue = Queue("foos", reader.sandbox.redis)
    queue.add("prod/web")
    while (request := queue.get(0)).key != "prod/web":
        queue.settle(request)
    queue.settle(request, TerminalError("image missing"))
    queue.close()
    for words in commands(text):
        if words[1] == "dashboard":
            parses(words)  # serves until it is stopped: tests/cli/test_dashboard.py runs it
            continue
        output = reader.run(*words, *["--yes"] if {"dead", "resync"} & {*words} else [])
        if words[1] == "items":
            assert "TerminalError: image missing" in output
        if words[1] == "requeue":
            assert output == "requeued 1\n"


@runs("distq dashboard")
def the_dashboard_takes_the_options(text: str, reader: Reader) -> None:
    """Parse each line, which serves until it is stopped or asks: tests/cli/test_dashboard.py runs them."""
    for words in commands(text):
        main.commands["dashboard"].make_context("dashboard", words[2:], resilient_parsing=True)
        options = {option for each in main.commands["dashboard"].params for option in each.opts}
        assert {word for word in words if word.startswith("--")} <= options


@runs("10:21:07 ada")
def the_audit_is_written_so(text: str, reader: Reader) -> None:
    """Find how each line is written in the code; tests/dashboard reads it from the log."""
    for line in text.splitlines():
        assert re.fullmatch(
            r"[\d:]{8} \w+ from [\d.]+: (logged in|\w+ .* of foos.*: \d+ of \d+ changed)", line
        )


@runs("docker compose")
def the_containers_are_there(text: str, reader: Reader) -> None:
    """Compare it with the compose file; not run, since it needs a container engine and pulls images."""
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    ports = [port for service in services.values() for port in service.get("ports", [])]
    for words in commands(text):
        if words[0] == "kubectl":
            assert words[1:3] == ["--server", "http://127.0.0.1:8001"]
            assert "127.0.0.1:8001:8001" in ports
            assert words[3] == "get" or (ROOT / words[-1]).is_file()
        else:
            assert words[:2] == ["docker", "compose"]
            assert words[2] in {"up", "kill", "down"}
            named = [word.partition("=")[0] for word in words[3:] if not word.startswith("--")]
            assert set(named) <= set(services)
    assert any("http://127.0.0.1:9181/" in page.prose for page in PAGES)
    assert "127.0.0.1:9181:9181" in services["dashboard"]["ports"]


@runs(".venv/bin/ruff")
def the_house_commands_exist(text: str, reader: Reader) -> None:
    """Find each tool here and in ``.ci/run``, which runs them; they take too long for a test."""
    ci = (ROOT / ".ci" / "run").read_text()
    for words in commands(text.replace("&&", "\n")):
        tool = Path(words[0]).name
        assert words[0].startswith(".venv/bin/")
        reader.run(tool, *(words[1:2] if tool == "ruff" else []), "--help", **reader.bare)
        assert tool in ci
        assert " ".join(words[1:]) in ci


@runs(".venv/bin/pip install -q -e '.[docs]'")
def the_documentation_is_built(text: str, reader: Reader) -> None:
    """Find it in ``.ci/run``, which runs it: the tests do without Sphinx."""
    assert text.rstrip() in " && ".join(
        line.strip() for line in (ROOT / ".ci" / "run").read_text().splitlines()
    )


def parses(words: list[str]) -> click.Context:
    """Return the context of a distq command line that its own parser takes."""
    assert words[0] == "distq"
    return main.commands[words[1]].make_context(words[1], words[2:])


@runs(".venv/bin/pip install -q -e '.[ci]'")
def the_lock_is_written_and_audited(text: str, reader: Reader) -> None:
    """Find the programs; they ask the index, which tests do without."""
    install, lock, advisories = text.strip().replace(" && ", "\n").splitlines()
    assert install.endswith("'.[ci]'")
    assert all(os.access(ROOT / program, os.X_OK) for program in (lock, advisories))


@runs("python -m benchmarks.")
def the_measurements_can_be_made(text: str, reader: Reader) -> None:
    """Give each line to its program's own parser; they take too long for a test."""
    for words in commands(text):
        assert words[:2] == ["python", "-m"]
        importlib.import_module(words[2]).main.make_context(words[2], words[3:])


@runs("time  leader ")
def the_demo_prints_that(text: str, reader: Reader) -> None:
    """Run it, and find each line in what it prints, apart from its numbers; advice follows the verdict."""
    printed = reader.run("bash", "-c", "distq demo 2>&1", **reader.bare)
    require_lines(text, printed)
    verdict, advice = " 0 lost, 0 overlaps, 0 left over", "#   distq init Backup "
    assert printed.index(verdict) < printed.index(advice)
