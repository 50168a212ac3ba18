"""What a schedule must not bring about."""


class Violation(AssertionError):
    """A promise was broken; ``lost`` where something that was to be reconciled was not."""

    def __init__(self, promise: str, what: str, *, lost: bool = False) -> None:
        super().__init__(f"{promise}: {what}")
        self.promise = promise
        self.lost = lost
