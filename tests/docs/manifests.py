"""What checks the manifests that the pages show, on an API server."""

import logging
import runpy
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from distq import Client, Manager
from distq.config import Settings
from distq.errors import ApiError
from tests.docs.reader import TIMEOUT, Reader, runs
from tests.docs.shell import parses
from tests.support.api_servers import RealApiServer, real_api_server_assets, write_kubeconfig
from tests.support.eventually import eventually


@runs("# foos.yaml")
def the_manifest_loads(text: str, reader: Reader) -> None:
    """Find the object in the sandbox, with its fields."""
    foo = reader.sandbox.client.get("example.com/v1/Foo", "default/web")
    assert foo is not None
    assert foo["spec"]["image"] == "nginx"


@runs("# foos-deploy.yaml")
def the_deployment_suffices(text: str, reader: Reader) -> None:
    """Check its commands, variables and times, and run with its permissions on a real API server."""
    manifests = list(yaml.safe_load_all(text))
    pods = [obj["spec"]["template"]["spec"] for obj in manifests if obj["kind"] == "Deployment"]
    variables = {setting.metadata["variable"] for setting in fields(Settings)}
    for pod in pods:
        (container,) = pod["containers"]
        assert parses(["distq", *container["args"]]).params["target"] == "foos"
        assert {variable["name"] for variable in container["env"]} <= variables
        assert pod.get("terminationGracePeriodSeconds", 30) > Settings().grace_period
    with RealApiServer(real_api_server_assets()) as server:
        admin = server.client()
        for obj in (*manifests, *yaml.safe_load_all((reader.folder / "foos.yaml").read_text())):
            eventually(partial(is_applied, admin, obj))
        client = client_of(server, "foos", reader.folder / "kubeconfig-of-foos")
        runs_with(client, admin, reader)
        for verb in ("get", "watch", "update", "patch"):  # of which one leader alone needs not all
            assert may(client, verb, group="coordination.k8s.io", resource="leases", name="distq-foos")
        assert may(client, "get", group="", resource="namespaces", name="kube-system")


def is_applied(client: Client, obj: dict[str, Any]) -> bool:
    """Apply an object; return False as long as the server does not know its kind."""
    try:
        client.apply(obj)
    except ApiError as error:
        if error.status != 404:
            raise
        return False
    return True


def client_of(server: RealApiServer, name: str, kubeconfig: Path) -> Client:
    """Return a Client of a service account, with a token that the API server gave for it."""
    path = f"/api/v1/namespaces/{name}/serviceaccounts/{name}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = yaml.safe_load(server.client().request("POST", path, body=body))
    cluster = {"server": server.url, "certificate-authority": str(server.certificate_authority)}
    write_kubeconfig(kubeconfig, cluster=cluster, user={"token": answer["status"]["token"]})
    return Client(kubeconfig)


def may(client: Client, verb: str, **what: str) -> bool:
    """Ask the API server whether its caller may do something in the namespace foos."""
    attributes = {"verb": verb, "namespace": "foos", **what}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    return bool(yaml.safe_load(client.request("POST", path, body=body))["status"]["allowed"])


def runs_with(client: Client, admin: Client, reader: Reader) -> None:
    """Run the controller as that service account until the Foo has its Deployment, then stop it."""
    program = runpy.run_path(str(reader.folder / "foos.py"))
    program["reconcile"].__globals__["client"] = client
    settings = Settings(lease_name="distq-foos", lease_namespace="foos")
    manager = Manager([program["controller"]], redis=reader.sandbox.redis, client=client, settings=settings)
    thread = threading.Thread(target=manager.run)
    with refusals() as refused:
        thread.start()
        try:
            eventually(lambda: admin.get("apps/v1/Deployment", "default/web"))
            eventually(lambda: list(admin.list("v1/Event", "foos")))
        finally:
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
