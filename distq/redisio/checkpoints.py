"""Where a stream stands: a version of the API server, and what else its position may say.

A list, and an event with more keys than a commit takes, are chains of commits of which only the end
moves the checkpoint: ``<checkpoint>~<leader's nonce>:<commit>``. Whoever finds such a position starts
the chain over. Once all pages of a list are in, its version follows, ``@<version>``: no write up to there
brings anything new into the cache any more, since the list would have shown it.
"""

MARK = "!"
"""In place of a version: list and enqueue everything."""


def checkpoint_of(position: str) -> str:
    """Return the version that a position resumes from, "" or the mark where there is none."""
    return position.partition("~")[0]


def step_of(position: str, step: str, *, listed: str = "") -> str:
    """Return another position, named by ``step``, that resumes from the same checkpoint.

    ``listed`` is the version of a list of which all pages are in.
    """
    return f"{checkpoint_of(position)}~{step}" + (f"@{listed}" if listed else "")


def is_listing(position: str) -> bool:
    """Return whether a list is under way there, or has to begin."""
    return "~" in position or position.startswith(MARK)
