"""``distq manifests``: what it prints is derived from the target, least, and the same each time."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from distq.cli import logs
from distq.cli.manifests.roles import VERBS, WRITES, Access, guess_plural
from distq.cli.program import main
from distq.client import Client
from distq.config import Settings
from distq.errors import ConfigError
from distq.testing import EmulatedApiServer

BACKUPS = """
from distq import Controller, For, Owns, Watches

controller = Controller(
    "backups",
    print,
    watches=[
        For("example.com/v1/Backup", namespaces=["red", "blue"]),
        Owns("batch/v1/Job", namespaces=["red"]),
    ],
    concurrency=3,
)
"""
EVERYWHERE = """
from distq import Controller, For

controller = Controller("proxies", print, watches=[For("example.com/v1/Proxy")])
"""
CACHED = """
from distq import Controller, For, Owns

controller = Controller(
    "cached",
    print,
    watches=[
        For("example.com/v1/Backup", cached=True),
        Owns("batch/v1/Job", namespaces=["red"]),
    ],
)
"""
MAPPED = """
from distq import Controller, For, Watches

controller = Controller(
    "mapped",
    print,
    watches=[
        For("example.com/v1/Backup", cached=True, namespaces=["red"]),
        Watches("v1/Pod", len, cached=True, namespaces=["red"], field_selector="spec.nodeName=a"),
    ],
)
"""
WORKERS = """
from distq import Controller

thumbnails = Controller("thumbnails", print)
"""
TIMER = """
from distq import Controller, Every

timer = Controller("timer", print, watches=[Every(60, lambda: ["all"])])
"""
LEADING = """
from distq import Controller, Manager

manager = Manager([Controller("leading", print)])
manager.add(lambda stop: stop.wait())
"""

Object = dict[str, Any]


SOURCES = {
    "backups": BACKUPS,
    "everywhere": EVERYWHERE,
    "cached": CACHED,
    "mapped": MAPPED,
    "thumbnails": WORKERS,
    "timer": TIMER,
    "leading": LEADING,
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Work in a folder with some targets, and with none of the tester's own settings."""
    for name, source in SOURCES.items():
        (tmp_path / f"{name}.py").write_text(source)
    for variable in [name for name in os.environ if name.startswith(("DISTQ_", "KUBE"))]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("KUBECONFIG", "")  # and what the command sets of it is forgotten
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(logs, "configure", lambda *_, **__: None)
    yield tmp_path
    for name in SOURCES:
        sys.modules.pop(name, None)


pytestmark = pytest.mark.usefixtures("folder")


def run(*arguments: str, **settings: str) -> Result:
    """Run the command in this process; what it prints and how it ends is the command line's."""
    return CliRunner().invoke(main, ["manifests", *arguments], env=settings)


def printed(*arguments: str, **settings: str) -> list[Object]:
    """Return the objects that the command prints for an image."""
    done = run(*arguments, "--image", "foos:1", **settings)
    assert done.exit_code == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def of_kind(objects: list[Object], kind: str) -> list[Object]:
    """Return the objects of a kind."""
    return [each for each in objects if each["kind"] == kind]


def rights(objects: list[Object], component: str) -> dict[str, set[str]]:
    """Return what a component may do: by place, "" for everywhere, texts such as ``get apps/deployments``."""
    found: dict[str, set[str]] = {}
    for role in (*of_kind(objects, "Role"), *of_kind(objects, "ClusterRole")):
        if role["metadata"]["labels"]["app.kubernetes.io/component"] != component:
            continue
        place = found.setdefault(role["metadata"].get("namespace", ""), set())
        for rule in role["rules"]:
            (group,), (resource,) = rule["apiGroups"], rule["resources"]
            what = "/".join([*filter(None, [group]), resource, *rule.get("resourceNames", [])])
            place |= {f"{verb} {what}" for verb in rule["verbs"]}
    return found


def containers(objects: list[Object]) -> Iterator[Object]:
    """Yield all containers that run distq."""
    for deployment in of_kind(objects, "Deployment"):
        pod = deployment["spec"]["template"]["spec"]
        yield from (*pod.get("initContainers", []), *pod["containers"])


