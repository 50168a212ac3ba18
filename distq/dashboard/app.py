"""The dashboard as a WSGI application: its pages, rq-dashboard's URLs, and the policy before both."""

from flask import Flask, Response, render_template, request
from rq_dashboard import blueprint as rq_dashboard_blueprint
from werkzeug.exceptions import HTTPException
from werkzeug.routing import IntegerConverter

from distq.dashboard import attention, wording
from distq.dashboard.access_policy import AccessPolicy
from distq.dashboard.actions import Actions
from distq.dashboard.item_id import encoded
from distq.dashboard.login_pages import LoginPages
from distq.dashboard.logins import Logins
from distq.dashboard.pages import WebPages, about
from distq.dashboard.proxies import Proxies
from distq.dashboard.rq_urls import RqUrls
from distq.dashboard.security import protect
from distq.errors import DistqError, InvalidKey, InvalidQueueName
from distq.inspector import Inspector
from distq.inspector.view import beginning_with
from distq.wording import age, brief, rfc3339


class _ShortNumber(IntegerConverter):
    regex = r"[0-9]{1,9}"  # so that no number in a URL is too long for int()


def create_app(inspector: Inspector, policy: AccessPolicy | None = None) -> Flask:
    """Return the dashboard as a WSGI application. Without a ``policy`` it has no login, and only shows.

    Raises ConfigError where the installed rq-dashboard lacks an endpoint that shows something.
    """
    policy = policy or AccessPolicy()
    app = Flask(__name__, static_folder=None)
    app.url_map.converters["int"] = _ShortNumber
    pages = WebPages(inspector)
    RqUrls(inspector, pages).install(app, rq_dashboard_blueprint)
    app.register_blueprint(pages.blueprint())
    app.context_processor(about)
    app.jinja_env.globals.update(attention=attention)
    filters = (age, brief, wording.number, wording.utc, wording.clock, rfc3339, beginning_with)
    app.jinja_env.filters |= {each.__name__: each for each in filters} | {"encoded_key": encoded}
    protect(app, policy)  # before the logins: another host gets no answer of theirs
    logins = Logins(policy, inspector)
    logins.install(app)
    LoginPages(policy, logins).install(app)
    Actions(inspector, logins).install(app)
    app.wsgi_app = Proxies(app.wsgi_app, policy.trusted_proxies, policy.trusted_header)  # type: ignore[method-assign]  # Flask's way
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(DistqError, _distq_error)
    return app


def _http_error(error: HTTPException) -> Response:
    response = _answer(f"{error.code} {error.name}", str(error.description), int(error.code or 500))
    for header, value in error.get_headers():  # such as Allow; its Content-Type is there already
        response.headers.setdefault(header, value)
    return response


def _distq_error(error: DistqError) -> Response:
    """Answer in the error's one line; the pages show it and go on asking."""
    status = 404 if isinstance(error, (InvalidKey, InvalidQueueName)) else 503
    return _answer("No answer" if status == 503 else "404 Not Found", str(error), status)


def _answer(title: str, message: str, status: int) -> Response:
    """Answer with a page where a browser asks for one, else in one line of text."""
    is_browser = any(kind == "text/html" for kind, _ in request.accept_mimetypes)
    if is_browser and "X-Live" not in request.headers:
        return Response(render_template("distq/error.html", title=title, message=message), status)
    line = message if status == 503 else f"{title}: {message}"
    return Response(f"{line}\n", status, content_type="text/plain; charset=utf-8")
