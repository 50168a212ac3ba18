"""``deploy/sample`` is what ``distq manifests`` prints for the sample controller, as a kustomize base."""

import re
import shlex
import subprocess
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from distq.cli import logs
from distq.cli.program import main
from tests import ROOT
from tests.support.parts import program

BASE = ROOT / "deploy" / "sample"


def command() -> list[str]:
    """Return the words of the command by which the base says that it was written."""
    text = (BASE / "kustomization.yaml").read_text()
    (line,) = re.findall("^#   distq (.*)$", text, re.MULTILINE)
    words, redirected, file = line.partition(" > ")
    assert redirected
    assert ROOT / file == BASE / "manifests.yaml"
    return shlex.split(words)


def test_the_base_is_the_output_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command in the kustomization prints the file; run it anew where the two differ."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(logs, "configure", lambda *_, **__: None)
    printed = CliRunner(env=dict.fromkeys(("DISTQ_REDIS_URL", "KUBECONFIG"), "")).invoke(main, command())
    assert printed.exit_code == 0, printed.stderr
    assert printed.stdout == (BASE / "manifests.yaml").read_text()


def test_kustomize_takes_the_base() -> None:
    """``kubectl kustomize`` builds it, with every object as it is."""
    kubectl = program("kubectl", package="kubernetes-client")
    command = [kubectl, "kustomize", str(BASE)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert objects(built.stdout) == objects((BASE / "manifests.yaml").read_text())


def objects(text: str) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Return the objects of a text by kind, namespace and name."""
    return {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each
        for each in yaml.safe_load_all(text)
    }
