"""Schemas of custom resources, asked of both servers: what breaks one is refused in the same words."""

from typing import Any

import pytest

from tests.testing.conftest import MERGE, on_both
from tests.testing.gadgets import SPECS, gadget
from tests.testing.twins import Answer, Twins

pytestmark = on_both


def causes(answer: Answer) -> list[str]:
    """Return the fields that an Invalid answer names."""
    return [cause["field"] for cause in answer["details"]["causes"]]


def test_specs_are_pruned_completed_or_refused_alike(twins: Twins, gadgets: str) -> None:
    """With the same messages and causes, at creation and in a patch."""
    twins.agree("POST", gadgets, gadget())
    for index, spec in enumerate(SPECS):
        twins.agree("POST", gadgets, gadget(f"web-{index}", spec))
        twins.agree("PATCH", f"{gadgets}/web", {"spec": spec}, content_type=MERGE, dryRun="All")


@pytest.mark.parametrize("spec", ["text", [], 1])
def test_a_spec_of_the_wrong_type_is_refused_alike(twins: Twins, gadgets: str, spec: Any) -> None:
    """As a type, with any contents, and because no Scale finds its replicas there."""
    assert causes(twins.agree("POST", gadgets, gadget(spec=spec))) == [".spec.replicas", "spec"]


def test_a_required_field_is_missed(twins: Twins, gadgets: str) -> None:
    """By its path, at creation and where a patch removes it."""
    without = {name: value for name, value in gadget().items() if name != "spec"}
    assert causes(twins.agree("POST", gadgets, without)) == ["spec"]
    twins.agree("POST", gadgets, gadget())
    removed = twins.agree("PATCH", f"{gadgets}/web", {"spec": {"replicas": None}}, content_type=MERGE)
    assert (removed["code"], causes(removed)) == (422, ["spec.replicas"])


def test_a_status_keeps_to_its_schema_where_it_is_written(twins: Twins, gadgets: str) -> None:
    """A new object has none, so that a bad one passes; on the status path it is refused, and pruned."""
    created = twins.agree("POST", gadgets, gadget(status={"phase": "Bogus"}))
    assert "status" not in created
    status = f"{gadgets}/web/status"
    refused = twins.agree("PATCH", status, {"status": {"phase": "Bogus"}}, content_type=MERGE)
    assert causes(refused) == ["status.phase"]
    written = {"status": {"phase": "Ready", "unknown": 1}, "spec": {"replicas": 0}}
    patched = twins.agree("PATCH", status, written, content_type=MERGE)
    assert (patched["status"], patched["spec"]["replicas"]) == ({"phase": "Ready"}, 2)
    twins.agree("PUT", f"{gadgets}/web", gadget(status={"ready": "x"}))


def test_unknown_fields_are_dropped_warned_of_or_refused(twins: Twins, gadgets: str) -> None:
    """As the request's fieldValidation says, with their paths."""
    spec = {"unknown": 1, "nested": {"unknown": 1}, "map": [{"key": "a", "unknown": 1}], "free": {"x": 1}}
    body = gadget(spec=spec, other=1, metadata={"unknown": 1})
    refused = twins.agree("POST", gadgets, body, fieldValidation="Strict")
    assert 'unknown field "spec.map[0].unknown"' in refused["message"]
    assert twins.agree("POST", gadgets, body, fieldValidation="Bogus")["code"] == 422
    assert "other" not in twins.agree("POST", gadgets, body, fieldValidation="Warn")
    twins.agree("PATCH", f"{gadgets}/web", {"spec": spec}, content_type=MERGE, fieldValidation="Strict")
    twins.agree("PUT", f"{gadgets}/web", body, fieldValidation="Ignore")


def test_a_field_that_had_been_valid_before_a_stricter_schema_stays(
    twins: Twins, gadgets: str, definition: str
) -> None:
    """Other fields can be written, until what is now invalid is itself written anew."""
    schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/plain"
    twins.agree("POST", gadgets, gadget(spec={"plain": "long", "map": [{"key": "a", "value": 1}]}))
    stricter = [{"op": "add", "path": f"{schema}/maxLength", "value": 3}]
    twins.ask("PATCH", definition, stricter, content_type="application/json-patch+json")
    try:
        twins.eventually_refuses("POST", gadgets, gadget("other", {"plain": "long"}), dryRun="All")
        web = f"{gadgets}/web"
        assert (
            twins.agree("PATCH", web, {"spec": {"replicas": 4}}, content_type=MERGE)["spec"]["replicas"] == 4
        )
        assert causes(twins.agree("PATCH", web, {"spec": {"plain": "longer"}}, content_type=MERGE))
    finally:
        looser = [{"op": "remove", "path": f"{schema}/maxLength"}]
        twins.ask("PATCH", definition, looser, content_type="application/json-patch+json")