def test_rights_are_the_least_that_the_watches_mean() -> None:
    """All namespaces being named, each side has in each namespace only the rights that its watches need."""
    objects = printed("backups", "--namespace", "ops", "--writes", "batch/v1/Job:create")
    events = {"create events", "patch events"}
    lease = "coordination.k8s.io/leases"
    assert rights(objects, "informer") == {
        "ops": events
        | {f"create {lease}"}
        | {f"{verb} {lease}/distq-backups" for verb in ("get", "watch", "update", "patch")},
        "red": {
            f"{verb} {what}" for verb in ("list", "watch") for what in ("example.com/backups", "batch/jobs")
        },
        "blue": {"list example.com/backups", "watch example.com/backups"},
    }
    assert rights(objects, "worker") == {
        "red": events | {"get example.com/backups", "get batch/jobs", "create batch/jobs"},
        "blue": events | {"get example.com/backups", "create batch/jobs"},
    }
    assert of_kind(objects, "ClusterRole") == []


def test_a_runnable_of_the_leader_means_an_informer() -> None:
    """Its Manager is the module's, and competes for the Lease without a watch."""
    objects = printed("leading", "--namespace", "ops")
    names = {each["metadata"]["name"] for each in of_kind(objects, "Deployment")}
    assert names == {"distq-leading-informer", "distq-leading-worker"}
    lease = "coordination.k8s.io/leases"
    assert f"update {lease}/distq-leading" in rights(objects, "informer")["ops"]


def test_a_watch_of_all_namespaces_means_a_cluster_role() -> None:
    """It may identify the cluster, too; its name has the namespace, for others may run the same target."""
    objects = printed("everywhere", "--namespace", "ops", "--reads", "v1/Secret")
    assert rights(objects, "informer")[""] == {
        "list example.com/proxies",
        "watch example.com/proxies",
        "get namespaces/kube-system",
    }
    assert rights(objects, "worker") == {
        "": {"get example.com/proxies", "get secrets", "create events", "patch events"}
    }
    names = [each["metadata"]["name"] for each in of_kind(objects, "ClusterRoleBinding")]
    assert names == ["ops:distq-everywhere-informer", "ops:distq-everywhere-worker"]


def test_a_cached_watch_means_the_rights_that_caches_need() -> None:
    """Workers get what is too large for a cache, and know in which cluster they are; informers read none."""
    objects = printed("cached", "--namespace", "ops")
    cluster = "get namespaces/kube-system"
    assert rights(objects, "informer") | {"ops": set()} == {
        "ops": set(),
        "": {cluster, *(f"{verb} example.com/backups" for verb in ("list", "watch"))},
        "red": {"list batch/jobs", "watch batch/jobs"},
    }
    assert rights(objects, "worker") == {
        "": {cluster, "create events", "patch events", "get example.com/backups"},
        "red": {"get batch/jobs"},
    }


def test_an_informer_that_calls_functions_gets_objects_that_are_too_large_for_a_cache() -> None:
    """A mapping function, a predicate or an Every may read any cache of its program."""
    watched = ("example.com/backups", "pods")
    may = rights(printed("mapped"), "informer")["red"]
    assert may == {f"{verb} {what}" for verb in ("get", "list", "watch") for what in watched}


@pytest.mark.parametrize(
    ("write", "listed"),
    [
        ("example.com/v1/Backup:create", set()),
        ("example.com/v1/Backup/status", set()),
        ("example.com/v1/Backup:patch", {"list example.com/backups"}),
        ("example.com/v1/Backup:delete", {"list example.com/backups"}),
        ("example.com/v2/Backup/status:patch", {"list example.com/backups"}),
        ("v1/Pod:create", {"list pods"}),
        ("batch/v1/Job", set()),
    ],
)
def test_workers_list_where_the_answer_to_a_write_lacks_the_version(write: str, listed: set[str]) -> None:
    """After what may end an object, by a field selector and in another version; nowhere else."""
    may = rights(printed("mapped", "--writes", write), "worker")["red"]
    assert {right for right in may if right.startswith("list ")} == listed


