"""A Redis with one queue that answers by the specification, in the scripts' words.

Random tests compare the specification with the scripts (``tests/workqueue/test_random.py``), so what is found
here is true of both; a call costs a tenth.
"""

import math
import pickle
from collections.abc import Callable, Sequence
from typing import Any

from distq.redisio import scripts
from distq.redisio.connection import Argument
from distq.workqueue.memory.entries import (
    Answer,
    Claim,
    Ending,
    FailureHistory,
    Now,
    Policy,
    Session,
    WentBack,
)
from distq.workqueue.memory.state import QueueState
from tests.proofs.simulate.asked import Asked, Call, Inputs, Look, Restored, Saved
from tests.support.commits import commit_of
from tests.support.wanted import wanted

_SCRIPTS = {(script := scripts.load(name)).sha: script for name in scripts.names()}


def unbound(sha: str, arguments: Sequence[Argument]) -> tuple[str, Inputs]:
    """Return a script's name and its inputs by name, as ``Script.bind`` was given them."""
    script = _SCRIPTS[sha]
    values = arguments[1 + len(script.keys) :]
    names = script.arguments
    if not script.last_is_list:
        return script.name, dict(zip(names, values, strict=True))
    single = len(names) - 1
    return script.name, {**dict(zip(names, values[:single], strict=False)), names[single]: values[single:]}


class ModelRedis:
    """The server; ``clock`` returns its time in µs. ``asked`` has all that ever happened to it."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.state = QueueState()
        self.clock = clock
        self.asked: list[Asked] = []

    def save(self) -> Saved:
        """Return all of it, to go back to later."""
        saved = Saved(f"save {len(self.asked)}", pickle.dumps(self.state))
        self.asked.append(saved)
        return saved

    def go_back(self, saved: Saved) -> None:
        """Be as it was then."""
        self.look()
        self.state = pickle.loads(saved.state)  # noqa: S301 - our own
        self.asked.append(Restored(saved.name))

    def wipe(self) -> None:
        """Forget all."""
        self.look()
        self.state = QueueState()
        self.asked.append(Restored("nothing"))

    def look(self) -> None:
        """Note the present state, for a later comparison."""
        self.asked.append(Look(pickle.dumps(self.state)))

    # Scripts

    def run(self, script: str, inputs: Inputs) -> Any:
        """Run a script."""
        call: Callable[[Inputs], Any] = getattr(self, f"_{script}")
        reply = call(inputs)
        self.asked.append(Call(script, inputs, self.clock(), reply))
        return reply

    def _open(self, inputs: Inputs) -> bytes:
        number = self.state.sessions.open(self.clock(), inputs["nonce"], inputs["worker"], **_times(inputs))
        return f"{number}-{inputs['nonce']}".encode()

    def _heartbeat(self, inputs: Inputs) -> Any:
        number, nonce = session_of(inputs)
        answer = self.state.heartbeat(self.clock(), number, nonce, inputs["worker"], **_times(inputs))
        return b"LOST" if answer is None else [answer[0], answer[1].encode()]

    def _close(self, inputs: Inputs) -> int:
        return self.state.sessions.close(*session_of(inputs), inputs["worker"])

    def _forgive(self, inputs: Inputs) -> int:
        items, fences = map(_text, inputs["held"][::2]), map(int, inputs["held"][1::2])
        claims = list(zip(items, fences, strict=True))
        return self.state.sessions.forgive(session_of(inputs)[0], self.clock(), claims)

    def _requeue(self, inputs: Inputs) -> int:
        return self.state.requeue(self.clock(), inputs["state"], [name.decode() for name in inputs["items"]])

    def _commit(self, inputs: Inputs) -> list[Any]:
        answer = self.state.commit(self.clock(), _text(inputs["stream"]), commit_of(inputs))
        return [word.encode() if isinstance(word, str) else word for word in answer]

    def _fair_by(self, inputs: Inputs) -> bytes:
        now, _ = self.state.items.share(inputs["fair_by"], replaces=False)
        return now.encode()

    def _turn(self, inputs: Inputs) -> Any:
        number, nonce = session_of(inputs)
        limit, revive_after = inputs["fleet_concurrency"], inputs["revive_after"]
        answer = self.state.turn(
            now=self.clock(),
            number=number,
            nonce=nonce,
            op=str(inputs["op"]),
            after=inputs["after"],
            endings=endings_of(inputs),
            want=wanted(inputs["want"], self.clock()),
            policy=Policy(
                inputs["limiter"],
                _number(inputs["max_retries"]),
                _number(limit),
                _number(revive_after),
                fleet_concurrency_per_flow=_number(inputs["fleet_concurrency_per_flow"]),
            ),
            max_clock_step=int(inputs["max_clock_step"]),
        )
        if answer is None:
            return b"LOST"
        if isinstance(answer, WentBack):
            return f"BACK {answer.last_turn}".encode()
        return _reply(answer)

    # Plain reads

    def read(self, command: str, key: str, *rest: Any) -> Any:
        """Answer one of the reads that streams and sessions make; the key's last part is the structure."""
        read: Callable[..., Any] = getattr(self, f"_{command.lower()}")
        return read(key.rpartition("}:")[2].partition(":")[0], *map(_text, rest))

    def _hget(self, structure: str, field: str) -> bytes | None:
        if structure == "meta":
            return b"1" if self.state.sessions.all and field == "layout" else None
        stream = self.state.streams.all.get(field)
        return " ".join(stream).encode() if stream is not None else None

    def _hmget(self, structure: str, *fields: str) -> list[bytes | None]:
        items = self.state.items
        if structure == "claims":
            held = [items.claims.get(field) for field in fields]
            return [claim and _claim(claim) for claim in held]
        lines = map(self.state.streams.known.get, fields)
        return [None if line is None else line.encode() for line in lines]

    def _hlen(self, structure: str) -> int:
        return len(self.state.streams.known)

    def _hscan(self, structure: str, *options: str) -> list[Any]:
        pairs = sorted(self.state.streams.known.items())
        return [b"0", [text.encode() for pair in pairs for text in pair]]

    def _zrangebyscore(self, structure: str, number: str, most: str) -> list[bytes]:
        return [item.encode() for item in self.state.items.held_by(int(number))]


