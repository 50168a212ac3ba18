"""rq-dashboard's URLs, each answered by a view of ours.

Nothing else of it comes along: neither its code, which would open connections and work on Redis behind the
queue's back, nor its templates, scripts and files. An endpoint that a release of it added is not served.
"""

import logging
from collections.abc import Set
from importlib.metadata import version

from flask import Blueprint, Flask, Response, abort, render_template, request
from rq_dashboard import blueprint as rq_dashboard_blueprint
from werkzeug.exceptions import HTTPException
from werkzeug.routing import IntegerConverter

from distq.dashboard import wording
from distq.dashboard.access_policy import AccessPolicy
from distq.dashboard.actions import Actions
from distq.dashboard.attempts import Attempts
from distq.dashboard.known_browsers import KnownBrowsers
from distq.dashboard.login_pages import LoginPages
from distq.dashboard.logins import Logins
from distq.dashboard.pages import WebPages, about
from distq.dashboard.proxies import Proxies
from distq.dashboard.security import protect
from distq.dashboard.views import Views, refuse
from distq.errors import ConfigError, DistqError, InvalidKey, InvalidQueueName
from distq.inspector import Inspector

logger = logging.getLogger("distq.dashboard")

_FILES = {"static", "favicon"}
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


def create_app(inspector: Inspector, policy: AccessPolicy | None = None) -> Flask:
    """Return the dashboard as a WSGI application, for whom ``policy`` lets in: without it all may look.

    Raises ConfigError where the installed rq-dashboard lacks an endpoint that shows something.
    """
    policy = policy or AccessPolicy()
    app = Flask(__name__, static_folder=None)
    app.url_map.converters["int"] = _ShortNumber
    pages = WebPages(inspector)
    mount(app, rq_dashboard_blueprint, Views(inspector, pages))
    app.register_blueprint(pages.blueprint())
    wording.teach(app)
    app.context_processor(about)
    protect(app, policy)
    logins = Logins(policy, inspector)
    logins.install(app)
    LoginPages(policy, logins, Attempts(), KnownBrowsers(app, policy)).install(app)
    Actions(inspector, logins).install(app)
    app.wsgi_app = Proxies(app.wsgi_app, policy.trusted_proxies, policy.trusted_header)  # type: ignore[method-assign]  # Flask's way
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(DistqError, _distq_error)
    return app


def mount(app: Flask, blueprint: Blueprint, views: Views) -> None:
    """Serve rq-dashboard's URLs by our views."""
    theirs = Flask("theirs", static_folder=None)
    theirs.register_blueprint(blueprint)
    prefix = f"{blueprint.name}."
    answers = {name: getattr(views, name) for name in _SHOWN} | dict.fromkeys(_REFUSED, refuse)
    app.url_value_preprocessor(_only_instance)
    found: set[str] = set()
    for rule in theirs.url_map.iter_rules():
        name = rule.endpoint.removeprefix(prefix)
        found.add(name)
        if name in answers:
            app.add_url_rule(
                rule.rule, rule.endpoint, answers[name], methods=rule.methods, defaults=rule.defaults
            )
    _compare(found, answers.keys() | _FILES)


def _compare(found: Set[str], known: Set[str]) -> None:
    """Say which endpoints a release added; raise ConfigError where it took one away that shows something."""
    release = f"rq-dashboard {version('rq-dashboard')}"
    if missing := _SHOWN - found:
        raise ConfigError(f"{release} has no endpoint {', '.join(sorted(missing))}. Install 0.9.0.")
    if new := found - known:
        logger.warning("%s has new endpoints, which answer 404: %s", release, ", ".join(sorted(new)))


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
