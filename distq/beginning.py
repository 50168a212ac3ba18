"""What a program does at a signal until its command has handlers of its own."""

import os


def leave(*_: object) -> None:
    """End at once with status 0: nothing has begun."""
    os._exit(0)
