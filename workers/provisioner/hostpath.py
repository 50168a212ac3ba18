"""The host path provisioner: each volume is a directory of this host.

    distq informer workers.provisioner.hostpath
    distq worker workers.provisioner.hostpath
    kubectl apply -f workers/provisioner/hostpath.yaml

For one node, or a directory that all nodes mount: HOSTPATH_DIRECTORY says which. Workers with directories of
their own, one on each node, say, must not share a queue: give each node a DISTQ_PREFIX, and by NODE_NAME the
identity by which it knows its volumes. Needs the extra metrics.
Source: examples/hostpath-provisioner of sig-storage-lib-external-provisioner.
"""

import os
import shutil
from pathlib import Path
from typing import Any

from distq.prometheus import PrometheusMetrics
from workers.provisioner import (
    IgnoredError,
    ProvisionController,
    Provisioner,
    ProvisioningFinished,
    ProvisionOptions,
)

PROVISIONER_NAME = "example.com/hostpath"
IDENTITY = "hostPathProvisionerIdentity"
"""The annotation that says whose directory a volume is in."""

Object = dict[str, Any]


class HostPathProvisioner(Provisioner):
    """Makes a directory for each volume; ``identity`` distinguishes the provisioners of one class."""

    def __init__(self, directory: Path, identity: str = "") -> None:
        self._directory = directory
        self._identity = identity

    def provision(self, options: ProvisionOptions) -> Object:
        """Make the directory, writable for the pods' users, and return its PersistentVolume."""
        path = self._directory / options.pv_name
        try:
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o777)
        except OSError as error:
            raise ProvisioningFinished(str(error)) from error
        claim = options.pvc["spec"]
        return {
            "metadata": {"annotations": {IDENTITY: self._identity}},
            "spec": {
                "persistentVolumeReclaimPolicy": options.storage_class["reclaimPolicy"],
                "accessModes": claim["accessModes"],
                "capacity": {"storage": claim["resources"]["requests"]["storage"]},
                "hostPath": {"path": str(path)},
            },
        }

    def delete(self, volume: Object) -> None:
        """Delete the directory with all that is in it."""
        if volume["metadata"].get("annotations", {}).get(IDENTITY) != self._identity:
            raise IgnoredError("it is in somebody else's directory")
        path = self._directory / volume["metadata"]["name"]
        if path.exists():
            shutil.rmtree(path)


controller = ProvisionController(
    PROVISIONER_NAME,
    HostPathProvisioner(
        Path(os.environ.get("HOSTPATH_DIRECTORY", "/var/lib/hostpath-provisioner")),
        os.environ.get("NODE_NAME", ""),
    ),
    metrics=PrometheusMetrics(),
)
claims, volumes = controller.claims, controller.volumes
