"""Read a commit back from the inputs of its script, as a trace or a model of Redis has them."""

import json
from collections.abc import Mapping
from typing import Any

from distq.redisio.commit import Commit
from distq.redisio.keys import bytes_of, text_of


def commit_of(inputs: Mapping[str, Any]) -> Commit:
    """Return the commit; what it puts into the cache is left out, which is no part of the queue."""
    n_items, n_known = int(inputs["n_items"]), int(inputs["n_known"])
    rest = [_text(word) for word in inputs["rest"]]
    if n_cached := int(inputs["n_cached"]):
        rest = rest[: -3 * n_cached]
    pairs, unrouted = rest[n_items : n_items + 2 * n_known], json.loads(inputs["unrouted"])
    return Commit(
        new=_text(inputs["new"]),
        epoch=_text(inputs["epoch"]),
        replaces=_text(inputs["replaces"]),
        after=_text(inputs["after"]),
        batch=_text(inputs["batch"]),
        about=json.loads(inputs["about"]),
        priority=int(inputs["priority"]),
        keep_pending=str(inputs["keep_pending"]) == "1",
        delay=int(inputs["delay"]),
        keys=[bytes_of(item) for item in rest[:n_items]],
        known=dict(zip(pairs[::2], pairs[1::2], strict=True)),
        gone=rest[n_items + 2 * n_known :],
        unrouted=dict(zip(map(bytes_of, unrouted[::2]), unrouted[1::2], strict=True)),
        parked_as=_text(inputs["parked_as"]),
        link=_text(inputs.get("link", "")),
    )


def _text(word: Any) -> str:
    return text_of(word) if isinstance(word, bytes) else str(word)
