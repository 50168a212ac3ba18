"""How large the pages of a list are: bounded by number, and by bytes."""

from distq.redisio.limits import LIST_BYTES, PAGE_SIZE

FIRST_PAGE = 50
"""Objects of the first page: how large they are shows when it is there."""

GROWTH = 4
"""How many times larger the next page may be, and how many times smaller one whose answer was too large."""


class PageSize:
    """The ``limit`` of a list's next request: small at first, larger while the pages have few bytes."""

    def __init__(self, most: int = PAGE_SIZE) -> None:
        self._most = most
        self.limit = min(FIRST_PAGE, most)

    def came(self, size: int) -> None:
        """Note that a page had so many bytes."""
        if GROWTH * size <= LIST_BYTES:
            self.limit = min(GROWTH * self.limit, self._most)

    def shrink(self) -> None:
        """Ask for fewer objects: the answer had too many bytes."""
        self.limit = max(1, self.limit // GROWTH)

    def begin_anew(self) -> None:
        """Ask for more objects from now on: a list must end before its token expires."""
        self.limit = self._most = GROWTH * self._most


def bytes_of_page(limit: int) -> int | None:
    """Return how many bytes a page of so many objects may have.

    None, no bound, for the page of one object and for those of a list that has begun anew.
    """
    return LIST_BYTES if 1 < limit <= PAGE_SIZE else None
