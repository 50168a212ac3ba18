"""What happened to the items of a queue, told from its trace."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from distq.inspector.info import Timestamp, TraceEvent
from distq.redisio.keys import bytes_of, shown
from distq.redisio.records import parse_fields, words_of
from distq.redisio.trace import TracedCall
from distq.wording import counted, duration

_Said = tuple[bytes | None, str, int | None, int | None]
"""An item or none, what happened, the session that did it or none, the fence or none."""

_ENDS = {"success": "succeeded", "done": "done", "retry": "failed", "park": "failed for good"}
_ENDS |= {"after": "succeeded, comes back", "keep": "comes back", "release": "released"}
_ENDS |= {"unreadable": "unreadable", "limit": "failure counted"}


def events(entries: Iterable[TracedCall], workers: Mapping[int, str]) -> Iterator[TraceEvent]:
    """Yield what happened, in its order; ``workers`` are the names of sessions that are open still."""
    names = dict(workers)
    for entry in entries:
        if entry.script == "open" and isinstance(entry.reply, bytes):
            number = int(entry.reply.partition(b"-")[0])
            names[number] = words_of(parse_fields(entry.inputs["worker"]).get("id")) or str(number)
        for item, text, session, fence in _said(entry):
            yield TraceEvent(
                at=Timestamp(entry.moment),
                key=None if item is None else shown(item),
                event=text,
                worker=None if session is None else names.get(session, str(session)),
                fence=fence,
            )


def _said(entry: TracedCall) -> Iterator[_Said]:
    for item, session, how in entry.taken_back:
        yield item, f"taken back, {how}", session, None
    if entry.cut:
        yield None, f"{entry.script}: an entry of {entry.cut} bytes was cut", None, None
    elif entry.script == "turn":
        yield from _turn(entry)
    elif entry.script in {"add", "add_after"}:
        yield from _add(entry)
    elif entry.script == "commit":
        yield from _commit(entry)
    elif entry.script in {"forget", "requeue", "delete", "park"}:
        items = entry.inputs["items"]
        for item in items:
            yield item, f"{entry.script} by hand, {entry.reply} of {counted(len(items), 'item')}", None, None
    elif entry.script == "forgive":
        for item in entry.inputs["held"][::2]:
            yield item, "its worker lives, so no crash counts", _number(entry.inputs["session"]), None
    elif entry.script in {"open", "close"} and entry.reply:
        words = entry.reply if entry.script == "open" else entry.inputs["session"]
        yield None, f"session {entry.script}", _number(words), None
    elif entry.script in {"pause", "resume", "trace"}:
        yield None, entry.script, None, None


def _add(entry: TracedCall) -> Iterator[_Said]:
    inputs = entry.inputs
    delay = f", to wait {duration(int(inputs['delay']) / 1e6)}" if "delay" in inputs else ""
    fitted = entry.reply[1]
    for place, item in enumerate(inputs["items"]):
        yield item, f"added{delay}" if place < fitted else "not added: the queue is full", None, None


def _commit(entry: TracedCall) -> Iterator[_Said]:
    inputs, answer = entry.inputs, entry.reply[0].decode()
    stream, position = shown(inputs["stream"]), shown(inputs["new"])
    if answer != "OK":
        yield None, f"commit of {stream} refused: {answer} {shown(entry.reply[1])}", None, None
        return
    for item in inputs["rest"][: int(inputs["n_items"])]:
        yield item, f"added by {stream} at {position}", None, None
    for item in _unrouted(inputs["unrouted"])[::2]:
        yield bytes_of(item), f"a function of its watch failed: {stream} at {position}", None, None


def _unrouted(text: bytes) -> list[str]:
    """Return the items and why; nothing of what an older script, which had none, was asked."""
    try:
        words = json.loads(text)
    except ValueError:
        return []
    return list(map(str, words)) if isinstance(words, list) else []


def _turn(entry: TracedCall) -> Iterator[_Said]:
    inputs = entry.inputs
    session = _number(inputs["session"])
    if not isinstance(entry.reply, list):
        yield None, f"turn refused: {shown(entry.reply)}", session, None
        return
    fence, _, alone, refused, dispositions, popped, *_ = entry.reply
    yield from _settled(inputs, refused, dispositions or [], session)
    for item in entry.due:
        yield item, "its delay ended", None, None
    for item in entry.revived:
        yield item, "revived: it was dead for long enough", None, None
    for item in popped[::2]:
        yield item, "claimed alone" if alone else "claimed", session, int(fence)


def _settled(
    inputs: Mapping[str, Sequence[bytes]], refused: bytes | None, dispositions: Sequence[bytes], session: int
) -> Iterator[_Said]:
    words, n_ok = inputs["settlements"], int(inputs["n_ok"])  # type: ignore[call-overload]  # text is a sequence
    refusals = {int(place) for place in (refused or b"").split(b",") if place}
    ends = [(words[2 * n], words[2 * n + 1], b"success", b"") for n in range(n_ok)]
    others = [words[at : at + 6] for at in range(2 * n_ok, len(words), 6)]
    places = [b""] * n_ok + list(dispositions)
    ends += [(item, fence, outcome, text) for item, fence, outcome, _, _, text in others]
    for place, ((item, fence, outcome, text), stands) in enumerate(zip(ends, places, strict=True), 1):
        if place in refusals:
            yield item, "refused: its claim had ended", session, int(fence or 0)
        else:
            yield item, _end(outcome.decode(), stands, text), session, int(fence or 0) or None


def _end(outcome: str, stands: bytes, text: bytes) -> str:
    said = _ENDS.get(outcome, outcome)
    if error := shown(text.partition(b"\n")[0]):
        said += f": {error}"
    if stands.isdigit():
        return f"{said}; pending from {int(stands) / 1000:.3f}"
    return f"{said}; parked" if stands == b"parked" else said


def _number(session: bytes) -> int:
    number = session.partition(b"-")[0]
    return int(number) if number.isdigit() else 0
