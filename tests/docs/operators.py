"""What runs the operators that the page for users of kopf shows: the original, and what became of it."""

import json
import runpy
import sys
from typing import Any

from distq.inspector import Inspector
from tests.docs.reader import Reader, runs

KOPF = """
from distq import set_controller_reference as _own

class on:
    create = update = resume = event = startup = lambda *resource, **filters: lambda handler: handler

PRESENT = object()

def adopt(obj, owner):
    _own(owner, obj)
"""
"""What kopf is to the functions of an operator: its decorators return them as they are."""

EVENTS = """
import json, sys
import kopf_foos
foo = json.loads(sys.argv[1])
kopf_foos.connect()
if "--deleted" in sys.argv:
    kopf_foos.client.AppsV1Api().delete_namespaced_deployment("before", "default")
    kopf_foos.deployment_changed(namespace="default", labels={"foo": "before"})
else:
    kopf_foos.foo_changed(body=foo)
"""


@runs("# kopf_foos.py")
def both_operators_want_the_same(text: str, reader: Reader) -> None:
    """Call its handlers for two events; distq finds in their writes nothing to change.

    kopf itself does not run: it is no dependency, and the handlers work alike under any caller.
    """
    stand_in = reader.folder / "stand_in"
    stand_in.mkdir()
    (stand_in / "kopf.py").write_text(KOPF)
    client = reader.sandbox.client
    metadata, spec = {"name": "before", "namespace": "default"}, {"image": "nginx", "replicas": 2}
    foo = client.create({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": metadata, "spec": spec})
    path = f"{stand_in}:{reader.environment.get('PYTHONPATH', '')}"
    environment = reader.environment | {"PYTHONPATH": path}
    for event in ("--changed", "--deleted"):
        reader.run(sys.executable, "-c", EVENTS, json.dumps(foo), event, **environment)
        written = _deployment(client)
        reader.sandbox.run_until_idle(runpy.run_path(str(reader.folder / "foos.py"))["controller"])
        found = _deployment(client)
        assert found["metadata"]["generation"] == written["metadata"]["generation"] == 1
        assert found["metadata"]["ownerReferences"] == written["metadata"]["ownerReferences"]
    client.delete("example.com/v1/Foo", "default/before")


def _deployment(client: Any) -> Any:
    deployment = client.get("apps/v1/Deployment", "default/before")
    assert deployment is not None
    return deployment


@runs("# records.py")
def each_element_fails_alone(text: str, reader: Reader) -> None:
    """Publish three records, of which one is wrong, and take one away again."""
    program = runpy.run_path(str(reader.folder / "records.py"))
    client, zones, records = reader.sandbox.client, program["zones"], program["records"]
    spec = {"records": {"a": "192.0.2.1", "b": "no address", "c": "192.0.2.3"}}
    client.patch(program["FOO"], "default/web", {"spec": spec})
    reader.sandbox.run_until_idle(zones, records, on_failure="retry")
    assert program["published"] == {"default/web/a": "192.0.2.1", "default/web/c": "192.0.2.3"}
    [failed] = Inspector(reader.sandbox.redis).items("records")
    assert (failed.key, failed.state) == ("default/web/b", "dead")
    client.patch(program["FOO"], "default/web", {"spec": {"records": {"a": None}}})
    records.queue.add("default/web/a")
    reader.sandbox.run_until_idle(zones, records, on_failure="retry")
    assert program["published"] == {"default/web/c": "192.0.2.3"}
    client.patch(program["FOO"], "default/web", {"spec": {"records": None}})
