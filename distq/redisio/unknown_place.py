"""The error where no server says which one has the data."""

import redis


class UnknownPlace(redis.ConnectionError):
    """No Sentinel named a primary, or no node the slots; ``refused`` where asking again cannot help."""

    def __init__(self, message: str, *, refused: bool) -> None:
        super().__init__(message)
        self.refused = refused
