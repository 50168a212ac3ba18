"""Requests to the emulated API server, and the calls of functions that distq's own code makes for one."""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import distq
from distq.client import Client
from distq.testing import EmulatedApiServer

TIMES = 20
OWN = str(Path(distq.__file__).parent)
NAMESPACE, STATUS = "v1/Namespace", {"status": {"phase": "Active"}}

Act = Callable[[Client], object]


def get(client: Client) -> None:
    """Read an object."""
    client.get(NAMESPACE, "default")


def patch(client: Client) -> None:
    """Change it."""
    client.patch(NAMESPACE, "default", {"metadata": {"labels": {"color": "red"}}})


def patch_status(client: Client) -> None:
    """Change its status."""
    client.patch(NAMESPACE, "default", STATUS, status=True)


def own_calls(act: Act) -> float:
    """Return the calls of one request; those of libraries change with their versions."""
    count = 0

    def note(frame: FrameType, event: str, _: Any) -> None:
        nonlocal count
        if event in {"call", "c_call"} and frame.f_code.co_filename.startswith(OWN):
            count += 1

    with tempfile.TemporaryDirectory() as folder, EmulatedApiServer() as server:
        server.kubeconfig(kubeconfig := Path(folder, "kubeconfig"))
        client = Client(kubeconfig)
        act(client)  # which connects and discovers
        sys.setprofile(note)
        try:
            for _ in range(TIMES):
                act(client)
        finally:
            sys.setprofile(None)
    return count / TIMES
