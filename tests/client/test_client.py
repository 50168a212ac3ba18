"""The client's verbs, on the emulated and on the real API server."""

import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest

from distq.client import Client, Object
from distq.client import client as client_module
from distq.errors import ApiError, ConfigError, Conflict, Expired, NotFound
from tests.support.api_servers import (
    ApiServer,
    EmulatedServer,
    RealApiServer,
    real_api_server_assets,
    write_kubeconfig,
)
from tests.support.eventually import eventually
from tests.support.samples import config_map, custom_resource, replica_set, wait_until_served

DEFINITIONS = "apiextensions.k8s.io/v1/CustomResourceDefinition"


def names(objects: list[Object]) -> list[str]:
    """Return the objects' names, sorted."""
    return sorted(obj["metadata"]["name"] for obj in objects)


def test_get_returns_the_object_that_create_stored(client: Client, namespace: str) -> None:
    """A created object is read back equal, by its key."""
    created = client.create(config_map(namespace, "web", color="red"))
    assert created["data"] == {"color": "red"}
    assert created["metadata"]["resourceVersion"]
    assert client.get("v1/ConfigMap", f"{namespace}/web") == created


def test_get_returns_none_for_an_absent_object(client: Client, namespace: str) -> None:
    """An absent object, also in an absent namespace or cluster-scoped, is None and no error."""
    assert client.get("v1/ConfigMap", f"{namespace}/absent") is None
    assert client.get("v1/ConfigMap", "no-such-namespace/absent") is None
    assert client.get("v1/Namespace", "no-such-namespace") is None


def test_get_reads_cluster_scoped_objects_by_name(client: Client) -> None:
    """A cluster-scoped object's key is its name alone."""
    found = client.get("v1/Namespace", "kube-system")
    assert found is not None
    assert found["kind"] == "Namespace"


@pytest.mark.parametrize("resource", ["example.com/v1/Unknown", "apps/v1/Unknown", "v1/Unknown"])
def test_an_unknown_resource_is_not_found(client: Client, resource: str) -> None:
    """What the API server does not serve raises NotFound with the remedy, never None."""
    with pytest.raises(NotFound, match=rf"no resource {resource}: unknown.*Apply its CRD first\."):
        client.get(resource, "default/web")


def test_a_resource_that_went_and_came_back_is_served_again(
    client: Client, widgets: str, namespace: str
) -> None:
    """A deleted CRD gives NotFound with the remedy, and its return is noticed without a new Client."""
    assert client.get(widgets, f"{namespace}/web") is None
    definition = custom_resource(f"{namespace}.example.com")
    assert client.delete(DEFINITIONS, definition["metadata"]["name"])
    wait_until_refused(NotFound, lambda: client.get(widgets, f"{namespace}/web"), "Apply its CRD first")
    while client.get(DEFINITIONS, definition["metadata"]["name"]) is not None:
        pass
    client.create(definition)
    wait_until_served(client, widgets)
    assert client.get(widgets, f"{namespace}/web") is None


@pytest.mark.parametrize("key", ["web", "a/b/c", "/web", "default/", "", "default/.."])
def test_a_key_of_the_wrong_shape_is_refused(client: Client, key: str) -> None:
    """Keys that cannot be of the resource are ConfigErrors before anything is asked."""
    with pytest.raises(ConfigError, match=r"bad (key|name)"):
        client.get("v1/ConfigMap", key)


def test_a_namespaced_key_of_a_cluster_scoped_resource_is_refused(client: Client) -> None:
    """A cluster-scoped object has no namespace in its key."""
    with pytest.raises(ConfigError, match=r"Give the name alone, it has no namespace\.$"):
        client.get("v1/Namespace", "default/web")


