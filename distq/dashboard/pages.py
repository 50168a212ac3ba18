"""The dashboard's pages, each from one look of the Inspector.

Each is drawn whole by the server; the script ``distq.js`` asks for it again and puts in the changes. Unknown
queues and pages answer 404; an item that is in no state has a page that says so.
"""

import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Literal, TypeGuard, get_args

from flask import Blueprint, abort, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from distq.dashboard import charts
from distq.dashboard.item_id import decoded
from distq.dns1123 import DNS1123_LABEL, DNS1123_SUBDOMAIN
from distq.inspector import (
    Inspector,
    ItemsAcross,
    Listing,
    QueueInfo,
    QueueNames,
    QueueView,
    Rows,
    View,
    Wanted,
)
from distq.inspector.across import QUEUES_LOOKED_AT
from distq.inspector.view import LOOKED_THROUGH
from distq.workqueue.worker import VERSION

PER_PAGE = 50
QUEUES_PER_PAGE = 100
ERRORS_SHOWN = 10
EVENTS_SHOWN = 100
ACTIONS_PER_PAGE = 100
ORDERS = {
    "ready": ("next first", "last first"),
    "delayed": ("due first", "due last"),
    "processing": ("oldest session first", "newest session first"),
    "dirty": ("next first", "last first"),
    "dead": ("oldest first, retries and crashes last", "newest first, retries and crashes first"),
}
"""The order of each state, and the reverse; failing items have none."""

_NUMBER = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
_CURSOR = re.compile(r"[0-9]{1,20}", re.ASCII)
_LONGEST_MATCH = 1024
_RESOURCE = re.compile(rf"(?:({DNS1123_SUBDOMAIN.pattern})/)?(v[a-z0-9]+)/([A-Z][A-Za-z0-9]*)")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,252}")
"""Names that a shell takes as they are. Objects have no others, but for a few roles."""


