"""The image runs each service of the compose file, as an ordinary user, where nothing can be written.

It needs an image called distq in podman's storage: CONTRIBUTING.md says how to build one, also without a
registry. Its programs run in its file system without an engine, since not every machine can start containers.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from distq.client import Client
from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from tests import ROOT
from tests.support.api_servers import write_kubeconfig
from tests.support.eventually import eventually
from tests.support.ports import free_port

IMAGE = "distq"
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
SOME_FILE, OTHER_FILE = "/etc/issue", "/etc/issue.net"
"""What the image has anyway: where nothing can be created, something must be there to mount on."""

pytestmark = pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True)


class Image:
    """The mounted image; ``ports`` are those of this machine, by those that the compose file names."""

    def __init__(self, root: str, kubeconfig: Path, redis_url: str) -> None:
        self._root = root
        self.kubeconfig = kubeconfig
        self._redis_url = redis_url
        self.ports = dict(zip(("8001", "8080", "9181"), (str(free_port()) for _ in range(3)), strict=True))

    def command(self, words: Sequence[str], settings: Mapping[str, str]) -> list[str]:
        """Return what runs a command as an engine would: as user 1000, with the image's variables."""
        variables = {"HOME": "/", "PATH": "/venv/bin:/usr/local/bin:/usr/bin:/bin", **settings}
        if "DISTQ_REDIS_URL" in variables:
            variables["DISTQ_REDIS_URL"] = self._redis_url
        given = [self._here(f"{name}={value}") for name, value in variables.items()]
        inside = ["chroot", "--userspec=1000:1000", self._root, "env", "-i", "-C", "/srv", *given]
        mounted = ["mount", "--bind", str(self.kubeconfig), self._root + SOME_FILE]
        users = ["mount", "--bind", str(ROOT / "deploy" / "compose-users"), self._root + OTHER_FILE]
        steps = [mounted, users, ["exec", *inside, *map(self._here, words)]]
        return ["unshare", "--mount", "sh", "-c", " && ".join(map(shlex.join, steps))]

    def _here(self, word: str) -> str:
        """Return a word with this machine's ports and places."""
        for inside, outside in {**self.ports, "/kubeconfig": SOME_FILE, "/users": OTHER_FILE}.items():
            word = word.replace(inside, outside)
        return word


@pytest.fixture
def image(tmp_path: Path, redis_server: EmbeddedValkey) -> Iterator[Image]:
    """Mount the image, or skip where there is none."""
    podman = shutil.which("podman")
    if podman is None or os.geteuid() != 0:
        pytest.skip("no podman, or not root: the image is not tried")
    mounted = subprocess.run([podman, "image", "mount", IMAGE], capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip("no image distq in podman's storage: .ci/image")
    kubeconfig = tmp_path / "kubeconfig"
    image = Image(mounted.stdout.strip(), kubeconfig, redis_server.url)
    write_kubeconfig(kubeconfig, cluster={"server": f"http://127.0.0.1:{image.ports['8001']}"}, user={})
    try:
        yield image
    finally:
        subprocess.run([podman, "image", "umount", IMAGE], stdout=subprocess.DEVNULL, check=True)


@contextmanager
def running(image: Image, name: str) -> Iterator[None]:
    """Run a service until the block ends, which begins once it is healthy."""
    service = SERVICES[name]
    words = [*service.get("entrypoint", ["distq"]), *service["command"]]
    words += ["--port", "8001"] if name == "apiserver" else []
    process = subprocess.Popen(image.command(words, service.get("environment", {})))
    _, *check = service["healthcheck"]["test"]
    try:
        eventually(
            lambda: (
                subprocess.run(image.command(check, {}), stderr=subprocess.DEVNULL, check=False).returncode
                == 0
            ),
            f"{name} is healthy",
            timeout=90,
        )
        yield
    finally:
        process.terminate()
        process.wait(60)


def test_each_service_runs_in_the_image_and_does_its_work(image: Image, connection: Connection) -> None:
    """Each gets healthy by its own check; the worker reconciles the keys that the informer enqueued."""
    client = Client(image.kubeconfig)
    foo = yaml.safe_load((ROOT / "workers" / "sample-foo.yaml").read_text())
    with running(image, "apiserver"):
        with running(image, "informer"):
            client.apply(foo)
            eventually(lambda: connection.execute("EXISTS", "distq:{foos}:ready"), "it is enqueued")
        with running(image, "worker"):
            eventually(lambda: client.get("apps/v1/Deployment", "default/example-foo"), "it is reconciled")
        with running(image, "dashboard"):
            pass


def test_no_file_is_the_users_own(image: Image, connection: Connection) -> None:
    """An attacker who takes over a process can change neither its programs nor your controllers."""
    found = image.command(
        ["find", "/srv", "/venv", "!", "-type", "l", "(", "-user", "1000", "-o", "-perm", "-o+w", ")"], {}
    )
    assert subprocess.run(found, capture_output=True, text=True, check=True).stdout == ""
