"""What a program's claims are for: the resource that its Controller reconciles, and the cluster it is in."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from distq.clock import SYSTEM_CLOCK, Clock

_READ_ANEW = 60.0
"""Seconds after which a cluster's authorities are read anew."""


@dataclass(frozen=True, slots=True)
class Purpose:
    """What a handle claims for, as its session describes it to others.

    ``resource`` is that of the Controller's For. ``cluster`` has a fingerprint of each certificate that
    vouches for its API server, and nothing where they are unknown. ``lease`` is empty where its process
    competes for none. ``lease`` and ``watches`` may differ from one release to the next.
    """

    resource: str
    cluster: Sequence[str] = ()
    lease: str = ""
    watches: Sequence[str] = ()

    @classmethod
    def parse(cls, about: Any) -> Self | None:
        """Read it from a description; None where that says nothing, as those of 0.1.0, or nothing legible."""
        said = about.get("purpose") if isinstance(about, dict) else None
        if not isinstance(said, dict) or not isinstance(said.get("resource"), str):
            return None
        cluster, watches = (
            tuple(map(str, said.get(name) or ())) if isinstance(said.get(name), list) else ()
            for name in ("cluster", "watches")
        )
        return cls(said["resource"], cluster, str(said.get("lease") or ""), watches)

    def about(self) -> dict[str, Any]:
        """Return what a description says of it."""
        return {"purpose": asdict(self)}

    def differs_from(self, other: Self) -> bool:
        """Return whether keys of the one mean nothing to the other; what is unknown is no difference.

        Neither is another version of the resource. One authority in common is the same cluster: while one is
        replaced by another there are both.
        """
        return self.group_kind != other.group_kind or (
            bool(self.cluster and other.cluster) and not {*self.cluster} & {*other.cluster}
        )

    @property
    def group_kind(self) -> tuple[str, str]:
        """Return what stays the same in all versions of the resource."""
        api_version, _, kind = self.resource.rpartition("/")
        return api_version.rpartition("/")[0], kind

    def __str__(self) -> str:
        cluster = f" of cluster {', '.join(self.cluster[:2])}" if self.cluster else ""
        return f"{self.resource:.100}{cluster:.60}"


class PresentPurpose:
    """A purpose whose cluster is looked at now and then: its authorities may be replaced meanwhile."""

    def __init__(
        self, purpose: Purpose, authorities: Callable[[], Sequence[str]], clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._authorities = authorities
        self._clock = clock
        self._purpose = replace(purpose, cluster=authorities())
        self._read_at = clock.monotonic()

    def __call__(self) -> Purpose:
        """Return it as of a minute ago at most."""
        now = self._clock.monotonic()
        if now - self._read_at >= _READ_ANEW:
            self._read_at = now
            self._purpose = replace(self._purpose, cluster=self._authorities())
        return self._purpose
