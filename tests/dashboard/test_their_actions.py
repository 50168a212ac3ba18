"""rq-dashboard's own actions are refused, to who may repair, too: ours look at the state again."""

import pytest
from flask.testing import FlaskClient

from distq.dashboard import AccessPolicy, create_app
from distq.dashboard.item_id import ItemId
from distq.inspector import Inspector
from tests.dashboard.conftest import NOWHERE
from tests.dashboard.visitor import Visitor

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
def test_their_actions_are_refused(path: str) -> None:
    """Every action of theirs answers 403, without so much as a look at Redis."""
    visitor = Visitor(create_app(Inspector(NOWHERE), AccessPolicy(actions=True)))
    answer = visitor.post(path)
    assert answer.status_code == 403
    assert "Repair on the page of the queue" in answer.text


@pytest.mark.parametrize("path", ACTIONS)
def test_no_link_acts(offline: FlaskClient, path: str) -> None:
    """A link or an image cannot act: GET answers 405, also where rq-dashboard would requeue."""
    answer = offline.get(path)
    assert answer.status_code == 405
    assert "POST" in answer.headers["Allow"]
