"""rq-dashboard's URLs come without rq-dashboard's code."""

import re
import socket
import subprocess
import sys

import pytest
from flask import Blueprint, Flask
from rq_dashboard import blueprint as rq_dashboard_blueprint

from distq.dashboard import create_app
from distq.dashboard.pages import WebPages
from distq.dashboard.rq_rows import REGISTRIES
from distq.dashboard.rq_urls import RqUrls
from distq.errors import ConfigError
from distq.extras import missing_extra
from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.workqueue.queue import Queue
from tests.dashboard.conftest import NOWHERE

OFFLINE = Inspector(NOWHERE)
URLS = RqUrls(OFFLINE, WebPages(OFFLINE))


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


def test_nothing_of_rq_dashboard_runs(offline_app: Flask) -> None:
    """Every endpoint is ours, and so is all that runs before or after it, and each template and file."""
    views = {name: view.__module__ for name, view in offline_app.view_functions.items()}
    assert not [name for name, module in views.items() if module.startswith("rq_dashboard")]
    assert "rq_dashboard" not in offline_app.blueprints
    for hooks in (offline_app.before_request_funcs, offline_app.after_request_funcs):
        assert set(hooks) <= {None}
    assert not [name for name in offline_app.jinja_env.list_templates() if name.startswith("rq_dashboard")]
    client = offline_app.test_client()
    for path in ("/static/js/jquery-3.5.1.min.js", "/static/css/bootstrap.min.css", "/favicon.ico"):
        assert client.get(path).status_code == 404


@pytest.fixture
def offline_app() -> Flask:
    """Make the dashboard of a Redis that does not answer."""
    return create_app(OFFLINE)


def test_a_missing_extra_is_named() -> None:
    """Without rq-dashboard the import says in one line what to install."""
    program = "import sys; sys.modules['rq_dashboard'] = None; import distq.dashboard"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    error = missing_extra('no dashboard (no module "rq_dashboard")', "dashboard")
    assert done.stderr.splitlines()[-1].endswith(f"ConfigError: {error}")


def test_an_endpoint_that_is_new_is_not_served(caplog: pytest.LogCaptureFixture) -> None:
    """It would act behind our back: it answers 404, and the log says so once."""
    blueprint = _copy_of_rq_dashboard()
    blueprint.add_url_rule("/new", "new_action", lambda: "acted")
    blueprint.before_app_request(lambda: "acted before")
    app = Flask("app")
    URLS.install(app, blueprint)
    for _ in range(2):
        assert app.test_client().get("/new").status_code == 404
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert re.fullmatch(
        r"rq-dashboard [\d.]+ has new endpoints, which answer 404: new_action", record.message
    )


@pytest.mark.parametrize("endpoint", ["job_info", "requeue_all"])
def test_an_endpoint_that_is_gone_is_missed_where_we_show_something(endpoint: str) -> None:
    """Without one that shows, its URLs would be dead: no start. An action would be refused anyway."""
    app, blueprint = Flask("app"), _copy_of_rq_dashboard(without=endpoint)
    if endpoint == "requeue_all":
        URLS.install(app, blueprint)
    else:
        with pytest.raises(ConfigError, match=r"rq-dashboard [\d.]+ has no endpoint job_info\. Install "):
            URLS.install(app, blueprint)


def _copy_of_rq_dashboard(*, without: str = "") -> Blueprint:
    app = Flask("app")
    app.register_blueprint(rq_dashboard_blueprint)
    blueprint = Blueprint("rq_dashboard", "rq_dashboard")
    for endpoint, view in app.view_functions.items():
        name = endpoint.removeprefix("rq_dashboard.")
        if endpoint != name and name not in {"static", without}:
            blueprint.add_url_rule(f"/{name}", name, view)
    return blueprint
