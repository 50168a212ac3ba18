"""What a request asks for: the object or collection its path names, its body, and a record of it."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import msgspec
import yaml

from distq.testing.apiserver.resources import OF_SUBRESOURCES, Catalogue, ServedResource
from distq.testing.apiserver.status import StatusError, bad_request, no_such_resource, unsupported_media_type

_NAMESPACE_SUBRESOURCES = {"finalize", "status"}
VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def _parts(path: str) -> tuple[str, str, str, str, str, str] | None:
    """Return group, version, namespace, plural, name, subresource; None where the path has another form."""
    match path.strip("/").split("/"):
        case ["api", version, *rest] if rest:
            group = ""
        case ["apis", group, version, *rest] if rest:
            pass
        case _:
            return None
    namespace = ""
    # /namespaces/NAME/status is of the Namespace itself
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
        namespace, rest = rest[1], rest[2:]
    plural, name, *subresources = [*rest, ""] if len(rest) == 1 else rest
    return group, version, namespace, plural, name, "/".join(subresources)


class Target(NamedTuple):
    """What a path names."""

    resource: ServedResource
    namespace: str
    name: str
    subresource: str = ""

    @property
    def key(self) -> str:
        """Return the object's key in its collection."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def shown(self) -> ServedResource:
        """Return what is read and written there: objects of the resource, or of a subresource's own kind."""
        return OF_SUBRESOURCES.get(self.subresource, self.resource)


def locate(catalogue: Catalogue, path: str) -> Target | None:
    """Return what the path names, or None where it is no resource path.

    Raises StatusError 404 where the group is the server's own and has no such resource.
    """
    if (parts := _parts(path)) is None:
        return None
    group, version, namespace, plural, name, subresource = parts
    resource = catalogue.find(group, version, plural)
    if resource is None:
        if catalogue.built_in(group):
            raise no_such_resource()
        return None
    misplaced = bool(namespace) != resource.namespaced and bool(namespace or name)
    if misplaced or subresource not in ("", *resource.subresources):
        raise no_such_resource()
    return Target(resource, namespace, name, subresource)


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request that the server got, for tests and the demo to count."""

    method: str
    path: str
    query: Mapping[str, str]
    user_agent: str
    user: str
    """The bearer token of the request, which ``kubeconfig`` lets you choose."""
    time: float = field(default_factory=time.time)
    """Unix time of its arrival."""

    @property
    def name(self) -> str:
        """The object that the path names; empty for a collection."""
        *_, name, _ = _parts(self.path) or ("", "")
        return name

    @property
    def verb(self) -> str:
        """The verb as audit logs and RBAC name it: get, list, watch, create, update, patch, delete..."""
        if self.method != "GET":
            verb = VERBS.get(self.method, self.method.lower())
            return "deletecollection" if verb == "delete" and not self.name else verb
        if is_set(self.query, "watch"):
            return "watch"
        return "get" if self.name else "list"

    @property
    def full_list(self) -> bool:
        """Whether it is the first page of a LIST of everything, not a look at the version (limit=1)."""
        return self.verb == "list" and self.query.get("limit") != "1" and not self.query.get("continue")


def is_set(query: Mapping[str, str], name: str) -> bool:
    """Return whether a parameter that is true or false is true: any value but a no.

    Source: apimachinery runtime.Convert_Slice_string_To_bool.
    """
    return query.get(name, "false").lower() not in {"false", "0"}


def whole_number(text: str) -> int:
    """Return what a parameter says that is a number of 64 bits."""
    try:
        number = int(text)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
    if not -(2**63) <= number < 2**63:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
    return number


_MOST_VALUES = 1_000_000
"""Values of a YAML document; by aliases of aliases a few lines may expand to more than fits any memory."""


class KubernetesLoader(yaml.SafeLoader):
    """YAML as Kubernetes reads it: times stay text, and what becomes no JSON is refused."""

    def construct_document(self, node: yaml.Node) -> Any:
        """Return the document as JSON has it; raise ConstructorError where that is endless, or no JSON."""
        problem = "too many aliases"
        if _values(node, {}) <= _MOST_VALUES:
            try:
                return msgspec.json.decode(msgspec.json.encode(super().construct_document(node)))
            except (TypeError, ValueError, OverflowError):
                problem = "a value that JSON does not have"
        raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


def _values(node: yaml.Node, counted: dict[int, float]) -> float:
    """Count the values in a node, each alias as the values behind it; infinite where one has itself in it."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) not in counted:
        counted[id(node)] = math.inf
        inner = chain(*node.value) if isinstance(node, yaml.MappingNode) else node.value
        counted[id(node)] = 1 + sum(_values(each, counted) for each in inner)
    return counted[id(node)]


KubernetesLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def decode(body: bytes, content_type: str) -> Any:
    """Return a request's body; JSON is tried first, since it is YAML too."""
    media_type = content_type.partition(";")[0].strip()
    if media_type.endswith("protobuf"):
        remedy = "Send JSON or YAML: kubectl create ... --dry-run=client -o yaml | kubectl apply -f -"
        raise StatusError(415, f"no protobuf in the emulated API server. {remedy}")
    if media_type not in {"", "application/json"} and not media_type.endswith(("+json", "yaml")):
        raise unsupported_media_type("application/json", "application/yaml")
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if not media_type.endswith("yaml"):
            raise bad_request(f"couldn't get version/kind; json parse error: {error}") from None
    try:
        documents = [each for each in yaml.load_all(body, KubernetesLoader) if each is not None]
    except (yaml.YAMLError, RecursionError) as error:
        raise bad_request(f"error decoding YAML: {error}") from None
    return documents[0] if documents else {}
