"""rq-dashboard's blueprint with every view replaced.

Its URLs, templates and scripts stay; its ``before_request``, which would open connections, goes. An
rq-dashboard whose endpoints are not exactly the ones that we replace is refused at start-up: an endpoint
left alone would work on Redis behind the queue's back.
"""

from importlib.metadata import version

from flask import Blueprint, Flask, Response, abort, render_template, request
from rq_dashboard import blueprint as rq_dashboard_blueprint
from werkzeug.exceptions import HTTPException
from werkzeug.routing import IntegerConverter

from distq.dashboard import wording
from distq.dashboard.actions import Actions
from distq.dashboard.attempts import Attempts
from distq.dashboard.gate import Gate
from distq.dashboard.known_browsers import KnownBrowsers
from distq.dashboard.login_pages import LoginPages
from distq.dashboard.logins import Logins
from distq.dashboard.pages import WebPages, about
from distq.dashboard.proxies import Proxies
from distq.dashboard.security import protect
from distq.dashboard.views import Views, refuse
from distq.errors import ConfigError, DistqError, InvalidKey, InvalidQueueName
from distq.inspector import Inspector

_KEPT = {"static", "favicon"}
_SHOWN = {
    "queues_overview",
    "list_queues",
    "jobs_overview",
    "list_jobs",
    "job_view",
    "job_info",
    "workers_overview",
    "list_workers",
}
_REFUSED = {"delete_job_view", "requeue_job_view", "requeue_all", "empty_queue", "compact_queue"}


class _ShortNumber(IntegerConverter):
    regex = r"[0-9]{1,9}"  # so that no number in a URL is too long for int()


def create_app(inspector: Inspector, gate: Gate | None = None) -> Flask:
    """Return the dashboard as a WSGI application, for whom ``gate`` lets in: without it all may look.

    Raises ConfigError where the installed rq-dashboard has other endpoints than those that we know.
    """
    gate = gate or Gate()
    app = Flask(__name__, static_folder=rq_dashboard_blueprint.static_folder)
    app.url_map.converters["int"] = _ShortNumber
    pages = WebPages(inspector)
    mount(app, rq_dashboard_blueprint, Views(inspector, pages))
    app.register_blueprint(pages.blueprint())
    wording.teach(app)
    app.context_processor(about)
    protect(app, gate)
    logins = Logins(gate)
    logins.install(app)
    LoginPages(gate, logins, Attempts(), KnownBrowsers(app, gate)).install(app)
    Actions(inspector, logins).install(app)
    app.wsgi_app = Proxies(app.wsgi_app, gate.trusted_proxies, gate.trusted_header)  # type: ignore[method-assign]  # Flask's way
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(DistqError, _distq_error)
    return app


def mount(app: Flask, blueprint: Blueprint, views: Views) -> None:
    """Register rq-dashboard's blueprint with our views in place of its own."""
    app.register_blueprint(blueprint)
    app.before_request_funcs.pop(blueprint.name, None)
    app.url_value_preprocessor(_only_instance)
    prefix = f"{blueprint.name}."
    endpoints = {name.removeprefix(prefix) for name in app.view_functions if name.startswith(prefix)} - _KEPT
    if odd := endpoints ^ (_SHOWN | _REFUSED):
        raise ConfigError(
            f"rq-dashboard {version('rq-dashboard')} does not fit: endpoints {', '.join(sorted(odd))} were "
            "added or removed. Install 0.9.0."
        )
    for name in _SHOWN:
        app.view_functions[prefix + name] = getattr(views, name)
    for name in _REFUSED:
        app.view_functions[prefix + name] = refuse


def _only_instance(_: str | None, values: dict[str, object] | None) -> None:
    """Take rq-dashboard's number of a Redis out of the URL; there is only number 0."""
    if values and values.pop("instance_number", 0):
        abort(404, "no such instance.")


def _http_error(error: HTTPException) -> Response:
    response = _told(f"{error.code} {error.name}", str(error.description), int(error.code or 500))
    for header, value in error.get_headers():
        response.headers.setdefault(header, value)
    return response


def _distq_error(error: DistqError) -> Response:
    """Answer in the error's one line; the pages show it and go on asking."""
    status = 404 if isinstance(error, (InvalidKey, InvalidQueueName)) else 503
    return _told("No answer" if status == 503 else "404 Not Found", str(error), status)


def _told(title: str, message: str, status: int) -> Response:
    """Answer with a page where a browser wants one, and in one line of text elsewhere."""
    is_browser = any(kind == "text/html" for kind, _ in request.accept_mimetypes)
    if is_browser and "X-Live" not in request.headers:
        return Response(render_template("distq/error.html", title=title, message=message), status)
    line = message if status == 503 else f"{title}: {message}"
    return Response(f"{line}\n", status, content_type="text/plain; charset=utf-8")