def test_roles_are_bound_to_the_accounts_that_pods_have() -> None:
    """Each role has its binding in its place, to the service account of its own side."""
    objects = printed("backups", "--namespace", "ops")
    roles = {(each["metadata"]["namespace"], each["metadata"]["name"]) for each in of_kind(objects, "Role")}
    bindings = of_kind(objects, "RoleBinding")
    assert {(each["metadata"]["namespace"], each["roleRef"]["name"]) for each in bindings} == roles
    accounts = {each["metadata"]["name"] for each in of_kind(objects, "ServiceAccount")}
    assert {subject["name"] for each in bindings for subject in each["subjects"]} == accounts
    assert {subject["namespace"] for each in bindings for subject in each["subjects"]} == {"ops"}
    pods = [each["spec"]["template"]["spec"] for each in of_kind(objects, "Deployment")]
    assert {pod["serviceAccountName"] for pod in pods} == accounts


@pytest.mark.parametrize("name", ["thumbnails", "timer"])
def test_a_controller_that_watches_no_resource_needs_no_rights_to_it(name: str) -> None:
    """Workers alone have no role and no informer; a timer has a leader, with rights to the lease."""
    objects = printed(name)
    assert rights(objects, "worker") == {}
    names = [each["metadata"]["name"] for each in of_kind(objects, "Deployment")]
    timer = name == "timer"
    assert names == [f"distq-{name}-informer"] * timer + [f"distq-{name}-worker"]
    assert set(rights(objects, "informer")) == ({"default"} if timer else set())


def test_containers_run_commands_that_distq_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands parse, variables are settings, and informers are checked for the rights that they need."""
    objects = printed("backups", "--redis", "--dashboard", "--concurrency", "5", "--prefix", "blue")
    commands = []
    for container in containers(objects):
        name, *arguments = container["args"]
        main.commands[name].make_context(name, list(arguments))
        commands.append([name, *(word for word in arguments if word == "backups")])
        variables = {each["name"]: each["value"] for each in container["env"]}
        settings = Settings.from_env(variables)
        assert (settings.prefix, settings.concurrency) == ("blue", 5)
        assert settings.redis_url == "redis://blue-backups-redis:6379/0"
    assert commands == [
        ["check", "backups"],
        ["informer", "backups"],
        ["check"],
        ["worker", "backups"],
        ["dashboard"],
    ]


def test_settings_become_the_pods_and_secrets_do_not() -> None:
    """A setting other than its default is a variable; Redis' settings stay in a Secret, though known here."""
    url = {
        "DISTQ_REDIS_URL": "redis://:hush@db/0",
        "DISTQ_REDIS_PASSWORD": "hush",
        "DISTQ_LOG_FORMAT": "json",
    }
    done = run("backups", "--image", "a", "--grace-period", "90", "--lease-name", "own", **url)
    assert "hush" not in done.stdout + done.stderr
    objects = list(yaml.safe_load_all(done.stdout))
    variables = {"DISTQ_LEASE_NAME": "own", "DISTQ_GRACE_PERIOD": "90", "DISTQ_LOG_FORMAT": "json"}
    for container in containers(objects):
        given = {each["name"]: each["value"] for each in container["env"]}
        assert given.pop("DISTQ_HTTP_ADDRESS", ":8080") == ":8080"
        assert given == variables
        assert container["envFrom"] == [{"secretRef": {"name": "distq-backups-redis"}}]
    for deployment in of_kind(objects, "Deployment"):
        assert deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > 92
    assert "get coordination.k8s.io/leases/own" in rights(objects, "informer")["default"]
    refused = run("backups", "--image", "a", "--redis-url", "redis://:hush@db/0")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "Put DISTQ_REDIS_URL into the Secret" in refused.stderr


def test_workers_are_scaled_by_the_items_that_wait() -> None:
    """A HorizontalPodAutoscaler or KEDA looks at each queue's depth; a given number has neither."""
    (autoscaler,) = of_kind(printed("backups"), "HorizontalPodAutoscaler")
    (metric,) = autoscaler["spec"]["metrics"]
    assert metric["external"]["metric"] == {
        "name": "workqueue_depth",
        "selector": {"matchLabels": {"name": "backups"}},
    }
    assert metric["external"]["target"] == {"type": "AverageValue", "averageValue": "30"}
    objects = printed("backups", "--keda", "--workers", "1-4")
    (scaled,) = of_kind(objects, "ScaledObject")
    assert (scaled["spec"]["minReplicaCount"], scaled["spec"]["maxReplicaCount"]) == (1, 4)
    assert 'workqueue_depth{name="backups"}' in scaled["spec"]["triggers"][0]["metadata"]["query"]
    assert "replicas" not in of_kind(objects, "Deployment")[1]["spec"]
    fixed = printed("backups", "--workers", "3")
    assert of_kind(fixed, "Deployment")[1]["spec"]["replicas"] == 3
    for none in ("HorizontalPodAutoscaler", "ScaledObject"):
        assert of_kind(fixed, none) == []
    assert of_kind(objects, "HorizontalPodAutoscaler") == []


