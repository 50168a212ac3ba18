"""A sandbox can be seen, found and pasted into; what is wrong with a manifest has a place."""

import subprocess
from pathlib import Path

import pytest

from tests.proofs.first_contact.conftest import PROGRAMS, Desk
from tests.support.parts import program
from tests.support.samples import FOO_DEFINITION

pytestmark = pytest.mark.first_contact(16)

FOO = "\n---\napiVersion: example.com/v1\nkind: Foo\nmetadata: {name: web, namespace: default}\n"

HOSTILE = (
    "export PATH=/usr/bin:/bin KUBECONFIG=/elsewhere DISTQ_REDIS_URL=redis://elsewhere/0; PS1='mine$ '\n"
)
"""Start-up files as people have them."""


@pytest.mark.parametrize(
    ("command", "file"), [(["bash"], ".bashrc"), (["bash", "-i"], ".bashrc"), (["bash", "-l"], ".profile")]
)
def test_a_shell_is_marked_and_finds_everything(desk: Desk, command: list[str], file: str) -> None:
    """With any start-up files: a banner, a mark on the prompt, distq, and the sandbox's addresses."""
    (desk.folder / file).write_text(HOSTILE)
    window = desk.open(str(PROGRAMS / "distq"), "sandbox", *command, PATH="/usr/bin:/bin")
    window.wait_for(r"# distq sandbox: Valkey at 127\.0\.0\.1:\d+, an emulated API server at http://")
    window.wait_for(r"\(distq sandbox\) mine\$ ")
    window.type("distq queues; type -p distq; echo $KUBECONFIG $DISTQ_REDIS_URL\n")
    window.wait_for("no queues yet")
    window.wait_for(f"{PROGRAMS}/distq")
    window.wait_for(rf"{desk.temporary}/distq-sandbox-\w+/kubeconfig redis://127\.0\.0\.1:\d+/0")
    window.type("exit\n")
    assert window.wait() == 0


def test_any_command_finds_the_programs_beside_distq(desk: Desk) -> None:
    """The virtualenv need not be activated."""
    done = subprocess.run(
        [str(PROGRAMS / "distq"), "sandbox", "sh", "-c", "distq queues"],
        env=desk.environment | {"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "no queues yet\n")


def test_a_block_can_be_pasted_whole(desk: Desk) -> None:
    """The CRD of the manifest is served before the first command, and kubectl can wait for others."""
    program("kubectl", package="kubernetes-client")
    (desk.folder / "foos.yaml").write_text(FOO_DEFINITION + FOO)
    (desk.folder / "bars.yaml").write_text(FOO_DEFINITION.replace("foo", "bar").replace("Foo", "Bar"))
    window = desk.open("bash", "--norc")
    window.type(
        "distq sandbox --manifest foos.yaml bash -e <<'END'\n"
        "kubectl get foos web\n"
        "kubectl apply --filename bars.yaml\n"
        "kubectl wait --for=condition=Established --timeout=30s crd/bars.example.com\n"
        "kubectl get bars && echo all is well\n"
        "END\n"
    )
    window.wait_for(r"\nweb +")
    window.wait_for("bars.example.com condition met")
    window.wait_for(r"\nall is well")


MALFORMED = [
    (FOO, "3:1: cannot load Foo: no such kind in example.com/v1. Load its CRD first."),
    ("a: b\n  c: [d\n", "2:4: mapping values are not allowed here. Correct the YAML."),
    ("kind: Foo\n\tx: y\n", "2:1: found character '\\t' that cannot start any token. Correct the YAML."),
    (FOO_DEFINITION + "---\nkind: Foo\n", "15:1: an object without apiVersion and metadata. Add it."),
    ("- a\n", "1:1: a list instead of an object. Give apiVersion, kind and metadata."),
    ("# only words\nhello\n", "2:1: a plain value instead of an object. Give apiVersion, kind and metadata."),
    ("a: *b\n", "1:4: found undefined alias 'b'. Correct the YAML."),
    ("\0", "1:1: not text in UTF-8. Give a file of YAML."),
]
"""Manifests, and what is printed about them; a desk tries the first two."""


@pytest.mark.parametrize(
    ("text", "message"),
    [*MALFORMED[:2], *(pytest.param(*each, marks=pytest.mark.slow) for each in MALFORMED[2:])],
)
def test_a_malformed_manifest_is_one_line_with_its_place(desk: Desk, text: str, message: str) -> None:
    """As compilers say it, so that editors find it."""
    (desk.folder / "foos.yaml").write_text(text)
    done = subprocess.run(
        ["distq", "sandbox", "--manifest", "foos.yaml", "true"],
        cwd=desk.folder,
        env=desk.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"distq: foos.yaml:{message}\n")
    desk.require_nothing_left()


def test_containers_take_no_cluster_unasked() -> None:
    """A KUBECONFIG that happens to be exported is another cluster's."""
    compose = (Path(__file__).parents[3] / "docker-compose.yml").read_text()
    assert "${KUBECONFIG" not in compose
    assert "- ${DISTQ_KUBECONFIG:-./deploy/compose-kubeconfig.yaml}:/kubeconfig:ro" in compose
