"""What kube-apiserver itself wrote down about the lists and watches of each service account."""

import json
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "rules": [
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"], "verbs": ["list", "watch"]},
        {"level": "None"},
    ],
}


@dataclass
class Asked:
    """One list or watch; times are of the monotonic clock, ``ended`` is None while it is open."""

    verb: str
    resource: str
    query: dict[str, str]
    received: float
    ended: float | None = None

    @property
    def is_version_check(self) -> bool:
        """Return whether it lists one object, without another page, to learn the version."""
        return self.verb == "list" and self.query == {"limit": "1"}

    @property
    def is_resumed_watch(self) -> bool:
        """Return whether it is a watch that begins with what follows a version, not with what there is."""
        return (
            self.verb == "watch"
            and self.query.get("resourceVersion", "0") != "0"
            and "sendInitialEvents" not in self.query
        )


class Audit:
    """The audit log in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._policy = folder / "audit-policy.json"
        self._log = folder / "audit.log"
        self._policy.write_text(json.dumps(POLICY))

    @property
    def flags(self) -> list[str]:
        """Return kube-apiserver's flags for it."""
        return [f"--audit-policy-file={self._policy}", f"--audit-log-path={self._log}"]

    def requests(self, account: str) -> list[Asked]:
        """Return the lists and watches of a service account, in their order."""
        asked: dict[str, Asked] = {}
        for line in self._log.read_bytes().splitlines(keepends=True):
            if not line.endswith(b"\n"):
                break  # still being written
            record = json.loads(line)
            if not record["user"]["username"].endswith(f":{account}"):
                continue
            one = asked.setdefault(record["auditID"], _asked(record))
            if record["stage"] in {"ResponseComplete", "Panic"}:
                one.ended = _monotonic(record["stageTimestamp"])
        return sorted(asked.values(), key=lambda one: one.received)


def _asked(record: dict[str, Any]) -> Asked:
    return Asked(
        verb=record["verb"],
        resource=record["objectRef"]["resource"],
        query=dict(parse_qsl(urlsplit(record["requestURI"]).query, keep_blank_values=True)),
        received=_monotonic(record["requestReceivedTimestamp"]),
    )


def _monotonic(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp() - time.time() + time.monotonic()
