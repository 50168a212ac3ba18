"""What is too large, asked of both servers."""

import base64
from typing import Any

import pytest

from tests.testing.conftest import Api, config_map, on_both, widget
from tests.testing.twins import Twins

MIB = 1024 * 1024


def test_a_name_has_58_letters_of_what_it_starts_with(api: Api, config_maps: str) -> None:
    """So that it is a label, too, with the five that are made up."""
    body = {"metadata": {"generateName": "w" * 70 + "-"}}
    name = api.create(config_maps, body)["metadata"]["name"]
    assert (name[:58], len(name)) == ("w" * 58, 63)


@on_both
@pytest.mark.parametrize("surplus", [0, 1])
@pytest.mark.parametrize("field", ["data", "binaryData", "annotations"])
def test_a_config_map_has_a_size(twins: Twins, config_maps: str, field: str, surplus: int) -> None:
    """A mebibyte of data, a quarter of that of annotations."""
    body: dict[str, Any] = config_map("web", a="x" * MIB if field == "data" and surplus else "")
    if field == "binaryData":
        body["binaryData"] = {"b": base64.b64encode(bytes(MIB + surplus)).decode()}
    elif field == "annotations":
        body["metadata"]["annotations"] = {"a": "x" * (MIB // 4 - 1 + surplus)}
    else:
        body["data"]["b"] = "é" * (MIB // 2 - MIB // 2 * surplus) + "x" * surplus
    answer = twins.agree("POST", config_maps, body, dryRun="All")
    assert answer.get("code") == (422 if surplus else None)


@on_both
def test_a_secret_has_a_size(twins: Twins, namespace: str) -> None:
    """Of its data, as bytes."""
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    for size in MIB, MIB + 1:
        body = {"metadata": {"name": "web"}, "data": {"a": base64.b64encode(bytes(size)).decode()}}
        answer = twins.agree("POST", secrets, body, dryRun="All")
        assert answer.get("code") == (422 if size > MIB else None)


def test_a_custom_resource_is_as_large_as_etcd_takes_it(api: Api, widgets: str) -> None:
    """A request of a mebibyte and a half."""
    refused = api.refused("POST", widgets, widget("web", spec={"text": "x" * (MIB * 3 // 2)}))
    assert (refused["code"], refused["message"]) == (500, "etcdserver: request is too large")
    assert api.create(widgets, widget("web", spec={"text": "x" * (MIB * 3 // 2 - 4096)}))