def session_of(inputs: Inputs) -> tuple[int, str]:
    """Return a session's number and nonce."""
    number, _, nonce = inputs["session"].partition("-")
    return int(number), nonce


def endings_of(inputs: Inputs) -> list[Ending]:
    """Return what a turn settles."""
    words, n_ok = inputs["settlements"], int(inputs["n_ok"])
    endings = [Ending(_text(words[place]), int(words[place + 1])) for place in range(0, 2 * n_ok, 2)]
    for place in range(2 * n_ok, len(words), 6):
        item, fence, outcome, limiter, priority, text = words[place : place + 6]
        endings.append(
            Ending(_text(item), fence, outcome, limiter, None if priority == "" else priority, text)
        )
    return endings


def _reply(answer: Answer) -> list[Any]:
    popped = [text for item, stood in answer.claimed for text in (item.encode(), _order(stood))]
    records = [None if each is None else _record(each) for each in answer.failures]
    return [
        str(answer.fence).encode(),
        0,
        int(answer.alone),
        ",".join(map(str, answer.refused)).encode(),
        [text.encode() for text in answer.dispositions] or None,
        popped,
        records if any(records) else None,
        answer.promoted,
        answer.revived,
    ]


def _claim(claim: Claim) -> bytes:
    return b"%d %d %b" % (claim.session, claim.fence, _order(claim.stood))


def _order(stood: Now) -> bytes:
    return repr(math.ldexp(2**52 + stood.since, -stood.priority)).encode()


def _record(failure: FailureHistory) -> bytes:
    crashes = ",".join(map(str, failure.crashes))
    reason = f"{failure.reason}@{crashes}" if crashes else failure.reason
    words = failure.count, len(failure.crashes), failure.failed_at, reason, failure.text
    return " ".join(map(str, words)).encode()


def _times(inputs: Inputs) -> dict[str, int]:
    return {name: inputs[name] for name in ("claim_duration", "max_clock_step")}


def _number(text: str) -> int | None:
    return int(text) if text else None


def _text(word: Any) -> Any:
    return word.decode() if isinstance(word, bytes) else word


def is_live(session: Session | None) -> bool:
    """Return whether a session may hold claims."""
    return session is not None and not session.ended
