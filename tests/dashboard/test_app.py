"""rq-dashboard's pages come without rq-dashboard's ways."""

import socket
import subprocess
import sys

import pytest
from flask import Blueprint, Flask
from rq_dashboard import blueprint as rq_dashboard_blueprint

from distq.dashboard import create_app
from distq.dashboard.app import mount
from distq.dashboard.pages import WebPages
from distq.dashboard.registries import REGISTRIES
from distq.dashboard.views import Views
from distq.errors import ConfigError
from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.workqueue.queue import Queue
from tests.dashboard.conftest import NOWHERE

OFFLINE = Inspector(NOWHERE)


def test_rq_opens_no_connection(connection: Connection, every_state: Queue) -> None:
    """No page talks to the Redis that rq-dashboard is configured with."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        app = create_app(Inspector(connection))
        app.config["RQ_DASHBOARD_REDIS_URL"] = f"redis://127.0.0.1:{listener.getsockname()[1]}/0"
        client = app.test_client()
        for path in (
            *("/", "/queues/foos", "/queues/foos/items/ns~2Fdead", "/workers", "/informers"),
            *("/0/view/workers", "/0/data/queues.json", "/0/data/workers.json"),
            *(f"/0/data/jobs/foos/{registry}/25/asc/1.json" for registry in REGISTRIES),
            "/0/view/job/foos:dead:ns~2Fdead",
            "/0/data/job/foos:dead:ns~2Fdead.json",
        ):
            assert client.get(path, follow_redirects=True).status_code == 200, path
        for path in ("/requeue/foos", "/queue/foos/queued/empty", "/job/foos:dead:ns~2Fdead/requeue"):
            assert client.post(path).status_code == 403
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert not hasattr(app, "redis_conn")


def test_no_view_of_rq_dashboard_is_left(offline_app: Flask) -> None:
    """Every endpoint but files is ours, and so is all that runs before it."""
    theirs = {
        name
        for name, view in offline_app.view_functions.items()
        if view.__module__.startswith("rq_dashboard")
    }
    assert theirs == {"rq_dashboard.favicon"}
    assert "rq_dashboard" not in offline_app.before_request_funcs
    assert rq_dashboard_blueprint.before_request_funcs, "the blueprint itself is left as it was"


@pytest.fixture
def offline_app() -> Flask:
    """Make the dashboard of a Redis that does not answer."""
    return create_app(OFFLINE)


def test_a_missing_extra_is_named() -> None:
    """Without rq-dashboard the import says in one line what to install."""
    program = "import sys; sys.modules['rq_dashboard'] = None; import distq.dashboard"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].endswith(
        'ConfigError: no dashboard: no module "rq_dashboard". Run pip install "distq[dashboard]".'
    )


def test_an_unknown_endpoint_fails_at_start() -> None:
    """An rq-dashboard with an endpoint that we do not replace is refused: it would act behind our back."""
    blueprint = _copy_of_rq_dashboard()
    blueprint.add_url_rule("/new", "new_action", lambda: "")
    with pytest.raises(
        ConfigError, match=r"rq-dashboard [\d.]+ does not fit: endpoints new_action .* Install "
    ):
        mount(Flask("app"), blueprint, Views(OFFLINE, WebPages(OFFLINE)))


def test_a_missing_endpoint_fails_at_start() -> None:
    """An rq-dashboard that lost an endpoint is refused: its pages would be dead."""
    with pytest.raises(ConfigError, match="does not fit: endpoints job_info "):
        mount(Flask("app"), _copy_of_rq_dashboard(without="job_info"), Views(OFFLINE, WebPages(OFFLINE)))


def _copy_of_rq_dashboard(*, without: str = "") -> Blueprint:
    app = Flask("app")
    app.register_blueprint(rq_dashboard_blueprint)
    blueprint = Blueprint("rq_dashboard", "rq_dashboard")
    for endpoint, view in app.view_functions.items():
        name = endpoint.removeprefix("rq_dashboard.")
        if endpoint != name and name not in {"static", without}:
            blueprint.add_url_rule(f"/{name}", name, view)
    return blueprint
