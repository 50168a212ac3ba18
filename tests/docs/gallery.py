"""What runs the programs of the gallery."""

import runpy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from distq import Inspector, Queue, Request, Result
from distq.errors import ReconcileFailed
from tests.docs.reader import Reader, runs
from tests.support.samples import custom_resource

FOO = "example.com/v1/Foo"


def load(reader: Reader, file: str) -> dict[str, Any]:
    """Return what a program of the pages binds."""
    return runpy.run_path(str(reader.folder / file))


def new_foo(reader: Reader, name: str, **spec: Any) -> dict[str, Any]:
    """Create a Foo."""
    metadata = {"name": name, "namespace": "default"}
    foo = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": metadata}
    return reader.sandbox.client.create({**foo, "spec": {"image": "nginx", "replicas": 1, **spec}})


def new_config_map(reader: Reader, name: str, **data: str) -> None:
    """Create a ConfigMap."""
    metadata = {"name": name, "namespace": "default"}
    reader.sandbox.client.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    )


@runs("# slow_api.py")
def a_slow_job_is_followed(text: str, reader: Reader) -> None:
    """Let the job run, be busy, and end; no second one is started, and none is waited for."""
    program, sandbox = load(reader, "slow_api.py"), reader.sandbox
    uid = new_foo(reader, "slow")["metadata"]["uid"]
    sandbox.run_until_idle(program["controller"])
    jobs, inspector = program["api"].jobs, Inspector(sandbox.redis)
    assert jobs[uid] == "running"
    item = inspector.item("slow-api", "default/slow")
    assert item is not None
    assert (item.state, item.failures) == ("delayed", 0)
    jobs[uid] = "busy"
    Queue("slow-api", sandbox.redis).add("default/slow")
    with pytest.raises(ReconcileFailed, match="busy"):
        sandbox.run_until_idle(program["controller"])
    jobs.update(dict.fromkeys(jobs, "done"))
    Queue("slow-api", sandbox.redis).add("default/slow")
    sandbox.run_until_idle(program["controller"])
    assert inspector.item("slow-api", "default/slow") is None
    sandbox.client.delete(FOO, "default/slow")


@runs("# parts.py")
def children_come_and_go_with_the_spec(text: str, reader: Reader) -> None:
    """Ask for two children, then for another one; a child that is deleted comes back."""
    program, client = load(reader, "parts.py"), reader.sandbox.client

    def parts() -> dict[str, str]:
        reader.sandbox.run_until_idle(program["controller"])
        found = client.list(program["PART"], "default", label_selector="of=foos")
        return {part["metadata"]["name"]: part["data"]["text"] for part in found}

    new_foo(reader, "whole", parts={"a": "one", "b": "two"})
    assert parts() == {"whole-a": "one", "whole-b": "two"}
    client.patch(FOO, "default/whole", {"spec": {"parts": {"a": None, "b": "2", "c": "three"}}})
    assert parts() == {"whole-b": "2", "whole-c": "three"}
    client.delete(program["PART"], "default/whole-c")
    assert parts() == {"whole-b": "2", "whole-c": "three"}
    client.delete(FOO, "default/whole")
    assert parts() == {}


@runs("# configured.py")
def a_config_map_reaches_the_foos_that_use_it(text: str, reader: Reader) -> None:
    """Change the settings of one Foo: it is reconciled, and another one is not."""
    program, client = load(reader, "configured.py"), reader.sandbox.client
    seen: list[str] = []
    reconcile = program["controller"].reconcile

    def noted(request: Request) -> None:
        seen.append(request.key)
        reconcile(request)

    program["controller"].reconcile = noted
    new_foo(reader, "with-settings", settings="settings")
    reader.sandbox.run_until_idle(program["controller"])
    assert "default/with-settings" in seen
    seen.clear()
    new_config_map(reader, "settings", color="red")
    new_config_map(reader, "of-others", color="blue")
    reader.sandbox.run_until_idle(program["controller"])
    assert seen == ["default/with-settings"]
    client.delete(FOO, "default/with-settings")


@runs("# nightly.py")
def a_backup_runs_at_its_time(text: str, reader: Reader) -> None:
    """Step the clock of the program: nothing before its hour, one run after it, a missed one is made up."""
    program, client = load(reader, "nightly.py"), reader.sandbox.client
    definition = custom_resource("example.com")
    definition["metadata"]["name"] = "backups.example.com"
    definition["spec"]["names"] = {"kind": "Backup", "plural": "backups"}
    metadata = {"name": "data", "namespace": "default"}
    backup = {"apiVersion": "example.com/v1", "kind": "Backup", "metadata": metadata}
    made = reader.sandbox.apply(definition, {**backup, "spec": {"at": "03:00"}})[-1]
    created = datetime.fromisoformat(made["metadata"]["creationTimestamp"])
    night = created.replace(hour=3, minute=0, second=0, microsecond=0) + timedelta(days=1)
    assert program["clock"]().tzinfo is UTC

    def at(now: datetime) -> tuple[Result, str | None]:
        program["reconcile"].__globals__["clock"] = lambda: now
        result = program["reconcile"](Request("default/data"))
        stored = client.get(program["BACKUP"], "default/data")
        assert stored is not None
        return result, stored.get("status", {}).get("lastRun")

    if created.hour < 3:
        night -= timedelta(days=1)
    assert at(night - timedelta(minutes=1)) == (Result(requeue_after=60.0), None)
    assert at(night) == (Result(requeue_after=86400.0), night.isoformat())
    assert at(night + timedelta(hours=1))[1] == night.isoformat()
    missed = night + timedelta(days=2, hours=5)
    assert at(missed) == (Result(requeue_after=19 * 3600.0), missed.isoformat())


@runs("# disks_outside.py")
def a_disk_goes_before_its_foo(text: str, reader: Reader) -> None:
    """Delete the Foo: it stays until the disk, which takes its time, is gone."""
    program, sandbox = load(reader, "disks_outside.py"), reader.sandbox
    controller, disks = program["controller"], program["disks"]
    uid = new_foo(reader, "with-disk")["metadata"]["uid"]
    sandbox.run_until_idle(controller)
    assert disks[uid] == "there"
    sandbox.client.delete(FOO, "default/with-disk")
    sandbox.run_until_idle(controller)
    assert disks[uid] == "deleting"
    assert sandbox.client.get(FOO, "default/with-disk")
    Queue(controller.name, sandbox.redis).add("default/with-disk")
    sandbox.run_until_idle(controller)
    assert sandbox.client.get(FOO, "default/with-disk") is None
    assert uid not in disks
    for foo in sandbox.client.list(FOO, "default"):
        sandbox.client.remove_finalizer(foo, program["FINALIZER"])


@runs("# tenants.py")
def each_tenant_has_a_queue(text: str, reader: Reader) -> None:
    """Create a Foo for each of them; each queue gets its own."""
    program, sandbox = load(reader, "tenants.py"), reader.sandbox
    teams = {"team-a": program["team_a"], "team-b": program["team_b"]}
    seen: list[tuple[str, str]] = []
    for team, controller in teams.items():
        sandbox.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}})
        metadata, spec = {"name": "web", "namespace": team}, {"image": "nginx"}
        sandbox.apply({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": metadata, "spec": spec})
        controller.reconcile = lambda request, name=controller.name: seen.append((name, request.key))
    sandbox.run_until_idle(*teams.values())
    assert set(seen) == {("foos-team-a", "team-a/web"), ("foos-team-b", "team-b/web")}
    for team in teams:
        sandbox.client.delete(FOO, f"{team}/web")
