"""Random requests to both servers: what they answer is compared, request by request.

``python -m tests.testing.play --seed 7 --requests 10000`` goes on for longer than the
tests do, with as many of each sort; it ends with 1, and the requests that led there, where the
answers differ.
"""

import argparse
import random
import uuid
from collections.abc import Callable
from typing import Any

from tests.testing import gadgets
from tests.testing.broken import broken_at_random
from tests.testing.drawn import with_a_field
from tests.testing.kinds import SAMPLES, collection, resource_of, sample
from tests.testing.twins import Twins

Object = dict[str, Any]
Request = tuple[str, str, Any, dict[str, str]]
"""Method, path, body and query."""

MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
_NAMES = ("ada", "bob")
_STATUSES: list[Object] = [
    {},
    {"phase": "Ready"},
    {"phase": "Bogus"},
    {"ready": 1},
    {"ready": -1},
    {"selector": "app=web"},
    {"replicas": 0, "readyReplicas": 0, "collisionCount": 0, "observedGeneration": 0},
    {"replicas": 2, "readyReplicas": 3},
    {"replicas": 3, "readyReplicas": 1, "availableReplicas": 2},
    {"replicas": 2, "readyReplicas": 1, "unavailableReplicas": -1},
    {"conditions": [{"type": "Ready", "status": "True", "reason": "", "message": ""}]},
]
_SHOWN = 12
"""So many requests before the one whose answers differ are shown."""


class Kind:
    """A kind to play with: where its objects are, and how to draw one."""

    def __init__(self, kind: str, path: str, draw: Callable[[random.Random], Object]) -> None:
        self._api_version, _, self._word = kind.rpartition("/")
        self.path = path
        self._draw = draw

    def content(self, chance: random.Random) -> Object:
        """Return what an object may say beside its name; some of it is refused."""
        return self._draw(chance)

    def object(self, name: str, content: Object) -> Object:
        """Return an object."""
        metadata = {"name": name, **content.get("metadata", {})}
        return {"apiVersion": self._api_version, "kind": self._word, **content, "metadata": metadata}


def play(twins: Twins, namespace: str, seed: int, requests: int) -> None:
    """Send so many requests; raise AssertionError where two answers differ."""
    chance = random.Random(seed)
    kinds = _kinds(namespace)
    sent: list[Request] = []
    for _ in range(requests):
        request = _request(chance, chance.choice(kinds))
        method, path, body, query = request
        try:
            twins.agree(method, path, body, **query)
        except AssertionError as error:
            led = "\n".join(map(str, sent[-_SHOWN:]))
            raise AssertionError(f"seed {seed}, request {len(sent)}: {error}\nafter\n{led}") from None
        sent.append(request)


def rehearse(twins: Twins, namespace: str, seed: int, requests: int) -> int:
    """Let both rehearse so many writes of all built-in kinds, and return how many they take.

    Half of the objects are broken; to the others a field is added of those that their kind has, of which only
    has to hold that the emulated server keeps what the real one takes: of such fields it checks less.
    """
    chance, taken = random.Random(seed), 0
    for _ in range(requests):
        kind = chance.choice(list(SAMPLES))
        resource = resource_of(kind)
        whole = sample(kind, chance.choice(_NAMES))
        query, is_broken = {"dryRun": "All"}, chance.random() < 0.5
        body = broken_at_random(whole, chance) if is_broken else with_a_field(resource.schema, whole, chance)
        try:
            taken += twins.concur(
                "POST", collection(resource, namespace), body, if_taken=not is_broken, **query
            )
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from None
    return taken


def _kinds(namespace: str) -> list[Kind]:
    core, apps = f"/api/v1/namespaces/{namespace}", f"/apis/apps/v1/namespaces/{namespace}"
    custom = f"/apis/{gadgets.GROUP}/v1/namespaces/{namespace}"
    return [
        Kind("v1/ConfigMap", f"{core}/configmaps", _config_map),
        Kind("apps/v1/Deployment", f"{apps}/deployments", _deployment),
        Kind(f"{gadgets.GROUP}/v1/Gadget", f"{custom}/gadgets", _gadget),
        Kind(f"{gadgets.GROUP}/v1/Gadget", f"{custom}/gadgets", _gadget),
    ]


def _request(chance: random.Random, kind: Kind) -> Request:
    name = chance.choice(_NAMES)
    named, content = f"{kind.path}/{name}", kind.content(chance)
    query: dict[str, str] = {}
    if chance.random() < 0.15:
        query["dryRun"] = "All"
    act = chance.choices(
        ["create", "replace", "merge", "apply", "status", "scale", "get", "delete"], [4, 3, 5, 8, 2, 3, 1, 1]
    )[0]
    if act not in {"apply", "delete", "get"} and chance.random() < 0.2:
        query["fieldValidation"] = chance.choice(["Strict", "Warn", "Ignore"])
    manager = {"fieldManager": chance.choice(["ada", "bob", "cyd"])}
    match act:
        case "create":
            return "POST", kind.path, kind.object(name, content), query | manager
        case "replace":
            return "PUT", named, kind.object(name, content), query | manager
        case "merge":
            return "PATCH", named, content, query | manager | {"content_type": MERGE}
        case "apply":
            force = {"force": chance.choice(["true", "false"]), "content_type": APPLY}
            return "PATCH", named, kind.object(name, content), query | manager | force
        case "status":
            status = {"status": chance.choice(_STATUSES)}
            return "PATCH", f"{named}/status", status, query | manager | {"content_type": MERGE}
        case "scale":
            return _scale(chance, name, f"{named}/scale", query | manager)
        case "get":
            return "GET", named, None, {}
    return "DELETE", named, {"propagationPolicy": "Background"}, {}


