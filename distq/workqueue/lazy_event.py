"""An event that most requests never need, so that claiming one does not pay for its locks."""

import threading
from typing import Any

_beginning = threading.Lock()


class LazyEvent(threading.Event):
    """A ``threading.Event`` that is made when somebody first waits for it or sets it."""

    def __init__(self) -> None:
        """Put it off: an Event's own costs more than all else of a claim."""

    def __getattr__(self, name: str) -> Any:
        """Become an Event; asked only for what is not there, so once."""
        with _beginning:
            if not self.__dict__:
                super().__init__()
        try:
            return self.__dict__[name]
        except KeyError:
            raise AttributeError(name) from None

    def is_set(self) -> bool:
        """Return whether it was set."""
        return bool(self.__dict__) and super().is_set()
