"""The options of a deletion: its preconditions, the dependents, and the grace period."""

from datetime import timedelta
from typing import Literal, get_args

from distq.client.objects import Object
from distq.errors import ConfigError
from distq.seconds import in_seconds

Propagation = Literal["Background", "Foreground", "Orphan"]
"""The treatment of dependents: deleted after the object, deleted before it, left alone."""


def delete_options(
    uid: str | None,
    resource_version: str | None,
    propagation: Propagation,
    grace_period: int | timedelta | None,
) -> Object:
    """Return a DeleteOptions; ConfigError for arguments that it cannot express."""
    if propagation not in get_args(Propagation):
        choices = ", ".join(get_args(Propagation))
        raise ConfigError(f"bad propagation {propagation!r:.80}. Give one of {choices}.")
    grace = in_seconds(grace_period)
    # not isinstance: a bool is an int, too
    if grace is not None and (type(grace) not in (int, float) or grace < 0 or not float(grace).is_integer()):
        raise ConfigError(f"bad grace_period {grace_period!r:.80}. Give whole seconds, 0 or more.")
    options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
    wanted = {"uid": uid, "resourceVersion": resource_version}
    if preconditions := {name: value for name, value in wanted.items() if value is not None}:
        options["preconditions"] = preconditions
    if grace is not None:
        options["gracePeriodSeconds"] = int(grace)
    return options
