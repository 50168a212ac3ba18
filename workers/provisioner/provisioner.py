"""What a provisioner implements: it makes and deletes volumes, and says how far it got.

It may be called again for what was done already, by any process: after a crash, and while something goes on
in the background. A volume is known by the name of its PersistentVolume. Source: controller/volume.go, whose
Qualifier, BlockProvisioner and DeletionGuard are methods here that need not be written.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]


@dataclass(frozen=True)
class ProvisionOptions:
    """What a volume is to be made for: the claim, its class, and the node that the scheduler has chosen.

    ``pv_name`` is the same in each call for a claim, and no other claim's. ``selected_node_name`` is None
    where the volume does not wait for its first consumer.
    """

    storage_class: Object
    pv_name: str
    pvc: Object
    selected_node_name: str | None


class Provisioner(ABC):
    """Makes volumes for claims, and deletes them."""

    @abstractmethod
    def provision(self, options: ProvisionOptions) -> Object:
        """Make the volume unless it is there, and return a PersistentVolume whose spec fits the claim.

        It is called again with the same options until it returns or raises ProvisioningFinished. What it
        raises says how far it got; any other error counts as ProvisioningInBackground.
        Name, finalizer, class and claimRef are added to what it returns.
        """

    @abstractmethod
    def delete(self, volume: Object) -> None:
        """Delete what was made for a PersistentVolume, which itself stays; do nothing where it is gone.

        Raises IgnoredError for what another provisioner has to delete.
        """

    def should_provision(self, claim: Object) -> bool:  # noqa: ARG002 - for those who need it
        """Return whether a claim is to be provisioned by this program, of several for one class."""
        return True

    def should_delete(self, volume: Object) -> bool:  # noqa: ARG002 - for those who need it
        """Return whether a released volume may be deleted now."""
        return True

    def supports_block(self) -> bool:
        """Return whether it makes volumes of the mode Block."""
        return False


class ProvisioningFinished(Exception):
    """It failed, nothing goes on and nothing was left behind: the claim may go. Tried again."""


class InfeasibleError(ProvisioningFinished):
    """What is asked for cannot be made, a parameter is wrong, say; tried again five minutes later or more.

    Source: gRPC's INVALID_ARGUMENT, which the original takes for this, and its RetryIntervalMax.
    """

    retry_after = 300.0
    """Seconds; the queue waits as long, or longer by its limiter."""


class ProvisioningReschedule(ProvisioningFinished):
    """It cannot be made on the selected node, and nothing goes on: the scheduler shall choose another one.

    The same as ProvisioningFinished where no node was selected.
    """


class ProvisioningInBackground(Exception):
    """It may go on: provision is called again until it is known, also when the claim is deleted."""


class ProvisioningNoChange(Exception):
    """The storage was not reached: it is as before this call, and before the first one nothing goes on."""


class IgnoredError(Exception):
    """Nothing was done: it is for another program, which serves the same class. Not tried again."""