def test_policies_let_pods_reach_redis_and_no_pod_reach_the_dashboard() -> None:
    """A Redis of its own is asked by the installation's pods alone, which select what the policies name."""
    policies = {
        each["metadata"]["labels"]["app.kubernetes.io/component"]: each["spec"]
        for each in of_kind(printed("backups", "--redis", "--dashboard"), "NetworkPolicy")
    }
    assert policies["dashboard"]["ingress"] == []
    assert policies["redis"]["egress"] == []
    (asked,) = policies["redis"]["ingress"]
    assert asked["from"][0]["podSelector"]["matchExpressions"][0]["values"] == [
        "informer",
        "worker",
        "dashboard",
    ]
    assert asked["ports"] == [{"protocol": "TCP", "port": 6379}]
    assert {"informer", "worker"} == set(policies["process"]["podSelector"]["matchExpressions"][0]["values"])


def test_the_dashboard_asks_for_a_login() -> None:
    """It listens to others by its Secret's users alone, which the first lines say how to make."""
    done = run("backups", "--image", "a", "--dashboard")
    assert "generic --namespace default distq-backups-dashboard --from-literal=users=" in done.stdout
    (deployment,) = (
        each
        for each in of_kind(list(yaml.safe_load_all(done.stdout)), "Deployment")
        if each["metadata"]["name"] == "distq-backups-dashboard"
    )
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    choices = main.commands["dashboard"].make_context("dashboard", container["args"][1:]).params
    (mount,) = container["volumeMounts"]
    assert choices["bind"] == f"0.0.0.0:{container['ports'][0]['containerPort']}"
    assert (str(choices["users"]), str(choices["secret"])) == ("/etc/distq/users", "/etc/distq/secret")
    assert mount == {"name": "login", "mountPath": "/etc/distq", "readOnly": True}
    assert pod["volumes"] == [{"name": "login", "secret": {"secretName": "distq-backups-dashboard"}}]
    assert "distq-backups-dashboard" not in run("backups", "--image", "a").stdout


