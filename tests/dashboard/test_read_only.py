"""Actions are refused."""

import pytest
from flask.testing import FlaskClient

from distq.dashboard.item_id import ItemId

DEAD = ItemId("foos", "dead", "default/web")
ACTIONS = [
    f"/job/{DEAD}/delete",
    f"/job/{DEAD}/requeue",
    "/requeue/foos",
    "/queue/foos/queued/empty",
    "/queue/foos/failed/empty",
    "/queue/foos/compact",
]


@pytest.mark.parametrize("path", ACTIONS)
def test_actions_are_refused(offline: FlaskClient, path: str) -> None:
    """Every action answers 403, without so much as a look at Redis."""
    answer = offline.post(path)
    assert answer.status_code == 403
    assert "read-only" in answer.text


@pytest.mark.parametrize("path", ACTIONS)
def test_no_link_acts(offline: FlaskClient, path: str) -> None:
    """A link or an image cannot act: GET answers 405, also where rq-dashboard would requeue."""
    answer = offline.get(path)
    assert answer.status_code == 405
    assert "POST" in answer.headers["Allow"]
