"""A Sandbox has the kinds that a test names, on both servers."""

from collections.abc import Iterator
from typing import Any

import pytest

from distq.controller.controller import Controller
from distq.controller.watches import For
from distq.errors import ApiError, ConfigError
from distq.testing import Kind, Sandbox
from distq.testing import sandbox as sandbox_module
from tests.support.api_servers import real_api_server_assets

CERTIFICATE = "cert-manager.io/v1/Certificate"
PROXY = "net.example.com/v1/Proxy"
MESH = Kind("mesh.k8s.io/v1alpha1/Mesh", plural="meshes", namespaced=False)
DEPLOYMENT = "apps/v1/Deployment"


@pytest.fixture(scope="module", params=["emulated", pytest.param("kube-apiserver", marks=pytest.mark.slow)])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """Start one sandbox of each server with more kinds, one of which it has, and an object of another."""
    if request.param == "kube-apiserver":
        real_api_server_assets()
    kinds: list[Kind | str] = [CERTIFICATE, PROXY, MESH, DEPLOYMENT]
    with Sandbox(kinds=kinds, manifests=[_object(CERTIFICATE, "first")], server=request.param) as sandbox:
        yield sandbox


def _object(resource: str, name: str, **fields: Any) -> dict[str, Any]:
    api_version, _, kind = resource.rpartition("/")
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}


def test_its_objects_hold_any_fields_and_have_a_status(sandbox: Sandbox) -> None:
    """And a generation, which the status leaves alone."""
    sandbox.apply(_object(CERTIFICATE, "web", spec={"secretName": "web-tls", "names": [1, {"a": None}]}))
    sandbox.client.patch(CERTIFICATE, "default/web", {"status": {"ready": True}}, status=True)
    found = sandbox.client.get(CERTIFICATE, "default/web")
    assert found is not None
    assert (found["spec"]["names"], found["status"]) == ([1, {"a": None}], {"ready": True})
    assert found["metadata"]["generation"] == 1


def test_plural_and_scope_are_those_that_are_given_or_guessed(sandbox: Sandbox) -> None:
    """As paths show."""
    resolved = [sandbox.client.resolve(each) for each in (CERTIFICATE, PROXY, MESH.resource)]
    shown = [(each.plural, each.namespaced) for each in resolved]
    assert shown == [("certificates", True), ("proxies", True), ("meshes", False)]
    sandbox.apply(_object(MESH.resource, "all"))
    assert sandbox.client.get(MESH.resource, "all")


def test_a_definition_that_is_not_served_in_time_is_an_api_error(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As all that keeps ``apply`` from its end."""
    monkeypatch.setattr(sandbox_module, "_SERVED_WITHIN", -1.0)
    monkeypatch.setattr(sandbox, "_is_served", lambda _: False)
    with pytest.raises(ApiError, match=r"example\.com/v1/Late is not served"):
        sandbox.apply(Kind("example.com/v1/Late").definition())


def test_a_controller_watches_it(sandbox: Sandbox) -> None:
    """What a manifest brought, too."""
    seen: list[str] = []
    controller = Controller(
        "certificates", lambda request: seen.append(request.key), watches=[For(CERTIFICATE)]
    )
    sandbox.run_until_idle(controller)
    assert "default/first" in seen


def test_a_kind_that_the_server_has_stays_as_it_is(sandbox: Sandbox) -> None:
    """With its defaults."""
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    (applied,) = sandbox.apply(_object(DEPLOYMENT, "web", spec=spec))
    assert applied["spec"]["replicas"] == 1


@pytest.mark.parametrize(
    "name", ["", "Certificate", "cert-manager.io/Certificate", "a/v1/certificate", "a/b/v1/C", "A/v1/C", 3]
)
def test_a_text_that_names_no_kind_is_refused(name: Any) -> None:
    """Before anything starts, with an example."""
    with pytest.raises(ConfigError, match=r"bad kind: .*\. Write group/version/Kind"):
        Kind(name)
    with pytest.raises(ConfigError, match="bad plural"):
        Kind(CERTIFICATE, plural="Certificates")


def test_the_core_group_of_a_real_server_takes_no_kind() -> None:
    """No definition can be made of it."""
    real_api_server_assets()
    with (
        pytest.raises(ConfigError, match=r"no kind v1/Gadget: the core group takes no others"),
        Sandbox(kinds=["v1/Gadget"], server="kube-apiserver"),
    ):
        pass
