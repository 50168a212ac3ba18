"""The position of a stream: a version of the API server, and the state of a list or large event.

A list, and an event with more keys than a commit takes, are chains of commits. Only the last one moves the
checkpoint; the position of the others is ``<checkpoint>~<leader's nonce>:<commit>``. A leader that finds
such a position starts the chain again. Once all pages of a list are in, its version follows, ``@<version>``:
then no write up to that version may add an object to the cache, since the list would have contained it.
"""

MARK = "!"
"""A text in place of a version: list and enqueue all objects."""


def checkpoint_of(position: str) -> str:
    """Return the version that a position resumes from; "" or the mark if there is none."""
    return position.partition("~")[0]


def is_readable(position: str) -> bool:
    """Return whether distq may have written this position: the API server would refuse another checkpoint."""
    checkpoint = checkpoint_of(position)
    return checkpoint in {"", MARK} or checkpoint.isdecimal()


def step_of(position: str, step: str, *, listed: str = "") -> str:
    """Return another position, named by ``step``, that resumes from the same checkpoint.

    ``listed`` is the version of a list of which all pages are in.
    """
    return f"{checkpoint_of(position)}~{step}" + (f"@{listed}" if listed else "")


def is_listing(position: str) -> bool:
    """Return whether a list is under way at this position, or has to begin."""
    return "~" in position or position.startswith(MARK)
