"""rq-dashboard's URLs, each answered from an Inspector alone.

Only the URLs of its blueprint are taken: its views would open connections and change queues behind distq's
back. Its pages redirect to ours, its JSON has a queue's data, its actions are refused. Unknown queues,
registries, pages and items answer 404; reading changes nothing.
"""

import logging
from collections.abc import Set
from importlib.metadata import version
from typing import Any, NoReturn

from flask import Blueprint, Flask, abort, redirect, request, url_for
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import MethodNotAllowed

from distq.dashboard import rq_rows
from distq.dashboard.item_id import ItemId, encoded
from distq.dashboard.pages import PER_PAGE, WebPages, page_number, require_queue
from distq.dashboard.rq_rows import MAX_PER_PAGE, REGISTRIES, RegistryPage
from distq.errors import ConfigError
from distq.inspector import Inspector, ItemInfo, QueueInfo

logger = logging.getLogger("distq.dashboard")

_FILES = {"static", "favicon"}
_REFUSED = {"delete_job_view", "requeue_job_view", "requeue_all", "empty_queue", "compact_queue"}


class RqUrls:
    """A view for each endpoint of rq-dashboard that shows something, named after it."""

    def __init__(self, inspector: Inspector, pages: WebPages) -> None:
        self._inspector = inspector
        self._pages = pages

    def install(self, app: Flask, blueprint: Blueprint) -> None:
        """Serve the URLs of rq-dashboard's blueprint; an endpoint that a release of it added is not served.

        Raises ConfigError where it lacks an endpoint that shows something.
        """
        answers = {name: getattr(self, name) for name in _SHOWN} | dict.fromkeys(_REFUSED, refuse)
        # serves nothing: it only has their rules, with views that would open connections
        theirs = Flask("theirs", static_folder=None)
        theirs.register_blueprint(blueprint)
        app.url_value_preprocessor(_only_instance)
        found: set[str] = set()
        for rule in theirs.url_map.iter_rules():
            name = rule.endpoint.removeprefix(f"{blueprint.name}.")
            found.add(name)
            if name in answers:
                app.add_url_rule(
                    rule.rule, rule.endpoint, answers[name], methods=rule.methods, defaults=rule.defaults
                )
        _compare(found, answers.keys() | _FILES)

    def queues_overview(self) -> ResponseReturnValue:
        """Show the page of all queues."""
        return self._pages.queues()

    def list_queues(self) -> ResponseReturnValue:
        """Answer the queues with their counts."""
        return {"queues": [rq_rows.queue_row(queue) for queue in self._inspector.queues()]}

    def jobs_overview(
        self, queue_name: str | None, registry_name: str, per_page: int | str, order: str, page: int | str
    ) -> ResponseReturnValue:
        """Redirect to the page of one queue; without its name, to that of the first."""
        if queue_name is None:
            queues = self._inspector.queues()
            return redirect(_queue_url(queues[0].name) if queues else url_for(".queues_overview"))
        wanted = _registry_page(queue_name, registry_name, per_page, order, page)
        self._queue(queue_name)
        if wanted.state is None:
            return redirect(_queue_url(queue_name))
        first = (wanted.number - 1) * wanted.per_page
        sort = None if order == "asc" else "last"
        return redirect(
            _queue_url(queue_name, state=wanted.state, sort=sort, page=first // PER_PAGE + 1)  # as ours count
        )

    def list_jobs(
        self, queue_name: str, registry_name: str, per_page: str, order: str, page: str
    ) -> ResponseReturnValue:
        """Answer one page of a list."""
        wanted = _registry_page(queue_name, registry_name, per_page, order, page)
        total = rq_rows.count(self._queue(queue_name), registry_name)
        jobs = []
        offset, limit = wanted.rows(total)
        if wanted.state is not None and limit:
            items = self._inspector.items(queue_name, state=wanted.state, offset=offset, limit=limit)
            jobs = [rq_rows.item_row(item, wanted.state) for item in items]
        return {
            "name": queue_name,
            "registry_name": registry_name,
            "jobs": jobs if order == "asc" else jobs[::-1],
            "pagination": wanted.links(total),
        }

    def job_view(self, job_id: str) -> ResponseReturnValue:
        """Redirect to the page of one item, or by an id without a key to its list."""
        item_id = _item_id(job_id)
        if not item_id.key:
            return redirect(_queue_url(item_id.queue, state=item_id.state))
        self._item(item_id)
        return redirect(url_for("distq.item", queue=item_id.queue, encoded_key=encoded(item_id.key)))

    def job_info(self, job_id: str) -> ResponseReturnValue:
        """Answer one item."""
        return {**rq_rows.item_details(self._item(_item_id(job_id))), "id": job_id}

    def workers_overview(self) -> ResponseReturnValue:
        """Redirect to the page of all workers."""
        return redirect(url_for("distq.workers"))

    def list_workers(self) -> ResponseReturnValue:
        """Answer the open handles of all queues."""
        workers = [rq_rows.worker_row(worker) for worker in self._inspector.workers()]
        return {"workers": sorted(workers, key=lambda row: (row["state"], row["queues"], row["name"]))}

    def _queue(self, name: str) -> QueueInfo:
        return require_queue(self._inspector.queues(name), name)

    def _item(self, item_id: ItemId) -> ItemInfo:
        self._queue(item_id.queue)
        item = self._inspector.item(item_id.queue, item_id.key)
        return item or abort(404, f"no item {item_id.key!r} in {item_id.queue}: it may be done.")


_SHOWN = {name for name in vars(RqUrls) if not name.startswith("_") and name != "install"}


def refuse(**_: str) -> NoReturn:
    """Refuse an action, which rq-dashboard would also take by GET."""
    if request.method != "POST":
        raise MethodNotAllowed(["POST"], "actions are no links.")
    abort(403, "rq-dashboard's own actions are refused here. Repair on the page of the queue.")


def _compare(found: Set[str], known: Set[str]) -> None:
    """Log which endpoints a release added; raise ConfigError where it took one away that shows something."""
    release = f"rq-dashboard {version('rq-dashboard')}"
    if missing := _SHOWN - found:
        raise ConfigError(f"{release} has no endpoint {', '.join(sorted(missing))}. Install 0.9.0.")
    if new := found - known:
        logger.warning("%s has new endpoints, which answer 404: %s", release, ", ".join(sorted(new)))


def _only_instance(_: str | None, values: dict[str, object] | None) -> None:
    """Take rq-dashboard's number of a Redis out of the URL; there is only number 0."""
    if values and values.pop("instance_number", 0):
        abort(404, "no such instance.")


def _registry_page(
    queue: str, registry: str, per_page: int | str, order: str, number: int | str
) -> RegistryPage:
    if registry not in REGISTRIES:
        abort(404, f"no registry {registry!r}.")
    if order not in {"asc", "dsc"}:
        abort(404, "no such page.")
    rows = min(page_number(str(per_page)), MAX_PER_PAGE)
    return RegistryPage(queue, registry, rows, order, page_number(str(number)))


def _item_id(text: str) -> ItemId:
    return ItemId.parse(text) or abort(404, f"no item has the id {text!r}.")


def _queue_url(queue: str, **shown: Any) -> str:
    return url_for("distq.queue", queue=queue, **shown)
