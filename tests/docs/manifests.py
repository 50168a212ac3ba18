"""What checks the manifests that the pages show, on an API server."""

import logging
import runpy
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from distq import Client, Manager
from distq.config import Settings
from distq.errors import ApiError
from tests.docs.reader import TIMEOUT, Reader, runs
from tests.support.api_servers import RealApiServer, real_api_server_assets, write_kubeconfig
from tests.support.eventually import eventually
from tests.support.parts import program


@runs("# foos.yaml")
def the_manifest_loads(text: str, reader: Reader) -> None:
    """Find the object in the sandbox, with its fields."""
    foo = reader.sandbox.client.get("example.com/v1/Foo", "default/web")
    assert foo is not None
    assert foo["spec"]["image"] == "nginx"


@runs("kubectl create namespace foos")
def the_deployment_suffices(text: str, reader: Reader) -> None:
    """Run the block on a real API server, and then both sides with the rights that it gave them."""
    program("kubectl", package="kubernetes-client")
    with RealApiServer(real_api_server_assets()) as server:
        admin = server.client()
        reader.run("bash", "-e", text=text, **reader.bare, KUBECONFIG=str(server.kubeconfig))
        for obj in yaml.safe_load_all((reader.folder / "foos.yaml").read_text()):
            eventually(partial(is_applied, admin, obj))
        assert admin.get("apps/v1/Deployment", "foos/distq-foos-worker")
        clients = {
            side: client_of(server, f"distq-foos-{side}", reader.folder / f"kubeconfig-of-{side}")
            for side in ("informer", "worker")
        }
        run_with(clients, admin, reader)


def is_applied(client: Client, obj: dict[str, Any]) -> bool:
    """Apply an object; return False as long as the server does not know its kind."""
    try:
        client.apply(obj)
    except ApiError as error:
        if error.status != 404:
            raise
        return False
    return True


def client_of(server: RealApiServer, name: str, kubeconfig: Path, *, namespace: str = "foos") -> Client:
    """Return a Client of a service account, with a token that the API server gave for it."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = yaml.safe_load(server.client().request("POST", path, body=body))
    cluster = {"server": server.url, "certificate-authority": str(server.certificate_authority)}
    write_kubeconfig(kubeconfig, cluster=cluster, user={"token": answer["status"]["token"]})
    return Client(kubeconfig)


def run_with(clients: dict[str, Client], admin: Client, reader: Reader) -> None:
    """Run both sides, each as its service account, until the Foo has its Deployment; then stop them."""
    foos = runpy.run_path(str(reader.folder / "foos.py"))
    foos["reconcile"].__globals__["client"] = clients["worker"]
    settings = Settings(lease_name="distq-foos", lease_namespace="foos")
    managers = {
        side: Manager([foos["controller"]], redis=reader.sandbox.redis, client=client, settings=settings)
        for side, client in clients.items()
    }
    threads = [
        threading.Thread(
            target=manager.run, kwargs={"informer": side == "informer", "workers": side == "worker"}
        )
        for side, manager in managers.items()
    ]
    with refusals() as refused:
        for thread in threads:
            thread.start()
        try:
            eventually(lambda: admin.get("apps/v1/Deployment", "default/web"))
            eventually(lambda: list(admin.list("v1/Event", "foos")))
        finally:
            for manager, thread in zip(managers.values(), threads, strict=True):
                manager.stop()
                thread.join(TIMEOUT)
    assert refused == []


@contextmanager
def refusals() -> Iterator[list[str]]:
    """Collect what distq logs of the API server's refusals."""
    refused: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if " 403 " in record.getMessage():
                refused.append(record.getMessage())

    listener = Listener()
    logging.getLogger("distq").addHandler(listener)
    try:
        yield refused
    finally:
        logging.getLogger("distq").removeHandler(listener)
