"""What a deletion is asked to spare, to take along and to wait for."""

from typing import Literal, get_args

from distq.client.objects import Object
from distq.errors import ConfigError

Propagation = Literal["Background", "Foreground", "Orphan"]
"""What becomes of dependents: deleted after the object, deleted before it, left alone."""


def delete_options(
    uid: str | None, resource_version: str | None, propagation: Propagation, grace_period: int | None
) -> Object:
    """Return a DeleteOptions; ConfigError for what it cannot express."""
    if propagation not in get_args(Propagation):
        choices = ", ".join(get_args(Propagation))
        raise ConfigError(f"bad propagation {propagation!r:.80}. Give one of {choices}.")
    if grace_period is not None and (type(grace_period) is not int or grace_period < 0):
        raise ConfigError(f"bad grace_period {grace_period!r:.80}. Give whole seconds, 0 or more.")
    options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
    wanted = {"uid": uid, "resourceVersion": resource_version}
    if preconditions := {name: value for name, value in wanted.items() if value is not None}:
        options["preconditions"] = preconditions
    if grace_period is not None:
        options["gracePeriodSeconds"] = grace_period
    return options
