"""What follows the tutorial: in a directory of its own, from the first block to the last."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

from distq import get_condition
from distq.testing import Sandbox
from tests.cli.program import ImportedProgram
from tests.docs.manifests import client_of
from tests.docs.pages import PAGES, Block
from tests.docs.reader import TIMEOUT, Reader, require_lines, runs
from tests.support.api_servers import RealApiServer, real_api_server_assets
from tests.support.eventually import eventually
from tests.support.parts import program

(PAGE,) = [page for page in PAGES if page.name == "docs/tutorial.md"]
FILES = ("crd.yaml", "home.yaml", "sites.py", "deployment.py", "dns_provider.py", "test_sites.py")
SANDBOX = "distq sandbox --manifest crd.yaml --manifest home.yaml bash"


@runs(f"# {FILES[0]}")
def the_tutorial_can_be_followed(text: str, reader: Reader) -> None:
    """Follow all of it, up to its tests, in a directory of its own."""
    program("kubectl", package="kubernetes-client")
    folder = reader.folder / "tutorial"
    folder.mkdir()
    follow(folder, reader.program)


@runs(
    *(f"# {file}" for file in FILES[1:]),
    SANDBOX,
    "distq resync sites",
    "kubectl create configmap news",
    "reconciling default/home",
    "NAME   READY   UP-TO-DATE",
    "NAME   PAGE",
    "Warning  PageNotFound",
    '{"example.com/page"',
)
def the_block_is_a_step_of_it(text: str, reader: Reader) -> None:
    """Find the block among those that the test above follows in their order."""
    assert text in {block.text for block in PAGE.blocks}


def follow(folder: Path, imported: ImportedProgram) -> None:
    """Go from block to block, and wait where the page says so; then run the tests, and more workers."""
    (last,) = [i for i, block in enumerate(PAGE.blocks) if block.title == "# test_sites.py"]
    for block in PAGE.blocks[:3]:
        save(folder, block)
    with Sandbox(manifests=[folder / "crd.yaml", folder / "home.yaml"]) as sandbox:
        reader = Reader(folder, sandbox, imported)
        with running(reader) as log:
            for block, after in pairwise(PAGE.blocks[3 : last + 1]):
                if block.language == "python":
                    save(folder, block)
                    log.until("starting anew", "synced ")
                elif block.title == "reconciling default/home":
                    log.until(block.text, "synced ")
                elif block.language == "sh" and block.title != SANDBOX:
                    shown = after.text if after.language == "text" else ""
                    require_lines(shown, reader.run("bash", "-e", text=block.text))
    save(folder, PAGE.blocks[last])
    reader.test("test_sites.py")
    add_workers(PAGE.blocks[last + 1], reader)


def add_workers(block: Block, reader: Reader) -> None:
    """Run the block until both workers are there and one informer leads; tests/cli serves the dashboard."""
    enter, *lines = block.text.splitlines()
    assert enter == SANDBOX
    assert lines.pop() == "distq dashboard --actions &"
    wait = {
        "distq workers sites": "until [ $(distq workers sites --json | wc -l) = 2 ]; do sleep 0.2; done",
        "distq leader sites": "until distq leader sites --json | grep -q Site; do sleep 0.2; done",
    }
    script = "\n".join(f"{wait.get(line, '')}\n{line}" for line in lines)
    reader.run(*enter.split(), "-e", text=f"{script}\n", **reader.bare)


def save(folder: Path, block: Block) -> None:
    """Write a file, in the version of a step."""
    name = block.title.removeprefix("# ").partition(",")[0]
    (folder / name).write_text(block.text)


class Log:
    """What the controller prints."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    def until(self, *texts: str) -> None:
        """Wait until these have been printed, one after the other, after what was waited for before."""
        deadline = time.monotonic() + TIMEOUT
        for text in texts:
            while (found := self._path.read_text().find(text, self._read)) < 0:
                assert time.monotonic() < deadline, f"not printed: {text}\n{self._path.read_text()}"
                time.sleep(0.1)
            self._read = found + len(text)


@contextmanager
def running(reader: Reader) -> Iterator[Log]:
    """Run ``distq run sites --reload``, as the page says."""
    path = reader.folder / "log"
    with writing(path, ["distq", "run", "sites", "--reload"], reader):
        yield Log(path)


@contextmanager
def writing(
    log: Path, command: list[str], reader: Reader, environment: dict[str, str] | None = None
) -> Iterator[None]:
    """Run a command, which writes into a log, until the block ends."""
    own = reader.environment | {"PYTHONUNBUFFERED": "1"} | (environment or {})
    with log.open("w") as out:
        process = subprocess.Popen(command, cwd=reader.folder, env=own, stdout=out, stderr=out)
        try:
            yield
        finally:
            process.terminate()
            process.wait(TIMEOUT)


@runs("kubectl create namespace sites")
def the_rights_of_the_sites_suffice(text: str, reader: Reader) -> None:
    """Run the block on a real API server, and both sides with the rights that it gave them."""
    program("kubectl", package="kubernetes-client")
    with RealApiServer(real_api_server_assets()) as server, ExitStack() as stack:
        reader.run("bash", "-e", text=text, **reader.bare, KUBECONFIG=str(server.kubeconfig))
        logs = [stack.enter_context(as_its_account(side, server, reader)) for side in ("informer", "worker")]
        admin = server.client()

        def reason() -> str:
            site = admin.get("example.com/v1/Site", "default/home")
            condition = get_condition(site or {}, "Ready")
            return condition["reason"] if condition else ""

        eventually(lambda: reason() == "Starting")
        admin.delete("v1/ConfigMap", "default/welcome")
        eventually(lambda: reason() == "PageNotFound")
        eventually(
            lambda: any(each["reason"] == "PageNotFound" for each in admin.list("v1/Event", "default"))
        )
        admin.delete("example.com/v1/Site", "default/home")
        eventually(lambda: admin.get("example.com/v1/Site", "default/home") is None)
    assert [line for log in logs for line in log.read_text().splitlines() if " 403 " in line] == []


@contextmanager
def as_its_account(side: str, server: RealApiServer, reader: Reader) -> Iterator[Path]:
    """Run one side with the rights of its service account; give its log."""
    kubeconfig, log = reader.folder / f"{side} of sites", reader.folder / f"log of {side}"
    client_of(server, f"distq-sites-{side}", kubeconfig, namespace="sites")
    settings = {"KUBECONFIG": str(kubeconfig), "DISTQ_LEASE_NAMESPACE": "sites"}
    with writing(log, ["distq", side, "sites"], reader, settings):
        yield log
