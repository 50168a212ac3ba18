"""The host path provisioner as a target for tests to kill in the middle of a volume.

Claims are short, so that those of a killed worker come back soon.
"""

import os
import time
from pathlib import Path
from typing import Any

from distq import Client, Connection
from workers.provisioner import ProvisionController, ProvisionOptions
from workers.provisioner.hostpath import HostPathProvisioner

NAME, DIRECTORY, HOLD = "SLOW_HOSTPATH_NAME", "SLOW_HOSTPATH_DIRECTORY", "SLOW_HOSTPATH_HOLD"
"""The variables that say how it is called, where its volumes are, and that it comes to the end of none."""


class SlowHostPathProvisioner(HostPathProvisioner):
    """Makes a directory, and where it is held does not come to say so."""

    def provision(self, options: ProvisionOptions) -> dict[str, Any]:
        """Make the directory, and return unless it is held."""
        volume = super().provision(options)
        while HOLD in os.environ:
            time.sleep(1)
        return volume


def slow_hostpath(
    name: str, directory: Path, *, client: Client | None = None, redis: Connection | None = None
) -> ProvisionController:
    """Return its controllers; all processes of a test give them the same name."""
    return ProvisionController(
        name, SlowHostPathProvisioner(directory), claim_duration=3.0, client=client, redis=redis
    )


if NAME in os.environ:
    controller = slow_hostpath(os.environ[NAME], Path(os.environ[DIRECTORY]))
    claims, volumes = controller.claims, controller.volumes
