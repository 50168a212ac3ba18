"""Each built-in kind, asked of both servers: the emulated one answers as the real one."""

from typing import Any

import pytest

from distq.testing.apiserver.resources import ACCESS_REVIEWS, BUILT_IN
from distq.testing.apiserver.resources import published as shipped
from tests.support.api_servers import ApiServer
from tests.testing import openapi
from tests.testing.broken import wrong_types
from tests.testing.conftest import APPLY, MERGE, on_both
from tests.testing.kinds import SAMPLES, collection, resource_of, sample
from tests.testing.twins import Twins

_WITHOUT_SAMPLE = {"CustomResourceDefinition", "Event", "Namespace", "Node", ACCESS_REVIEWS.kind}
"""Kinds with tests of their own, or that are not created by hand."""


@on_both
@pytest.mark.parametrize("kind", SAMPLES)
def test_each_kind_is_written_and_read_alike(twins: Twins, kind: str, namespace: str) -> None:
    """Created, replaced, patched, applied, refused and rehearsed: with the same defaults and generations."""
    path, web = collection(resource_of(kind), namespace), sample(kind, namespace)
    named = f"{path}/{namespace}"
    twins.agree("POST", path, {**web, "unknown": 1}, fieldValidation="Strict")
    twins.agree("POST", path, web, dryRun="All")
    twins.agree("GET", named)
    twins.agree("POST", path, web)
    if kind != "batch/v1/Job":  # whose selector, made by the server, cannot be left out again
        twins.agree("PUT", named, web)
    twins.agree("PATCH", named, {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    twins.agree("PATCH", named, {"metadata": {"annotations": {"a": "b"}}}, content_type=MERGE)
    twins.agree("PATCH", f"{named}/status", {"status": {}}, content_type=MERGE)
    twins.agree("PATCH", named, web, content_type=APPLY, fieldManager="another")
    other = {**web, "metadata": {"name": f"{namespace}-2"}}
    twins.agree("PUT", f"{named}-2", other)
    twins.agree("PATCH", f"{named}-2", other, content_type=APPLY, fieldManager="another")
    for each in named, f"{named}-2":
        background = {"propagationPolicy": "Background", "gracePeriodSeconds": 0}
        twins.ask("DELETE", each, background)


def test_each_built_in_kind_has_a_sample() -> None:
    """So that a new one is compared."""
    assert {each.kind for each in BUILT_IN} - _WITHOUT_SAMPLE == {kind.rpartition("/")[2] for kind in SAMPLES}


@pytest.mark.parametrize("api_server", ["real"], indirect=True, scope="session")
def test_the_schemas_are_those_that_the_real_server_publishes(api_server: ApiServer) -> None:
    """Without their prose; ``python -m tests.testing.openapi`` writes them anew."""
    published = openapi.published(api_server.client())
    assert {**published, "pointers": shipped()["pointers"]} == shipped()


@on_both
@pytest.mark.parametrize("kind", SAMPLES)
def test_fields_of_a_wrong_type_get_the_same_errors(twins: Twins, kind: str, namespace: str) -> None:
    """By their path and the value there; some types have names in Go that no schema has."""
    path = collection(resource_of(kind), namespace)
    for change, web in wrong_types(sample(kind, namespace)):
        real, emulated = twins.ask("POST", path, web, dryRun="All")
        assert real.get("code") == emulated.get("code"), change
        if real.get("code") == 400:  # not a port's name, nor an amount, which may be numbers, too
            messages = [answer["message"].partition(" into Go")[0] for answer in (real, emulated)]
            assert messages[0] == messages[1], change


@on_both
def test_a_deployment_that_no_cluster_takes_is_refused_alike(twins: Twins, namespace: str) -> None:
    """Without a container's image, selecting other labels, with an odd choice, or with another selector."""
    path = collection(resource_of("apps/v1/Deployment"), namespace)
    twins.agree("POST", path, sample("apps/v1/Deployment", "web"))
    template: dict[str, Any] = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web"}]},
    }
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
    other = {"matchLabels": {"app": "other"}}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "new"}, "spec": spec}
    assert twins.agree("POST", path, body)["code"] == 422
    template["spec"]["containers"] = [{"name": "web", "image": "web", "imagePullPolicy": "Sometimes"}]
    assert twins.agree("POST", path, body)["code"] == 422
    template["spec"]["containers"] = [{"name": "web", "image": "web"}]
    assert twins.agree("POST", path, {**body, "spec": {**spec, "selector": other}})["code"] == 422
    changed = {"spec": {"selector": other, "template": {"metadata": {"labels": {"app": "other"}}}}}
    assert twins.agree("PATCH", f"{path}/web", changed, content_type=MERGE)["code"] == 422


@on_both
def test_a_pod_with_gates_says_that_it_is_not_scheduled(twins: Twins, namespace: str) -> None:
    """From its creation on, by a condition."""
    pod = sample("v1/Pod", "web")
    pod["spec"] = {**pod["spec"], "schedulingGates": [{"name": "example.com/quota"}]}
    created = twins.agree("POST", f"/api/v1/namespaces/{namespace}/pods", pod)
    assert created["status"]["conditions"][0]["reason"] == "SchedulingGated"