def _scale(chance: random.Random, name: str, path: str, query: dict[str, str]) -> Request:
    spec = chance.choice(
        [{"replicas": 2}, {"replicas": 4}, {"replicas": 4}, {"replicas": -1}, {}, {"replica": 1}]
    )
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name}, "spec": spec}
    match chance.choice(["get", "replace", "merge", "merge"]):
        case "get":
            return "GET", path, None, {}
        case "replace" if "replica" not in spec:  # which a custom kind refuses in other words
            return "PUT", path, scale, query
    return "PATCH", path, {"spec": spec}, query | {"content_type": MERGE}


def _metadata(chance: random.Random) -> Object:
    metadata: Object = {}
    if chance.random() < 0.3:
        metadata["labels"] = _some(chance, {"tier": "front", "team": "blue"})
    if chance.random() < 0.2:
        metadata["annotations"] = _some(chance, {"note": "x", "other": "y"})
    return {"metadata": metadata} if metadata else {}


def _config_map(chance: random.Random) -> Object:
    data = _some(chance, {"a": chance.choice(["1", "2"]), "b": "3", "c": "4"})
    rare: list[Object] = [
        {"immutable": False},
        {"unknown": 1},
        {"data": {"a": 1}},
        {"binaryData": {"bin": "YQ=="}},
    ]
    return {"data": data} | _rarely(chance, rare) | _metadata(chance)


def _deployment(chance: random.Random) -> Object:
    content = {"spec": sample("apps/v1/Deployment", "")["spec"]}
    container: Object = {
        "name": chance.choice(["web", "web", "log"]),
        "image": chance.choice(["web:1", "web"]),
    }
    if chance.random() < 0.5:
        container["env"] = [{"name": each, "value": chance.choice("xy")} for each in _some(chance, "ABC")]
    if chance.random() < 0.5:
        ports = _some(chance, {80: "TCP", 81: "UDP", 82: "TCP"})
        container["ports"] = [
            {"containerPort": port, "protocol": protocol, "name": f"p{port}"}
            for port, protocol in ports.items()
        ]
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {"selector": content["spec"]["selector"], "template": template}
    rare: list[Object] = [
        *({"replica": 1}, {"replicas": "1"}, {"paused": True}, {"paused": False}, {"minReadySeconds": 5}),
        *({"minReadySeconds": 0}, {"minReadySeconds": -1}, {"minReadySeconds": 600}, {"replicas": -1}),
        *({"replicas": 0}, {"progressDeadlineSeconds": 0}, {"revisionHistoryLimit": 0}),
    ]
    spec |= _rarely(chance, rare) | ({"replicas": chance.randrange(1, 4)} if chance.random() < 0.5 else {})
    return {"spec": spec} | _metadata(chance)


def _gadget(chance: random.Random) -> Object:
    spec: Object = {"replicas": chance.choice([2, 4])} if chance.random() < 0.8 else {}
    whole = {
        "color": chance.choice(["red", "blue"]),
        "enabled": True,
        "map": [{"key": key, "value": chance.randrange(3)} for key in _some(chance, "abc")],
        "set": list(_some(chance, "xyz")),
        "list": [chance.choice("xyz")],
        "whole": _some(chance, {"a": "1", "b": "2"}),
        "dictionary": {"a": chance.randrange(3)},
        "port": chance.choice([80, "http"]),
    }
    spec |= _some(chance, whole)
    if chance.random() < 0.3:
        other = chance.choice(gadgets.SPECS)
        spec |= {name: value for name, value in other.items() if value is not None}
    return {"spec": spec} | _metadata(chance)


def _rarely(chance: random.Random, choices: list[Object]) -> Object:
    return chance.choice(choices) if chance.random() < 0.1 else {}


def _some(chance: random.Random, among: Any) -> Any:
    """Return some of a mapping's items, or of a text's letters, in order; one at least."""
    chosen = [each for each in among if chance.random() < 0.5] or [next(iter(among))]
    return {each: among[each] for each in chosen} if isinstance(among, dict) else chosen


def main() -> None:
    """Play on servers of one's own."""
    from tests.support.api_servers import EmulatedServer, RealApiServer, real_api_server_assets
    from tests.support.samples import wait_until_served

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--requests", type=int, default=10_000)
    given = parser.parse_args()
    namespace = f"play-{uuid.uuid4().hex[:8]}"
    with RealApiServer(real_api_server_assets()) as real, EmulatedServer() as emulator:
        for server in real, emulator:
            server.client().create(gadgets.definition())
            wait_until_served(server.client(), f"{gadgets.GROUP}/v1/Gadget")
            server.client().create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        twins = Twins(real.client(), emulator.client())
        rehearse(twins, namespace, given.seed, given.requests)
        play(twins, namespace, given.seed, given.requests)


if __name__ == "__main__":
    main()
