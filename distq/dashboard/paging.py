"""Which rows a page of a list shows, and its links to other pages."""

from dataclasses import dataclass, replace
from typing import Any

from flask import url_for

MAX_PER_PAGE = 200
WINDOW = 10


@dataclass(frozen=True, slots=True)
class RegistryPage:
    """Page ``number``, from 1, of a registry; ``order`` is asc or dsc."""

    queue: str
    registry: str
    per_page: int = 25
    order: str = "asc"
    number: int = 1

    def url(self) -> str:
        """Return where people see this page."""
        return url_for(
            "rq_dashboard.jobs_overview",
            instance_number=0,
            queue_name=self.queue,
            registry_name=self.registry,
            per_page=self.per_page,
            order=self.order,
            page=self.number,
        )

    def rows(self, total: int) -> tuple[int, int]:
        """Return offset and limit of the page's rows, by rank; with dsc they are to be shown backwards."""
        start = (self.number - 1) * self.per_page
        end = min(start + self.per_page, total)
        return (start if self.order == "asc" else total - end), max(0, end - start)

    def links(self, total: int) -> dict[str, Any]:
        """Return the links that the page shows below its rows."""
        pages = -(-total // self.per_page)
        last = max(pages, 1)
        first_in_window = max(1, min(self.number - WINDOW // 2, last - WINDOW + 1))
        window = range(first_in_window, min(first_in_window + WINDOW - 1, last) + 1)
        links: dict[str, Any] = {
            "current_page": self.number,
            "num_pages": pages,
            "pages_in_window": [{"number": number, **self._link(number)} for number in window],
            "first_page": self._link(1),
            "last_page": self._link(last),
        }
        if self.number > 1:
            links["prev_page"] = self._link(min(self.number - 1, last))
        if self.number < last:
            links["next_page"] = self._link(self.number + 1)
        return links

    def _link(self, number: int) -> dict[str, str]:
        return {"url": replace(self, number=number).url()}
