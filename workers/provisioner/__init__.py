"""The provision controller of sig-storage-lib-external-provisioner, for provisioners written in Python.

    from workers.provisioner import ProvisionController, Provisioner

Write a Provisioner, and bind ``claims`` and ``volumes`` of a ProvisionController of it at a module's top
level, as ``workers.provisioner.hostpath`` does. Different from the original:

- a claim has a finalizer while a volume may be made for it. So a claim that is deleted meanwhile waits until
  it is known what became of the volume, whatever process dies; the original remembers such claims in memory;
- a PersistentVolume that cannot be created is tried again like all else, for which the original has a queue
  of its own, and its volume is not deleted meanwhile;
- an item that is given up is dead, and shown by ``distq items``, until the claim or its class changes;
- a claim whose class comes, or is replaced, is tried again at once;
- the finalizer of volumes is on unless set otherwise, as in CSI's external-provisioner.
"""

from workers.provisioner.provision_controller import ProvisionController
from workers.provisioner.provisioner import (
    IgnoredError,
    InfeasibleError,
    Provisioner,
    ProvisioningFinished,
    ProvisioningInBackground,
    ProvisioningNoChange,
    ProvisioningReschedule,
    ProvisionOptions,
)

__all__ = [
    "IgnoredError",
    "InfeasibleError",
    "ProvisionController",
    "ProvisionOptions",
    "Provisioner",
    "ProvisioningFinished",
    "ProvisioningInBackground",
    "ProvisioningNoChange",
    "ProvisioningReschedule",
]
