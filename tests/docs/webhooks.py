"""What runs the webhooks of their page: on a real API server, which asks them."""

import base64
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from distq import Client
from distq.errors import ApiError
from tests.client.tls_server import make_certificate
from tests.docs.reader import Reader, runs
from tests.support.api_servers import RealApiServer, real_api_server_assets
from tests.support.eventually import eventually
from tests.support.ports import free_port

PORT = "8443"


@runs("# webhooks.yaml")
def the_configuration_is_taken(text: str, reader: Reader) -> None:
    """Find the one webhook that the next test gives to the API server."""
    (webhook,) = yaml.safe_load(text)["webhooks"]
    assert webhook["clientConfig"]["service"]["port"] == int(PORT)


@runs("# webhooks.py")
def the_api_server_asks_them(text: str, reader: Reader) -> None:
    """Write a Foo without a tag, which is rejected, and read one with a tag in the other version."""
    program, configuration = ((reader.folder / f"webhooks.{end}").read_text() for end in ("py", "yaml"))
    port = free_port()
    folder = reader.folder / f"webhooks {port}"
    folder.mkdir()
    (folder / "webhooks.py").write_text(program.replace(f"port={PORT}", f"port={port}"))
    with RealApiServer(real_api_server_assets()) as server, serving(folder, reader) as authority:

        def address(path: str) -> dict[str, str]:
            return {"url": f"https://127.0.0.1:{port}{path}", "caBundle": authority}

        client = server.client()
        client.create(definition(address("/convert")))
        webhooks = yaml.safe_load(configuration)
        (webhook,) = webhooks["webhooks"]
        webhook["clientConfig"] = address(webhook["clientConfig"]["service"]["path"])
        client.create(webhooks)
        # until then it may be refused for another reason: the webhook cannot be reached yet
        eventually(lambda: "image 'nginx' has no tag" in refusal(client))
        client.create(foo("tagged", "nginx:1.29"))
        stored = client.get("example.com/v2/Foo", "default/tagged")
        assert stored is not None
        assert stored["spec"] == {"images": ["nginx:1.29"]}


def definition(address: dict[str, str]) -> dict[str, Any]:
    """Return the definition of Foo in two versions, which the webhook at an address converts."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": schema} for name in ("v1", "v2")
    ]
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": address}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Foo", "plural": "foos"},
            "versions": versions,
            "conversion": {"strategy": "Webhook", "webhook": webhook},
        },
    }


def foo(name: str, image: str) -> dict[str, Any]:
    """Return a Foo to be written."""
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": metadata, "spec": {"image": image}}


def refusal(client: Client) -> str:
    """Create a Foo whose image has no tag; return why it was refused, empty as long as it is not."""
    try:
        client.create(foo("untagged", "nginx"))
    except ApiError as error:
        return "" if error.status == 404 else str(error)  # its kind is not served yet
    client.delete("example.com/v1/Foo", "default/untagged")
    return ""


@contextmanager
def serving(folder: Path, reader: Reader) -> Iterator[str]:
    """Run the program with a certificate for this machine; give the authority that signed it."""
    make_certificate(folder, "tls")
    with reader.started("env", "-C", str(folder), sys.executable, "webhooks.py"):
        yield base64.b64encode((folder / "tls.crt").read_bytes()).decode()
