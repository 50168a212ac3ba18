"""The events of a queue's items, derived from its trace."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from distq.inspector.info import Happening, Timestamp, TraceEvent
from distq.redisio.checkpoints import MARK, checkpoint_of
from distq.redisio.keys import bytes_of, shown
from distq.redisio.records import parse_fields, words_of
from distq.redisio.scores import NO_SCORE, decode_order, decode_time
from distq.redisio.trace import NOT_OF_A_SCRIPT, TracedCall
from distq.wording import counted, duration


class _TimelineEntry(NamedTuple):
    """What happened to an item, or to the queue; by which session, and under which fence."""

    item: bytes | None
    kind: Happening
    text: str
    session: int | None = None
    fence: int | None = None


_ENDS = {"success": "succeeded", "done": "done", "retry": "failed", "park": "failed for good"}
_ENDS |= {"after": "succeeded", "keep": "ended", "release": "released"}
_ENDS |= {"unreadable": "unreadable", "limit": "failure counted"}

_REPAIRS = {"forget": "failures forgotten", "requeue": "requeued", "delete": "deleted", "park": "parked"}
_OF_THE_QUEUE = {"pause": "paused", "resume": "resumed"}
_OF_SESSIONS = {"open": "session opened", "close": "session closed"}


def events(
    entries: Iterable[TracedCall], workers: Mapping[int, str], about: Collection[bytes] | None = None
) -> Iterator[TraceEvent]:
    """Yield the events in their order; ``workers`` are the names of sessions that are still open.

    Adds and repairs are limited to the items ``about``, unless None: one call may name thousands.
    """
    names, timeline = dict(workers), _Timeline(about)
    for entry in entries:
        try:
            if entry.script == "open" and isinstance(entry.reply, bytes):
                names |= _name_of_session(entry)
            found = [
                _event(each, entry, names)
                for each in timeline.of(entry)
                if each.item is None or entry.tells_of(each.item)  # of others it lacks calls
            ]
        except NOT_OF_A_SCRIPT:
            unknown = timeline.unknown(f"{entry.script}: an entry that distq did not write")
            found = [_event(unknown, entry, names)]
        yield from found


def _event(found: _TimelineEntry, entry: TracedCall, names: Mapping[int, str]) -> TraceEvent:
    since = decode_time(found.fence) if found.fence and found.kind in {"settled", "taken back"} else None
    return TraceEvent(
        at=Timestamp(entry.moment),
        key=None if found.item is None else shown(found.item),
        kind=found.kind,
        event=found.text,
        worker=None if found.session is None else names.get(found.session, str(found.session)),
        fence=found.fence,
        since=None if since is None else Timestamp(since / 1e6),
    )


class _Timeline:
    """Derives events call by call; knows pending and held items, as far as the trace goes."""

    def __init__(self, about: Collection[bytes] | None) -> None:
        self._about = about
        self._priorities: dict[bytes, int | None] = {}
        """Of pending items; None where the trace does not have it."""
        self._claims: dict[bytes, int] = {}
        """Fences of held items."""

    def unknown(self, text: str) -> _TimelineEntry:
        """Forget what is known: the call may have changed it."""
        self._claims.clear()
        self._priorities.clear()
        return _TimelineEntry(None, "queue", text)

    def of(self, entry: TracedCall) -> Iterator[_TimelineEntry]:
        """Yield the events of a call; raise NOT_OF_A_SCRIPT for an entry of a shape that no script writes."""
        for item, session, how in entry.taken_back:
            fence = self._claims.pop(item, None)
            held = f" after {_since(fence, entry)}" if fence else ""
            yield _TimelineEntry(item, "taken back", f"taken back{held}, {how}", session, fence)
            if how != "parked":  # then it is pending again
                self._priorities.setdefault(item, None)
        if not entry.script:
            yield self.unknown("an entry of another version of distq")
        elif entry.cut:
            yield self.unknown(f"{entry.script}: an entry of {entry.cut} bytes was cut")
        elif entry.script == "turn":
            yield from self._turn(entry)
        elif entry.script in {"add", "add_after"}:
            yield from self._add(entry)
        elif entry.script == "commit":
            yield from self._commit(entry)
        elif entry.script in _REPAIRS:
            yield from self._repair(entry)
        elif entry.script == "forgive":
            for item in entry.inputs["held"][::2]:
                session = _number(entry.inputs["session"])
                yield _TimelineEntry(item, "forgiven", "its worker lives, so no crash counts", session)
        elif entry.script in _OF_SESSIONS and entry.reply:
            words = entry.reply if entry.script == "open" else entry.inputs["session"]
            yield _TimelineEntry(None, "queue", _OF_SESSIONS[entry.script], _number(words))
        elif entry.script in _OF_THE_QUEUE:
            yield _TimelineEntry(None, "queue", _OF_THE_QUEUE[entry.script])
        elif entry.script == "trace":
            yield _TimelineEntry(None, "queue", "trace off" if entry.reply in {0, b"0"} else "trace on")

    def _is_passed_over(self, item: bytes) -> bool:
        return self._about is not None and item not in self._about

    # Producers

    def _add(self, entry: TracedCall) -> Iterator[_TimelineEntry]:
        inputs = entry.inputs
        delay = int(inputs["delay"]) / 1e6 if "delay" in inputs else 0.0
        fitted = entry.reply[1]
        for place, item in enumerate(inputs["items"]):
            if self._is_passed_over(item):
                continue
            if place >= fitted:
                yield _TimelineEntry(item, "refused", "not added: the queue is full")
            elif delay and item not in self._priorities:
                yield _TimelineEntry(item, "added", f"added, to wait {duration(delay)}")
            else:
                yield self._added(item, int(inputs["priority"]), "")

    def _commit(self, entry: TracedCall) -> Iterator[_TimelineEntry]:
        inputs, answer = entry.inputs, entry.reply[0].decode()
        about = parse_fields(inputs["about"])
        resource = words_of(about.get("resource")) or shown(inputs["stream"])
        leader = words_of(about.get("leader"))
        by = f" by {resource} {_position(shown(inputs['new']))}" + (f" of {leader}" if leader else "")
        if answer != "OK":
            there = shown(entry.reply[1])
            known = {"TOO_LARGE": "too many index values for one step", "FENCED": f"epoch {there} leads"}
            why = known.get(answer, f"its stream is {_position(there)}")
            yield _TimelineEntry(None, "queue", f"commit{by} refused: {why}")
            return
        for item in inputs["rest"][: int(inputs["n_items"])]:
            if self._is_passed_over(item):
                continue
            yield self._added(item, int(inputs["priority"]), by)
        for text in _failed_mappings(inputs["unrouted"])[::2]:
            yield _TimelineEntry(
                bytes_of(text), "parked", f"a function of its watch failed:{by.removeprefix(' by')}"
            )

    def _added(self, item: bytes, priority: int, by: str) -> _TimelineEntry:
        """Return the effect of an add: a new pending item, a higher priority, or nothing new."""
        is_pending, before = item in self._priorities, self._priorities.get(item)
        self._priorities[item] = priority if before is None else max(priority, before)
        level = f" at priority {priority}" if priority else ""
        if is_pending and before is not None and priority > before:
            return _TimelineEntry(item, "raised", f"raised from priority {before} to {priority}{by}")
        if is_pending and before is not None:
            return _TimelineEntry(item, "added", f"added{level}{by}, and was pending")
        again = ", to run again" if item in self._claims else ""
        return _TimelineEntry(item, "added", f"added{level}{by}{again}")

    # Workers

    def _turn(self, entry: TracedCall) -> Iterator[_TimelineEntry]:
        inputs = entry.inputs
        session = _number(inputs["session"])
        if not isinstance(entry.reply, list):
            yield _TimelineEntry(None, "refused", f"turn refused: {shown(entry.reply)}", session)
            return
        fence, _, alone, refused, dispositions, popped, *_ = entry.reply
        yield from self._settled(entry, refused, dispositions or [], session)
        for item in entry.revived:
            self._priorities[item] = 0
            yield _TimelineEntry(item, "revived", "revived: it was dead for long enough")
        for item in entry.due:
            self._priorities.setdefault(item, None)
            yield _TimelineEntry(item, "promoted", "its delay ended")
        for item, order in zip(popped[::2], popped[1::2], strict=True):
            self._priorities.pop(item, None)
            self._claims[item] = int(fence)
            found = decode_order(order)
            waited = f", waited {_since(found[1], entry)}" if found != NO_SCORE else ""
            text = f"claimed{' alone' if alone else ''}{waited}"
            yield _TimelineEntry(item, "claimed", text, session, int(fence))

    def _settled(
        self, entry: TracedCall, refused: bytes | None, dispositions: Sequence[bytes], session: int
    ) -> Iterator[_TimelineEntry]:
        words, n_ok = entry.inputs["settlements"], int(entry.inputs["n_ok"])
        refusals = {int(place) for place in (refused or b"").split(b",") if place}
        # pairs of item and claim, then six words for each other outcome: see turn.lua
        ends = [(words[2 * n], words[2 * n + 1], "success", b"") for n in range(n_ok)]
        others = [words[at : at + 6] for at in range(2 * n_ok, len(words), 6)]
        places = [b""] * n_ok + list(dispositions)
        ends += [(item, fence, outcome.decode(), text) for item, fence, outcome, _, _, text in others]
        for place, ((item, claim, outcome, text), state) in enumerate(zip(ends, places, strict=True), 1):
            fence = int(claim or 0) or None
            if place in refusals:
                yield _TimelineEntry(item, "refused", "refused: its claim had ended", session, fence)
                continue
            if outcome != "limit":  # which counts a failure and ends no claim
                self._claims.pop(item, None)
            if state == b"pending":
                self._priorities.setdefault(item, None)
            kind: Happening = "failed" if outcome == "limit" else "settled"
            yield _TimelineEntry(item, kind, _end(entry, outcome, fence, state, text), session, fence)

    # People

    def _repair(self, entry: TracedCall) -> Iterator[_TimelineEntry]:
        items = entry.inputs["items"]
        for item in items:
            if self._is_passed_over(item):
                continue
            if entry.script == "requeue":
                self._priorities.setdefault(item, None)
            elif entry.script != "forget":
                self._priorities.pop(item, None)
            changed = f"{entry.reply} of {counted(len(items), 'item')}"
            yield _TimelineEntry(item, "repaired", f"{_REPAIRS[entry.script]} by hand, {changed}")


def _name_of_session(entry: TracedCall) -> dict[int, str]:
    name = words_of(parse_fields(entry.inputs["worker"]).get("id"))
    return {number: name} if name and (number := _number(entry.reply)) else {}


def _position(position: str) -> str:
    """Return the position of a stream at its commit, in words."""
    checkpoint = checkpoint_of(position)
    if checkpoint in {"", MARK}:
        return "in a list"
    return f"at {position}" if position == checkpoint else f"after {checkpoint}"


def _end(entry: TracedCall, outcome: str, fence: int | None, state: bytes, text: bytes) -> str:
    """Return how a claim ended, after how long, with which error, and the item's next state."""
    words = _ENDS.get(outcome, outcome)
    if fence:
        words += f" after {_since(fence, entry)}"
    if error := shown(text.partition(b"\n")[0]):
        words += f": {error}"
    if state.isdigit():
        return f"{words}; back in {duration(int(state) / 1000 - entry.moment)}"
    return f"{words}; dead" if state == b"parked" else words


def _since(microseconds: int, entry: TracedCall) -> str:
    return duration(entry.moment - microseconds / 1e6)


def _failed_mappings(text: bytes) -> list[str]:
    """Return the items and their reasons; none of an older script, which did not have them."""
    try:
        words = json.loads(text)
    except ValueError:
        return []
    return list(map(str, words)) if isinstance(words, list) else []


def _number(session: bytes) -> int:
    number = session.partition(b"-")[0]
    return int(number) if number.isdigit() else 0
