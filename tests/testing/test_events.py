"""Events of the newer group, asked of both servers: more has to be in them, and they stay as they are."""

import pytest

from tests.testing.conftest import MERGE, on_both
from tests.testing.twins import Answer, Twins

pytestmark = on_both
TIME = "2026-01-02T03:04:05.000006Z"


@pytest.fixture
def events(namespace: str) -> str:
    """Give the path of the test's Events."""
    return f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"


@pytest.fixture
def event(namespace: str) -> Answer:
    """Give an Event, whole."""
    texts = {"action": "Look", "reason": "Seen", "note": "all is well", "type": "Normal"}
    reporter = {"reportingController": "example.com/eye", "reportingInstance": "eye-0"}
    about = {"regarding": {"kind": "Pod", "name": "web", "namespace": namespace}, "eventTime": TIME}
    return {"metadata": {"name": "web"}, **texts, **reporter, **about}


@pytest.mark.parametrize(
    "field", ["action", "reason", "type", "eventTime", "reportingController", "reportingInstance"]
)
def test_an_event_says_who_reports_what_of_which_action(
    twins: Twins, events: str, event: Answer, field: str
) -> None:
    """The older group takes an Event without."""
    del event[field]
    assert not twins.concur("POST", events, event, dryRun="All")


@pytest.mark.parametrize(
    ("field", "value"), [("type", "Bad"), ("note", "x" * 1025), ("action", "x" * 129), ("reason", "x" * 129)]
)
def test_an_event_is_short(twins: Twins, events: str, event: Answer, field: str, value: str) -> None:
    """And normal or a warning."""
    assert not twins.concur("POST", events, event | {field: value}, dryRun="All")


def test_an_event_stays_but_for_its_series(twins: Twins, events: str, event: Answer) -> None:
    """That counts how often it happened again."""
    assert twins.concur("POST", events, event)
    for change in {"reason": "Other"}, {"note": "other"}, {"regarding": {"name": "other"}}:
        assert not twins.concur("PATCH", f"{events}/web", change, content_type=MERGE)
    series = {"series": {"count": 2, "lastObservedTime": TIME}}
    assert twins.concur("PATCH", f"{events}/web", series, content_type=MERGE)