class WebPages:
    """The pages of one Redis."""

    def __init__(self, inspector: Inspector) -> None:
        self._inspector = inspector

    def blueprint(self) -> Blueprint:
        """Return the pages, but for the first, which is rq-dashboard's URL, with our files."""
        made = Blueprint("distq", __name__, static_folder="static", static_url_path="/distq")
        made.add_url_rule("/queues/<queue>", "queue", self.queue)
        made.add_url_rule("/queues/<queue>/items/<encoded_key>", "item", self.item)
        made.add_url_rule("/failing", "failing", self.failing)
        made.add_url_rule("/find", "find", self.find)
        made.add_url_rule("/audit", "audit", self.audit)
        made.add_url_rule("/workers", "workers", self.workers)
        made.add_url_rule("/informers", "informers", self.informers)
        return made

    def queues(self) -> ResponseReturnValue:
        """Show all queues in numbers."""
        return self._render_some("queues", Wanted(past=(3600.0, 60.0)), tab="Queues", pictures=charts)

    def queue(self, queue: str) -> ResponseReturnValue:
        """Show one queue: its numbers, pictures and errors, and a page of its items."""
        rows, page = _rows()
        time_range = request.args.get("past", "hour")
        if time_range not in charts.TIME_RANGES:
            abort(404, "no such time range.")
        view = self._inspector.view(
            queue, Wanted(rows=rows, errors=True, flows=True, past=charts.TIME_RANGES[time_range])
        )
        found = _only(view, queue)
        total = getattr(found.info, rows.state)
        last = max(1, -(-total // PER_PAGE))
        if page > last and not rows.is_search:
            return redirect(
                url_for(
                    "distq.queue", queue=queue, state=rows.state, sort=request.args.get("sort"), page=last
                )
            )
        return self._render(
            "queue",
            view,
            tab="Queues",
            found=found,
            info=found.info,
            rows=rows,
            total=total,
            pages=_pages(page, last),
            pictures=charts.of_queue(found, view.now, charts.TIME_RANGES[time_range][1]),
            time_range=time_range,
            time_ranges=charts.TIME_RANGES,
            orders=ORDERS,
            leader=next((stream.leader for stream in found.streams if stream.gone_since is None), None),
            errors_shown=ERRORS_SHOWN,
            looked_through=LOOKED_THROUGH,
        )

    def item(self, queue: str, encoded_key: str) -> ResponseReturnValue:
        """Show one item, what happened to it, and its namespace's others."""
        key = decoded(encoded_key) or abort(404, "no such key.")
        view = self._inspector.view(queue, Wanted(key=key, calls=True))
        found = _only(view, queue)
        namespace = key.rpartition("/")[0]
        return self._render(
            "item",
            view,
            tab="Queues",
            found=found,
            info=found.info,
            key=key,
            item=found.item,
            namespace=namespace,
            kubectl=kubectl_get(found.resource, key),
            timeline=[event for event in found.events if event.key == key][-EVENTS_SHOWN:],
            claims=charts.claims(found.events, key, view.now),
        )

    def failing(self) -> ResponseReturnValue:
        """Show failing and dead items of all queues."""
        page, names = _names(QUEUES_LOOKED_AT)
        view = self._inspector.failing(names)
        return self._render_page("failing", view, page, names, tab="Failing")

    def find(self) -> ResponseReturnValue:
        """Show in which queues the key of the URL is, and in which state; without one only the form."""
        key = request.args.get("key", "")
        if not key:
            return render_template("distq/find.html", tab="", key="")
        page, names = _names(QUEUES_LOOKED_AT)
        view = self._inspector.find(key, names)
        return self._render_page("find", view, page, names, tab="", key=key)

    def audit(self) -> ResponseReturnValue:
        """Show who did what and when, a hundred actions at a time."""
        page = page_number(request.args.get("page", "1"))
        # one more shows whether there is a further page
        found = self._inspector.audit(offset=(page - 1) * ACTIONS_PER_PAGE, limit=ACTIONS_PER_PAGE + 1)
        return render_template(
            "distq/audit.html",
            tab="Audit",
            now=self._inspector.now(),
            actions_done=found[:ACTIONS_PER_PAGE],
            pages=_pages(page, page + (len(found) > ACTIONS_PER_PAGE))[1:3],
        )

    def workers(self) -> ResponseReturnValue:
        """Show the open handles of all queues, and what they hold."""
        return self._render_some("workers", Wanted(held=True), tab="Workers")

    def informers(self) -> ResponseReturnValue:
        """Show each watched resource, its leader, and how far that is."""
        return self._render_some("informers", Wanted(), tab="Informers")

    def _render_some(self, template: str, wanted: Wanted, **shown: Any) -> ResponseReturnValue:
        """Show a hundred queues: those of the page that the URL asks for, of those that match."""
        page, names = _names(QUEUES_PER_PAGE)
        view = self._inspector.view(wanted=wanted._replace(names=names))
        return self._render_page(template, view, page, names, **shown)

    def _render_page(
        self, template: str, view: View | ItemsAcross, page: int, names: QueueNames, **shown: Any
    ) -> ResponseReturnValue:
        """Show a page of the queues that match; redirect to the last one from a page beyond it."""
        last = max(1, -(-view.matching // names.limit))
        if page > last:
            wanted: dict[str, Any] = {"key": shown.get("key"), "match": names.match or None, "page": last}
            return redirect(url_for(str(request.endpoint), **wanted))
        looked_at = max(0, min(names.limit, view.matching - names.offset))
        return self._render(
            template, view, names=names, looked_at=looked_at, pages=_pages(page, last), **shown
        )

    def _render(self, template: str, view: View | ItemsAcross, **shown: Any) -> str:
        return render_template(
            f"distq/{template}.html",
            view=view,
            now=view.now,
            prefix=self._inspector.prefix,
            **shown,
        )


def about() -> dict[str, str]:
    """Return the versions that each page shows."""
    return {"distq_version": VERSION, "rq_dashboard_version": version("rq-dashboard")}


def _pages(page: int, last: int) -> list[tuple[str, int]]:
    """Return the links of a pager by their names; 0 where there is no such page."""
    return [
        ("First", 1 if page > 1 else 0),
        ("Previous", page - 1),
        ("Next", page + 1 if page < last else 0),
        ("Last", last if page < last else 0),
    ]


def _page_and_match() -> tuple[int, str]:
    """Return the page and the match that the URL asks for; 404 for values that no link of ours has."""
    page, match = page_number(request.args.get("page", "1")), request.args.get("match", "")
    if len(match.encode(errors="replace")) > _LONGEST_MATCH:
        abort(404, f"nothing to search for: at most {_LONGEST_MATCH} bytes.")
    return page, match


def _names(limit: int) -> tuple[int, QueueNames]:
    """Return the page that the URL asks for, and its queues: ``limit`` of those that match."""
    page, match = _page_and_match()
    return page, QueueNames((page - 1) * limit, limit, match)


def _rows() -> tuple[Rows, int]:
    """Return the items that the URL asks for, and their page; 404 for values that no link of ours has."""
    asked = request.args
    state, sort, cursor = asked.get("state", "ready"), asked.get("sort", "first"), asked.get("cursor", "0")
    if not _is_listing(state) or sort not in {"first", "last"}:
        abort(404, "no such list.")
    if not _CURSOR.fullmatch(cursor) or int(cursor) >= 2**64:  # cursors of Redis have 64 bits
        abort(404, "no such page.")
    number, match = _page_and_match()
    return Rows(state, (number - 1) * PER_PAGE, PER_PAGE, sort == "last", match, cursor), number


def _is_listing(text: str) -> TypeGuard[Listing | Literal["failing"]]:
    return text in {*get_args(Listing), "failing"}


def require_queue(found: Sequence[QueueInfo], name: str) -> QueueInfo:
    """Return the one queue that was found; else 404, or 503 where it is broken: a page goes on asking."""
    if not found:
        abort(404, f"no queue {name!r}.")
    if found[0].broken is not None:
        abort(503, f"{name} cannot be read. {found[0].broken}")
    return found[0]


def page_number(text: str) -> int:
    """Return the number of a page, from 1; 404 for other text."""
    return int(text) if _NUMBER.fullmatch(text) else abort(404, "no such page.")


def _only(view: View, name: str) -> QueueView:
    require_queue([found.info for found in view.queues], name)
    return view.queues[0]


def kubectl_get(resource: str | None, key: str) -> str | None:
    """Return ``kubectl get KIND.VERSION.GROUP -n NAMESPACE NAME``; None for a key that names no object.

    kubectl takes a kind in the place of a plural name (source: kubectl, cli-runtime resource.Builder).
    """
    kind = _RESOURCE.fullmatch(resource or "")
    namespace, slash, name = key.rpartition("/")
    if not kind or not _NAME.fullmatch(name) or (slash and not DNS1123_LABEL.fullmatch(namespace)):
        return None
    full = f"{kind[3]}.{kind[2]}.{kind[1]}" if kind[1] else kind[3]
    return f"kubectl get {full} {f'-n {namespace} ' if namespace else ''}{name}"
