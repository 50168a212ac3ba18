"""A real API server that lets the sample's service accounts do what its manifests say, and writes it down."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from distq.client import Client
from tests import ROOT
from tests.support.api_servers import RealApiServer, write_kubeconfig
from tests.support.eventually import eventually
from tests.support.samples import wait_until_served
from workers.sample_controller import FOO

NAME = "distq-workers-sample-controller"
NAMESPACE = "default"
RBAC = "rbac.authorization.k8s.io/v1"

_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}],
}

Object = dict[str, Any]


def manifests() -> list[Object]:
    """Return the objects of ``deploy/sample``."""
    return list(yaml.safe_load_all((ROOT / "deploy" / "sample" / "manifests.yaml").read_text()))


@dataclass(frozen=True, order=True)
class Act:
    """A verb on a resource, ``group/plural`` with a subresource, by a component."""

    component: str
    verb: str
    resource: str


@dataclass(frozen=True)
class Grant:
    """One rule of one role."""

    component: str
    role: str
    key: str
    number: int
    rule: Object

    def __str__(self) -> str:
        resources = ",".join(self.rule["resources"])
        named = "-named" if "resourceNames" in self.rule else ""
        return f"{self.component}-{resources}{named}"

    @property
    def acts(self) -> set[Act]:
        """Return what the rule allows."""
        return {
            Act(self.component, verb, f"{group}/{resource}")
            for group in self.rule["apiGroups"]
            for resource in self.rule["resources"]
            for verb in self.rule["verbs"]
        }


def grants() -> list[Grant]:
    """Return all rules of the manifests."""
    return [
        Grant(
            obj["metadata"]["labels"]["app.kubernetes.io/component"],
            f"{RBAC}/{obj['kind']}",
            "/".join(filter(None, (obj["metadata"].get("namespace"), obj["metadata"]["name"]))),
            number,
            rule,
        )
        for obj in manifests()
        if obj["kind"] in {"Role", "ClusterRole"}
        for number, rule in enumerate(obj["rules"])
    ]


class GovernedCluster:
    """A kube-apiserver with the manifests applied; ``folder`` has its audit log and the kubeconfigs."""

    def __init__(self, server: RealApiServer, folder: Path) -> None:
        self.server = server
        self.admin = server.client()
        self._folder = folder

    @staticmethod
    def flags(folder: Path) -> list[str]:
        """Return kube-apiserver's flags for the audit log."""
        policy = folder / "policy.json"
        policy.write_text(json.dumps(_POLICY))
        return [f"--audit-policy-file={policy}", f"--audit-log-path={folder / 'audit.log'}"]

    def furnish(self) -> None:
        """Apply the CRD and the manifests, and wait until Foos are served."""
        self.admin.apply(yaml.safe_load((ROOT / "workers" / "sample-controller-crd.yaml").read_text()))
        for obj in manifests():
            self.admin.apply(obj)
        wait_until_served(self.admin, FOO)

    def kubeconfig(self, component: str) -> Path:
        """Return a kubeconfig with a token that the API server gave for the component's service account."""
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{NAME}-{component}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = json.loads(self.admin.request("POST", path, body=body))["status"]["token"]
        cluster = {"server": self.server.url, "certificate-authority": str(self.server.certificate_authority)}
        file = self._folder / f"{component}.kubeconfig"
        write_kubeconfig(file, cluster=cluster, user={"token": token})
        return file

    def client(self, component: str) -> Client:
        """Return a Client with the rights of the component's service account."""
        return Client(self.kubeconfig(component))

    @contextmanager
    def without(self, grant: Grant) -> Iterator[None]:
        """Take a rule away until the block ends."""
        role = self.admin.get(grant.role, grant.key)
        assert role is not None
        less = deepcopy(role)
        assert less["rules"].pop(grant.number) == grant.rule
        self.admin.update(less)
        eventually(lambda: not self._allows(grant), "the rule is gone")
        try:
            yield
        finally:
            self.admin.patch(grant.role, grant.key, {"rules": role["rules"]})
            eventually(lambda: self._allows(grant), "the rule is back")

    def acts(self, *, since: float = 0.0, refused: bool = False) -> set[Act]:
        """Return what the service accounts asked for and were allowed, or refused, in the server's words."""
        return {
            act
            for line in (self._folder / "audit.log").read_bytes().splitlines(keepends=True)
            if line.endswith(b"\n")  # or it is still being written
            for act in _acts(json.loads(line), since, "forbid" if refused else "allow")
        }

    def _allows(self, grant: Grant) -> bool:
        """Ask the authorizer about the rule's first verb: it learns of roles by a watch."""
        attributes = {
            "namespace": grant.key.partition("/")[0] if "/" in grant.key else NAMESPACE,
            "verb": grant.rule["verbs"][0],
            "group": grant.rule["apiGroups"][0],
            "resource": grant.rule["resources"][0].partition("/")[0],
            "subresource": grant.rule["resources"][0].partition("/")[2],
            "name": grant.rule.get("resourceNames", [""])[0],
        }
        user = f"system:serviceaccount:{NAMESPACE}:{NAME}-{grant.component}"
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": attributes},
        }
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return bool(json.loads(self.admin.request("POST", path, body=body))["status"]["allowed"])


def now() -> float:
    """Return the moment by the clock of the audit log."""
    return time.time()


def _acts(record: Object, since: float, decision: str) -> Iterator[Act]:
    about = record.get("objectRef", {})
    account = record["user"]["username"].rpartition(":")[2]
    if (
        "resource" not in about  # discovery
        or about.get("apiGroup") == "authorization.k8s.io"  # every user may ask about its own rights
        or record["annotations"]["authorization.k8s.io/decision"] != decision
        or _seconds(record["requestReceivedTimestamp"]) < since
    ):
        return
    resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
    yield Act(account.removeprefix(f"{NAME}-"), record["verb"], f"{about.get('apiGroup', '')}/{resource}")


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()
