"""The error if no server names the one that has the data."""

import redis


class UnknownPlace(redis.ConnectionError):
    """No Sentinel named a primary, or no node the slots; ``refused`` if another try cannot help."""

    def __init__(self, message: str, *, refused: bool) -> None:
        super().__init__(message)
        self.refused = refused