def test_list_pages_through_everything(
    client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More objects than a page holds are all listed, each once, with kind and apiVersion."""
    monkeypatch.setattr(client_module, "PAGE_SIZE", 3)
    wanted = [f"web-{number}" for number in range(8)]
    for name in wanted:
        client.create(config_map(namespace, name))
    found = list(client.list("v1/ConfigMap", namespace))
    assert names(found) == wanted
    assert {(obj["apiVersion"], obj["kind"]) for obj in found} == {("v1", "ConfigMap")}


def test_list_selects(client: Client, namespace: str) -> None:
    """Label and field selectors narrow a list, and no namespace means all of them."""
    for name in ("red", "blue"):
        obj = config_map(namespace, name)
        obj["metadata"]["labels"] = {"color": name, "test": namespace}
        client.create(obj)
    assert names(list(client.list("v1/ConfigMap", namespace, label_selector="color=red"))) == ["red"]
    assert names(list(client.list("v1/ConfigMap", namespace, field_selector="metadata.name=blue"))) == [
        "blue"
    ]
    assert names(list(client.list("v1/ConfigMap", label_selector=f"test={namespace}"))) == ["blue", "red"]


@pytest.mark.slow
def test_list_goes_on_after_its_token_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that is read for longer than the server remembers still ends with everything."""
    monkeypatch.setattr(client_module, "PAGE_SIZE", 2)
    flags = ["--etcd-compaction-interval=1s"]
    with RealApiServer(real_api_server_assets(), flags=flags) as server:
        client = server.client()
        listing = start_list(client)
        path = "/api/v1/namespaces/default/configmaps"
        token = msgspec.json.decode(client.request("GET", path, query={"limit": "2"}))["metadata"]["continue"]

        def write_and_go_on() -> None:
            client.patch("v1/ConfigMap", "default/web-0", {"data": {"at": str(time.monotonic())}})
            client.request("GET", path, query={"limit": "2", "continue": token})

        wait_until_refused(Expired, write_and_go_on)
        assert names(list(listing)) == [f"web-{number}" for number in range(2, 6)]


def test_list_goes_on_after_its_token_expired_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The emulated server forgets in the same way."""
    monkeypatch.setattr(client_module, "PAGE_SIZE", 2)
    with EmulatedServer() as server:
        client = server.client()
        listing = start_list(client)
        client.create(config_map("default", "web-9"))
        server.emulator.compact()
        assert names(list(listing)) == [f"web-{number}" for number in (2, 3, 4, 5, 9)]


def start_list(client: Client) -> Iterator[Object]:
    """Create six ConfigMaps and return their list, of which the first page was taken."""
    for number in range(6):
        client.create(config_map("default", f"web-{number}"))
    listing = client.list("v1/ConfigMap", "default")
    assert names(list(islice(listing, 2))) == ["web-0", "web-1"]
    return listing


def wait_until_refused(kind: type[ApiError], act: Callable[[], object], message: str = "") -> None:
    """Repeat until the server, which needs its time, answers with this error and message."""

    def is_refused() -> bool:
        try:
            act()
        except kind as error:
            return message in str(error)
        return False

    eventually(is_refused, f"{kind.__name__} {message}", timeout=60)


def test_create_refuses_an_object_that_exists(client: Client, namespace: str) -> None:
    """Creating an object twice is a Conflict that quotes the server, in one line."""
    client.create(config_map(namespace, "web"))
    with pytest.raises(Conflict, match='"web" already exists') as caught:
        client.create(config_map(namespace, "web"))
    assert caught.value.status == 409
    assert caught.value.reason == "AlreadyExists"
    assert "\n" not in str(caught.value)


def test_create_names_the_missing_field(client: Client, namespace: str) -> None:
    """Objects without kind or namespace are ConfigErrors; an absent namespace is NotFound."""
    with pytest.raises(ConfigError, match=r"no namespace\. Set metadata\.namespace"):
        client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}})
    with pytest.raises(ConfigError, match="no apiVersion or kind"):
        client.create({"metadata": {"name": "web", "namespace": namespace}})
    with pytest.raises(NotFound, match="no-such-namespace"):
        client.create(config_map("no-such-namespace", "web"))


def test_an_invalid_object_is_refused_with_the_servers_words(client: Client, namespace: str) -> None:
    """What the server finds invalid is an ApiError with its status, reason and message."""
    with pytest.raises(ApiError, match="Bad_Name") as caught:
        client.create(config_map(namespace, "Bad_Name"))
    assert caught.value.status == 422
    assert caught.value.reason == "Invalid"


def test_update_replaces_and_locks(client: Client, namespace: str) -> None:
    """An update of the newest version is stored, of an older one it is a Conflict."""
    first = client.create(config_map(namespace, "web", color="red"))
    second = client.update({**first, "data": {"color": "blue"}})
    assert second["data"] == {"color": "blue"}
    assert second["metadata"]["resourceVersion"] != first["metadata"]["resourceVersion"]
    with pytest.raises(Conflict) as caught:
        client.update({**first, "data": {"color": "green"}})
    assert caught.value.reason == "Conflict"
    assert client.get("v1/ConfigMap", f"{namespace}/web") == second


def test_update_of_an_absent_object_is_not_found(client: Client, namespace: str) -> None:
    """An update of an absent object creates nothing."""
    with pytest.raises(NotFound):
        client.update(config_map(namespace, "absent"))
    with pytest.raises(ConfigError, match="no name"):
        client.update({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace}})


def test_status_is_written_apart(client: Client, widgets: str, namespace: str) -> None:
    """With ``status`` every write changes the status alone, without it all but the status."""
    api_version, _, kind = widgets.rpartition("/")
    key = f"{namespace}/web"
    about = {"name": "web", "namespace": namespace}
    widget = client.create(
        {"apiVersion": api_version, "kind": kind, "metadata": about, "spec": {"size": 1}, "status": {"at": 0}}
    )
    assert "status" not in widget
    widget = client.update({**widget, "spec": {"size": 9}, "status": {"at": 1}}, status=True)
    assert (widget["spec"], widget["status"]) == ({"size": 1}, {"at": 1})
    widget = client.update({**widget, "spec": {"size": 2}, "status": {"at": 9}})
    assert (widget["spec"], widget["status"]) == ({"size": 2}, {"at": 1})
    widget = client.patch(widgets, key, {"spec": {"size": 9}, "status": {"at": 2}}, status=True)
    assert (widget["spec"], widget["status"]) == ({"size": 2}, {"at": 2})
    applied = {"apiVersion": api_version, "kind": kind, "metadata": about, "status": {"at": 3}}
    widget = client.apply(applied, status=True)
    assert (widget["spec"], widget["status"]) == ({"size": 2}, {"at": 3})


def test_an_error_about_a_status_that_is_not_served_names_the_subresource(
    client: Client, namespace: str
) -> None:
    """The name is right: the subresource is missing. For a missing object the error blames the name."""
    client.create(config_map(namespace, "web"))
    with pytest.raises(NotFound, match=r"404 .* Its CRD needs subresources: {status: {}}"):
        client.patch("v1/ConfigMap", f"{namespace}/web", {"status": {"ready": True}}, status=True)
    with pytest.raises(NotFound, match=r"Check the name\.$"):
        client.patch("apps/v1/Deployment", f"{namespace}/absent", {"status": {}}, status=True)


def test_apply_creates_and_changes(client: Client, namespace: str) -> None:
    """Apply makes the object so whether it exists or not, and keeps the changes of others."""
    first = client.apply(config_map(namespace, "web", color="red"))
    assert first["data"] == {"color": "red"}
    client.patch("v1/ConfigMap", f"{namespace}/web", {"metadata": {"labels": {"by": "others"}}})
    second = client.apply(config_map(namespace, "web", color="blue"))
    assert second["data"] == {"color": "blue"}
    assert second["metadata"]["labels"] == {"by": "others"}
    assert second["metadata"]["uid"] == first["metadata"]["uid"]


def test_apply_without_change_writes_nothing(client: Client, namespace: str) -> None:
    """The same apply again keeps the version, so that it wakes no watcher."""
    first = client.apply(config_map(namespace, "web", color="red"))
    assert client.apply(config_map(namespace, "web", color="red")) == first


def test_apply_without_force_respects_other_managers(
    api_server: ApiServer, client: Client, namespace: str
) -> None:
    """A field that another manager applied is a Conflict unless it is taken by force."""
    if api_server.kind == "emulator":
        pytest.skip("the emulated server knows no field managers")
    other = Client(api_server.kubeconfig, field_manager="other")
    other.apply(config_map(namespace, "web", color="red"))
    with pytest.raises(Conflict, match="other"):
        client.apply(config_map(namespace, "web", color="blue"), force=False)
    assert client.apply(config_map(namespace, "web", color="blue"))["data"] == {"color": "blue"}


def test_patch_merges_a_mapping(client: Client, namespace: str) -> None:
    """A mapping is merged into the object; None removes."""
    client.create(config_map(namespace, "web", color="red", size="1"))
    patched = client.patch("v1/ConfigMap", f"{namespace}/web", {"data": {"color": None, "shape": "round"}})
    assert patched["data"] == {"size": "1", "shape": "round"}


def test_patch_runs_the_operations_of_a_list(client: Client, namespace: str) -> None:
    """A list is a JSON patch, and one whose test fails changes nothing."""
    client.create(config_map(namespace, "web", color="red"))
    key = f"{namespace}/web"
    test = {"op": "test", "path": "/data/color", "value": "red"}
    replace = {"op": "replace", "path": "/data/color", "value": "blue"}
    assert client.patch("v1/ConfigMap", key, [test, replace])["data"] == {"color": "blue"}
    with pytest.raises(ApiError) as caught:
        client.patch("v1/ConfigMap", key, [test, replace])
    assert caught.value.status == 422


def test_a_strategic_merge_patch_merges_lists_by_their_keys(client: Client, namespace: str) -> None:
    """Where a JSON merge patch replaces them: the other containers and ports stay."""
    client.create(replica_set(namespace))

    def containers(*changes: Object, strategic: bool) -> dict[str, str]:
        patch = {"spec": {"template": {"spec": {"containers": list(changes)}}}}
        patched = client.patch("apps/v1/ReplicaSet", f"{namespace}/web", patch, strategic=strategic)
        return {each["name"]: each["image"] for each in patched["spec"]["template"]["spec"]["containers"]}

    assert containers({"name": "log", "image": "log:1"}, strategic=True) == {"web": "web:1", "log": "log:1"}
    assert containers({"name": "web", "$patch": "delete"}, strategic=True) == {"log": "log:1"}
    assert containers({"name": "web", "image": "web:2"}, strategic=False) == {"web": "web:2"}


def test_a_strategic_merge_patch_of_a_custom_resource_is_refused(
    client: Client, widgets: str, namespace: str
) -> None:
    """By the server, with what to do instead; its status takes none either, and nothing changes."""
    api_version, _, kind = widgets.rpartition("/")
    about = {"name": "web", "namespace": namespace}
    created = client.create({"apiVersion": api_version, "kind": kind, "metadata": about, "spec": {}})
    key = f"{namespace}/web"
    for status in (False, True):
        with pytest.raises(ApiError, match=r"415 .*takes no strategic merge patch\.$") as refused:
            client.patch(widgets, key, {"spec": {"size": 1}}, status=status, strategic=True)
        assert refused.value.status == 415
    assert client.get_or_raise(widgets, key) == created


def test_a_strategic_merge_patch_is_a_mapping(client: Client, namespace: str) -> None:
    """A list would be sent as a JSON patch: it is refused before anything is asked."""
    with pytest.raises(ConfigError, match="a strategic one is a mapping"):
        client.patch("v1/ConfigMap", f"{namespace}/web", [], strategic=True)


def test_get_or_raise_returns_an_object_that_has_to_be_there(client: Client, namespace: str) -> None:
    """An absent object is NotFound; so is an unknown resource, whose error names the resource."""
    created = client.create(config_map(namespace, "web"))
    assert client.get_or_raise("v1/ConfigMap", f"{namespace}/web") == created
    with pytest.raises(NotFound, match=r'configmaps "absent" not found\. Check the name\.$'):
        client.get_or_raise("v1/ConfigMap", f"{namespace}/absent")
    with pytest.raises(NotFound, match="Apply its CRD first"):
        client.get_or_raise("example.org/v1/Unknown", f"{namespace}/web")


def test_patch_of_an_absent_object_is_not_found(client: Client, namespace: str) -> None:
    """A patch never creates."""
    with pytest.raises(NotFound):
        client.patch("v1/ConfigMap", f"{namespace}/absent", {"data": {}})


def test_delete_says_whether_there_was_something(client: Client, namespace: str) -> None:
    """The first delete is True, the second False."""
    client.create(config_map(namespace, "web"))
    assert client.delete("v1/ConfigMap", f"{namespace}/web") is True
    assert client.delete("v1/ConfigMap", f"{namespace}/web") is False
    assert client.get("v1/ConfigMap", f"{namespace}/web") is None


def test_delete_spares_a_changed_object(client: Client, namespace: str) -> None:
    """With ``resource_version`` only that version is deleted."""
    old = client.create(config_map(namespace, "web", color="red"))
    new = client.update({**old, "data": {"color": "blue"}})
    with pytest.raises(Conflict):
        client.delete("v1/ConfigMap", f"{namespace}/web", resource_version=old["metadata"]["resourceVersion"])
    assert client.delete(
        "v1/ConfigMap", f"{namespace}/web", resource_version=new["metadata"]["resourceVersion"]
    )


def test_event_is_found_beside_its_object(client: Client, namespace: str) -> None:
    """An event refers to the object as ``kubectl describe`` looks for it."""
    about = client.create(config_map(namespace, "web"))
    client.event(about, "Painted", "the color is red", type="Warning")
    assert client.flush_events(60)
    selector = f"involvedObject.name=web,involvedObject.uid={about['metadata']['uid']}"
    [event] = client.list("v1/Event", namespace, field_selector=selector)
    assert (event["reason"], event["message"], event["type"]) == ("Painted", "the color is red", "Warning")
    assert event["source"]["component"] == "distq"
    assert event["involvedObject"]["kind"] == "ConfigMap"


def test_event_about_a_cluster_scoped_object(client: Client, namespace: str) -> None:
    """Events about what has no namespace are in ``default``, where kubectl looks for them."""
    about = client.get("v1/Namespace", namespace)
    assert about is not None
    client.event(about, "Seen", "it is there")
    assert client.flush_events(60)
    [event] = client.list("v1/Event", "default", field_selector=f"involvedObject.name={namespace}")
    assert event["reason"] == "Seen"


def test_names_are_quoted_in_paths(client: Client, namespace: str) -> None:
    """Names with characters of their own meaning in URLs reach their object."""
    name = f"{namespace}:read?er#1"
    role: Object = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [],
    }
    try:
        client.create(role)
    except NotFound:
        pytest.skip("the emulated server knows no roles")
    assert client.get("rbac.authorization.k8s.io/v1/ClusterRole", name) is not None


def test_cluster_id_is_the_uid_of_kube_system(client: Client) -> None:
    """The cluster is distinguished from others by an object that is never deleted."""
    kube_system = client.get("v1/Namespace", "kube-system")
    assert kube_system is not None
    assert client.cluster_id() == kube_system["metadata"]["uid"]


def test_cluster_id_without_permission_is_stable(api_server: ApiServer, tmp_path: Path) -> None:
    """A user without rights to kube-system gets a hash, the same at every start."""
    if not isinstance(api_server, RealApiServer):
        pytest.skip("the emulated server lets everybody do everything")
    kubeconfig = tmp_path / "kubeconfig"
    cluster = {"server": api_server.url, "certificate-authority": str(api_server.certificate_authority)}
    write_kubeconfig(kubeconfig, cluster=cluster, user={"token": api_server.outsider_token})
    first, second = Client(kubeconfig).cluster_id(), Client(kubeconfig).cluster_id()
    assert first == second
    assert first != api_server.client().cluster_id()
    with pytest.raises(ApiError, match=r'403 .*User "outsider" cannot get.*Add to a Role in kube-system'):
        Client(kubeconfig).get("v1/Namespace", "kube-system")


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), "5", True])
def test_a_timeout_is_a_number_of_seconds_above_0(timeout: Any) -> None:
    """It is refused before anything is asked."""
    with pytest.raises(ConfigError, match=r"^bad timeout"):
        Client(timeout=timeout)
