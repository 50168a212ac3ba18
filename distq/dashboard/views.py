"""What rq-dashboard's endpoints answer, from an Inspector alone.

Methods are named after the endpoints that they replace. Unknown queues, registries, pages and items
answer 404; reading changes nothing.
"""

import re
from typing import Any, NoReturn

from flask import abort, redirect, request, url_for
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import MethodNotAllowed

from distq.dashboard import rows
from distq.dashboard.item_id import ItemId, encoded
from distq.dashboard.pages import PER_PAGE, WebPages, unreadable
from distq.dashboard.paging import MAX_PER_PAGE, RegistryPage
from distq.dashboard.registries import REGISTRIES, count
from distq.inspector import Inspector, ItemInfo, QueueInfo

_NUMBER = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)


class Views:
    """The endpoints that show something."""

    def __init__(self, inspector: Inspector, pages: WebPages) -> None:
        self._inspector = inspector
        self._pages = pages

    def queues_overview(self) -> ResponseReturnValue:
        """Show the page of all queues."""
        return self._pages.queues()

    def list_queues(self) -> ResponseReturnValue:
        """Answer the queues with their counts."""
        return {"queues": [rows.queue_row(queue) for queue in self._inspector.queues()]}

    def jobs_overview(
        self, queue_name: str | None, registry_name: str, per_page: int | str, order: str, page: int | str
    ) -> ResponseReturnValue:
        """Lead to the page of one queue; without its name, to that of the first."""
        if queue_name is None:
            queues = self._inspector.queues()
            return redirect(_queue_url(queues[0].name) if queues else url_for(".queues_overview"))
        shown = _page(queue_name, registry_name, per_page, order, page)
        _only(self._inspector.queues(queue_name), queue_name)
        return redirect(_list_url(shown))

    def list_jobs(
        self, queue_name: str, registry_name: str, per_page: str, order: str, page: str
    ) -> ResponseReturnValue:
        """Answer one page of a list."""
        shown = _page(queue_name, registry_name, per_page, order, page)
        total = count(_only(self._inspector.queues(queue_name), queue_name), registry_name)
        return {
            "name": queue_name,
            "registry_name": registry_name,
            "jobs": [rows.item_row(item, registry_name) for item in self._items(shown, total)],
            "pagination": shown.links(total),
        }

    def job_view(self, job_id: str) -> ResponseReturnValue:
        """Lead to the page of one item, or by an id without a key to its list."""
        item_id = _item_id(job_id)
        if not item_id.key:
            return redirect(_queue_url(item_id.queue, state=item_id.state))
        self._item(item_id)
        return redirect(url_for("distq.item", queue=item_id.queue, encoded_key=encoded(item_id.key)))

    def job_info(self, job_id: str) -> ResponseReturnValue:
        """Answer one item."""
        return {**rows.item_details(self._item(_item_id(job_id))), "id": job_id}

    def workers_overview(self) -> ResponseReturnValue:
        """Lead to the page of all workers."""
        return redirect(url_for("distq.workers"))

    def list_workers(self) -> ResponseReturnValue:
        """Answer the open handles of all queues."""
        workers = [rows.worker_row(worker) for worker in self._inspector.workers()]
        return {"workers": sorted(workers, key=lambda row: (row["state"], row["queues"], row["name"]))}

    def _items(self, page: RegistryPage, total: int) -> list[ItemInfo]:
        state, (offset, limit) = REGISTRIES[page.registry], page.rows(total)
        if state is None or not limit:
            return []
        items = self._inspector.items(page.queue, state=state, offset=offset, limit=limit)
        return items if page.order == "asc" else items[::-1]

    def _item(self, item_id: ItemId) -> ItemInfo:
        _only(self._inspector.queues(item_id.queue), item_id.queue)
        item = self._inspector.item(item_id.queue, item_id.key)
        return item or abort(404, f"no item {item_id.key!r} in {item_id.queue}: it may be done.")


def refuse(**_: str) -> NoReturn:
    """Refuse an action, which rq-dashboard would also take by GET."""
    if request.method != "POST":
        raise MethodNotAllowed(["POST"], "actions are no links.")
    abort(403, "rq-dashboard's own actions are refused here. Repair on the page of the queue.")


def _page(queue: str, registry: str, per_page: int | str, order: str, number: int | str) -> RegistryPage:
    if registry not in REGISTRIES:
        abort(404, f"no registry {registry!r}.")
    if order not in {"asc", "dsc"} or not all(_NUMBER.fullmatch(str(text)) for text in (per_page, number)):
        abort(404, "no such page.")
    return RegistryPage(queue, registry, min(int(per_page), MAX_PER_PAGE), order, int(number))


def _item_id(text: str) -> ItemId:
    return ItemId.parse(text) or abort(404, f"no item has the id {text!r}.")


def _only(queues: list[QueueInfo], name: str) -> QueueInfo:
    if not queues:
        abort(404, f"no queue {name!r}.")
    return queues[0] if queues[0].broken is None else unreadable(queues[0])


def _queue_url(queue: str, **shown: Any) -> str:
    return url_for("distq.queue", queue=queue, **shown)


def _list_url(page: RegistryPage) -> str:
    """Return our page of a list of RQ's; its rows a page are ours, so the one with its first row."""
    state = REGISTRIES[page.registry]
    first = (page.number - 1) * page.per_page
    sort = None if page.order == "asc" else "last"
    return (
        _queue_url(page.queue, state=state, sort=sort, page=first // PER_PAGE + 1)
        if state
        else _queue_url(page.queue)
    )
