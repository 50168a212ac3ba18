"""An installation: one target's processes, under one name, in one namespace."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from distq.cli.options import LEASE, LOGS, WORK
from distq.config import Settings, lease_name, variable_of
from distq.dns1123 import DNS1123_LABEL
from distq.errors import ConfigError

if TYPE_CHECKING:
    from distq.cli.manifests.roles import Access
    from distq.cli.target import Program

Object = dict[str, Any]

HTTP_PORT = 8080
NAME = "app.kubernetes.io/name"
COMPONENT = "app.kubernetes.io/component"

_NAME = re.compile(r"[a-z][a-z0-9-]{0,44}[a-z0-9]")
"""Leaves room for "-informer" and for what Kubernetes appends, where a label must hold all of it."""


@dataclass(frozen=True)
class Manifest:
    """One object, and a comment with what to know or choose before it is applied."""

    content: Object
    comment: str = ""


@dataclass(frozen=True, kw_only=True)
class Installation:
    """A target, and how it is to run, by the command's options. Raises ConfigError for a bad name."""

    target: str
    program: "Program"
    image: str
    namespace: str
    settings: Settings
    workers: tuple[int, int]
    """How many there are at least and at most."""
    accesses: "Sequence[Access]"
    """The rights of reconciles beside reading watched objects."""
    own_redis: bool
    keda: bool
    dashboard: bool
    service_monitor: bool

    def __post_init__(self) -> None:
        if not DNS1123_LABEL.fullmatch(self.namespace):
            raise ConfigError(
                f"bad namespace: {self.namespace!r:.80}. Give small letters, digits and dashes."
            )
        if not _NAME.fullmatch(self.name):
            raise ConfigError(
                f'cannot call objects "{self.name}": more than 46 characters, or no letter first. '
                "Give a shorter module, or another --prefix."
            )
        if not self.image or re.search(r"\s", self.image):
            raise ConfigError(f"bad image: {self.image!r:.80}. Give its name and tag, such as foos:1.")

    @property
    def name(self) -> str:
        """Return the prefix of all its objects' names: the Lease's default name."""
        return lease_name(self.target, self.settings.prefix)

    @property
    def components(self) -> list[str]:
        """Return the names of its processes: informer, worker, dashboard."""
        return ["informer"] * self.program.needs_lease + ["worker"] + ["dashboard"] * self.dashboard

    @property
    def lease(self) -> tuple[str, str]:
        """Return namespace and name of the Lease."""
        return self.settings.lease_namespace or self.namespace, self.settings.lease_name or self.name

    @property
    def redis_variables(self) -> dict[str, str]:
        """Return what leads to a Redis of its own, whose password is in the Secret; nothing to another."""
        return {"DISTQ_REDIS_URL": f"redis://{self.of('redis')}:6379/0"} if self.own_redis else {}

    @property
    def variables(self) -> dict[str, str]:
        """Return the settings that are not the defaults, as variables; Redis' own come from a Secret."""
        return {
            variable_of(setting.name): f"{value:g}" if isinstance(value, float) else str(value)
            for setting in fields(self.settings)
            for value in [getattr(self.settings, setting.name)]
            if setting.name in {"prefix", *LEASE, *WORK, *LOGS} and value != setting.default
        }

    def of(self, component: str) -> str:
        """Return the name of a component's objects."""
        return f"{self.name}-{component}"

    def metadata(self, component: str, *, namespace: str | None = None) -> Object:
        """Return the metadata of an object of a component, in the installation's namespace or another."""
        return {
            "name": self.of(component),
            "namespace": namespace or self.namespace,
            "labels": self.labels(component),
        }

    def labels(self, component: str) -> dict[str, str]:
        """Return what selects the pods of a component."""
        return {NAME: self.name, COMPONENT: component}