def test_prometheus_finds_the_pods_in_one_way() -> None:
    """By annotations, or by a ServiceMonitor that selects the Service, not by both."""
    assert of_kind(printed("backups"), "ServiceMonitor") == []
    objects = printed("backups", "--service-monitor")
    (service,), (monitor,) = of_kind(objects, "Service"), of_kind(objects, "ServiceMonitor")
    assert monitor["spec"]["selector"]["matchLabels"] == service["metadata"]["labels"]
    assert monitor["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
    for deployment in of_kind(objects, "Deployment"):
        template = deployment["spec"]["template"]
        assert "annotations" not in template["metadata"]
        assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()


def test_the_output_is_the_same_each_time_and_in_the_order_of_use() -> None:
    """Nothing depends on hashes or the clock, and an object comes after the objects that it refers to."""
    command = [sys.executable, "-m", "distq", "manifests", "backups", "--image", "a", "--redis"]
    one, two = (
        subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in "12"
    )
    assert one == two
    kinds = list(dict.fromkeys(each["kind"] for each in yaml.safe_load_all(one)))
    assert kinds == [
        *("ServiceAccount", "Role", "RoleBinding", "Service", "Deployment", "StatefulSet"),
        *("HorizontalPodAutoscaler", "PodDisruptionBudget", "NetworkPolicy"),
    ]


@pytest.mark.parametrize(
    ("flags", "is_said"),
    [([], True), (["--reads", "v1/Secret"], True), (["--writes", "v1/Pod:patch"], False)],
)
def test_it_says_that_reconciles_may_write_nothing(flags: list[str], is_said: bool) -> None:
    """A user who forgot --writes would otherwise learn it by refusals in the cluster."""
    text = run("backups", "--image", "foos:1", *flags).stdout
    assert ("may write nothing but events" in text) is is_said


def test_json_has_the_same_objects() -> None:
    """An object a line, which kubectl takes as well."""
    lines = run("backups", "--image", "foos:1", "--json").stdout.splitlines()
    assert list(map(json.loads, lines)) == printed("backups")


def test_a_cluster_knows_plurals_better(tmp_path: Path) -> None:
    """With ``--kubeconfig`` they are the API server's own; a kind that it lacks is an error."""
    crd = yaml.safe_load(
        """
        apiVersion: apiextensions.k8s.io/v1
        kind: CustomResourceDefinition
        metadata: {name: proxys.example.com}
        spec:
          group: example.com
          scope: Namespaced
          names: {kind: Proxy, plural: proxys}
          versions:
            - name: v1
              served: true
              storage: true
              schema: {openAPIV3Schema: {type: object}}
        """
    )
    with EmulatedApiServer() as server:
        kubeconfig = tmp_path / "kubeconfig"
        server.kubeconfig(kubeconfig)
        arguments = ("everywhere", "--kubeconfig", str(kubeconfig))
        unknown = run(*arguments, "--image", "a")
        assert (unknown.exit_code, unknown.stdout) == (2, "")
        assert "Apply its CRD first" in unknown.stderr
        Client(kubeconfig).create(crd)
        assert "list example.com/proxys" in rights(printed(*arguments), "informer")[""]


def test_without_its_extra_it_says_which() -> None:
    """A program that needs no Kubernetes has no YAML either."""
    without = 'import sys; sys.modules["yaml"] = None; from distq.cli import main; main(sys.argv[1:])'
    command = [sys.executable, "-c", without, "manifests", "thumbnails", "--image", "a"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "[kubernetes]" in done.stderr


@pytest.mark.parametrize(
    ("resource", "plural"),
    [
        ("v1/Pod", "pods"),
        ("v1/Endpoints", "endpoints"),
        ("networking.k8s.io/v1/Ingress", "ingresses"),
        ("networking.k8s.io/v1/NetworkPolicy", "networkpolicies"),
        ("gateway.networking.k8s.io/v1/Gateway", "gateways"),
        ("storage.k8s.io/v1/StorageClass", "storageclasses"),
    ],
)
def test_plurals_are_as_in_english(resource: str, plural: str) -> None:
    """Those of the kinds that come with a cluster are right without asking."""
    assert guess_plural(resource) == plural


@pytest.mark.parametrize(
    ("text", "access"),
    [
        ("v1/Pod", Access("v1/Pod", "", WRITES)),
        ("v1/Pod/eviction:create", Access("v1/Pod", "/eviction", ("create",))),
        ("a.b/v1/Foo/status:patch,update,patch", Access("a.b/v1/Foo", "/status", ("patch", "update"))),
    ],
)
def test_accesses_are_read(text: str, access: Access) -> None:
    """A resource, perhaps a subresource, perhaps verbs."""
    assert Access.parse(text, WRITES) == access


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Pod",
        "v1/Pod:",
        "v1/Pod:Get",
        "v1/Pod:crate",
        "v1/Pod:get:list",
        "a/b/c/D/e",
        "apps/v1/deployments",
        ":get",
    ],
)
def test_accesses_that_mean_nothing_are_refused(text: str) -> None:
    """The error says what to give."""
    with pytest.raises(ConfigError, match=r"Give|Use get"):
        Access.parse(text, VERBS)


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (["backups"], "Missing option '--image'"),
        (["backups", "--image", "a b"], "Give its name and tag"),
        (["backups", "--image", "a", "--workers", "0"], "Give 3, or 2-10"),
        (["backups", "--image", "a", "--workers", "4-2"], "Give 3, or 2-10"),
        (["backups", "--image", "a", "--workers", "3", "--keda"], "Give a range"),
        (["backups", "--image", "a", "--namespace", "No"], "Give small letters"),
        (["backups", "--image", "a", "--prefix", "x" * 60], "Give a shorter module"),
        (["backups", "--image", "a", "--prefix", "1"], "Give a shorter module"),
        (["backups", "--image", "a", "--writes", "Job"], "Give e.g."),
        (["nothing", "--image", "a"], "Run distq in the folder of nothing.py"),
    ],
)
def test_options_that_make_no_sense_print_nothing(arguments: list[str], remedy: str) -> None:
    """Status 2, one line with a remedy, and no half of a manifest."""
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert remedy in done.stderr
    assert len(done.stderr.splitlines()) == 1
