"""What runs the programs and commands of the page about provisioners."""

import runpy
import shlex
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from distq import Client, Connection, Manager, Queue, key_of
from distq.config import Settings
from distq.errors import ReconcileFailed
from tests import ROOT
from tests.controller.test_manager import managing
from tests.docs.manifests import client_of, refusals
from tests.docs.reader import Reader, runs
from tests.support.api_servers import RealApiServer, real_api_server_assets
from tests.support.eventually import eventually
from tests.support.parts import program
from tests.workers.provisioning import Kubernetes, new_claim, new_class
from workers.provisioner import ProvisionController, ProvisioningInBackground
from workers.provisioner.fields import pv_name
from workers.provisioner.hostpath import PROVISIONER_NAME, HostPathProvisioner
from workers.provisioner.provision_controller import VOLUME


@runs("# disks.py")
def the_provisioner_works(text: str, reader: Reader) -> None:
    """Let its storage take its time, then make the volume, and delete it with its claim."""
    disks = runpy.run_path(str(reader.folder / "disks.py"))
    client, kubernetes, driver = reader.sandbox.client, Kubernetes(reader.sandbox.client), "disks.example.com"
    storage_class = client.create(new_class(driver, parameters={"kind": "fast"}))
    claim = client.create(new_claim(storage_class["metadata"]["name"], driver))

    def go_on() -> None:
        reader.sandbox.run_until_idle(disks["claims"], disks["volumes"])

    with pytest.raises(ReconcileFailed) as failed:
        go_on()
    assert isinstance(failed.value.__cause__, ProvisioningInBackground)
    disks["disks"][pv_name(claim)] = "there"
    Queue(disks["claims"].name, reader.sandbox.redis).add(key_of(claim))
    go_on()
    volume = client.get(VOLUME, pv_name(claim))
    assert volume is not None
    assert volume["spec"]["csi"]["volumeHandle"] == pv_name(claim)
    kubernetes.bind(claim)
    kubernetes.release(claim)
    go_on()
    assert disks["disks"] == {}
    assert client.get(VOLUME, pv_name(claim)) is None


@runs("distq sandbox --manifest workers/provisioner/")
def the_host_path_provisioner_can_be_tried(text: str, reader: Reader) -> None:
    """Run it until the claim beside it has a volume."""
    program("kubectl", package="kubernetes-client")
    sandbox, _, run = text.rstrip().partition(" distq run ")
    look = "kubectl get persistentvolumes --output yaml"
    script = f"distq run {run} & until {look} | grep -q hostpath-pvc; do sleep 0.1; done; kill $!; wait $!"
    command = f"cd {ROOT} && {sandbox} bash -c {shlex.quote(script)}"
    directory = reader.folder / "tried volumes"
    reader.run("bash", "-c", command, **reader.bare, HOSTPATH_DIRECTORY=str(directory))
    assert len([*directory.iterdir()]) == 1


@runs("kubectl create namespace storage")
def the_rights_of_a_provisioner_suffice(text: str, reader: Reader) -> None:
    """Run the block on a real API server, and then both sides with the rights that it gave them."""
    program("kubectl", package="kubernetes-client")
    with RealApiServer(real_api_server_assets()) as server:
        script = text.replace("distq manifests", f"PYTHONPATH={ROOT} distq manifests")
        reader.run("bash", "-e", text=script, **reader.bare, KUBECONFIG=str(server.kubeconfig))
        name = "distq-workers-provisioner-hostpath"
        clients = {
            side: client_of(
                server, f"{name}-{side}", reader.folder / f"{side} of {name}", namespace="storage"
            )
            for side in ("informer", "worker")
        }
        with refusals() as refused:
            live_with(clients, server.client(), reader.sandbox.redis, reader.folder / "volumes", lease=name)
        assert refused == []


def live_with(
    clients: dict[str, Client], admin: Client, redis: Connection, directory: Path, *, lease: str
) -> None:
    """Run both sides, each as its service account, from a claim to the end of its volume."""
    settings = Settings(lease_name=lease, lease_namespace="storage", grace_period=1)
    kubernetes = Kubernetes(admin)
    with ExitStack() as stack:
        for side, client in clients.items():
            controller = ProvisionController(
                PROVISIONER_NAME, HostPathProvisioner(directory), client=client, redis=redis
            )
            manager = Manager(
                [controller.claims, controller.volumes], redis=redis, client=client, settings=settings
            )
            sides: dict[str, Any] = {"informer": side == "informer", "workers": side == "worker"}
            stack.enter_context(managing(manager, **sides))
        storage_class = admin.create(new_class(PROVISIONER_NAME))
        claim = admin.create(new_claim(storage_class["metadata"]["name"], PROVISIONER_NAME))
        eventually(lambda: admin.get(VOLUME, pv_name(claim)))
        kubernetes.bind(claim)
        kubernetes.release(claim)
        eventually(lambda: admin.get(VOLUME, pv_name(claim)) is None)
        assert not [*directory.iterdir()]
