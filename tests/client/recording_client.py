"""A Client that notes what it asks, for tests of how often it does."""

from typing import Any

from distq.client import Client


class RecordingClient(Client):
    """``requests`` are the method and path of each request about an object."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.requests: list[tuple[str, str]] = []

    def request(self, method: str, path: str, **options: Any) -> bytes:
        """Note it and send it."""
        if path.count("/") > 3:  # else discovery
            self.requests.append((method, path))
        return super().request(method, path, **options)

    @property
    def writes(self) -> list[str]:
        """The methods of the requests that were no reads."""
        return [method for method, _ in self.requests if method != "GET"]
