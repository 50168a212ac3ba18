"""The emulated and the real server side by side: the same requests, and answers that should be alike."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from distq.client import Client
from distq.errors import ApiError
from tests.support.eventually import eventually

Answer = dict[str, Any]

_VOLATILE = {"creationTimestamp", "deletionTimestamp", "managedFields", "resourceVersion", "selfLink"}
"""Metadata that no two servers share."""
_TIMES = {"lastPhaseTransitionTime", "lastTransitionTime"}
_QUOTED_OBJECT = re.compile(r'(Invalid value: )"\{.*\}"(: )', re.DOTALL)
"""What a refused patch would have left: the real server's has managed fields."""


class Twins:
    """Asks both servers the same."""

    def __init__(self, real: Client, emulated: Client) -> None:
        self._servers = real, emulated

    def ask(self, method: str, path: str, body: Any = None, /, **query: str) -> tuple[Answer, Answer]:
        """Return what the real and the emulated server answer, without what no two servers share."""
        real, emulated = (_comparable(_answer(each, method, path, body, query)) for each in self._servers)
        if "message" not in real or "message" not in emulated:  # one of them has several causes
            real.pop("message", None), emulated.pop("message", None)
        return real, emulated

    def agree(self, method: str, path: str, body: Any = None, /, **query: str) -> Answer:
        """Return what both answer, after checking that it is the same."""
        real, emulated = self.ask(method, path, body, **query)
        found = list(differences(real, emulated))
        assert not found, f"{method} {path} {query} {msgspec.json.encode(body)!r}: " + "; ".join(found)
        return real

    def concur(
        self, method: str, path: str, body: Any = None, /, *, if_taken: bool = False, **query: str
    ) -> bool:
        """Return whether both take a request, after checking that they keep the same, or refuse alike.

        Codes are compared, not the reasons: one of the servers may find more of them, and some types have
        names in Go that no schema has. With ``if_taken`` only what the real one takes is compared.
        """
        real, emulated = self.ask(method, path, body, **query)
        codes = [each.get("code") if each.get("kind") == "Status" else None for each in (real, emulated)]
        if if_taken and codes[0] is not None:
            return False
        said = f"codes {codes}: {[each.get('message', each.get('details')) for each in (real, emulated)]}"
        found = [said] if codes[0] != codes[1] else []
        if codes == [None, None]:
            found = list(differences(_unassigned(real), _unassigned(emulated)))
        assert not found, f"{method} {path} {query} {msgspec.json.encode(body)!r}: " + "; ".join(found)
        return codes[0] is None

    def eventually_refuses(self, method: str, path: str, body: Any = None, /, **query: str) -> None:
        """Wait until both servers refuse a request, as after a change of a schema."""
        eventually(
            lambda: all("code" in answer for answer in self.ask(method, path, body, **query)),
            f"{method} {path} is refused",
        )


def differences(real: Any, emulated: Any, path: str = "") -> Iterator[str]:
    """Yield the places in which two answers differ, and what they have there."""
    if isinstance(real, dict) and isinstance(emulated, dict):
        for name in sorted({*real, *emulated}):
            yield from differences(real.get(name), emulated.get(name), f"{path}.{name}")
    elif isinstance(real, list) and isinstance(emulated, list) and len(real) == len(emulated):
        for index, (ours, theirs) in enumerate(zip(real, emulated, strict=True)):
            yield from differences(ours, theirs, f"{path}[{index}]")
    elif real != emulated:
        yield f"{path} is {real!r} on the real server, {emulated!r} on the emulated one"


def _answer(client: Client, method: str, path: str, body: Any, query: Mapping[str, str]) -> Answer:
    parameters = dict(query)
    headers = {name: parameters.pop(name) for name in ("content_type", "accept") if name in parameters}
    try:
        raw = client.request(method, path, query=parameters, body=body, **headers)  # type: ignore[arg-type]  # headers are texts
    except ApiError as error:
        return dict(error.answer)
    answer: Answer = msgspec.json.decode(raw)
    return answer


def _comparable(answer: Answer) -> Answer:
    metadata = answer.get("metadata") or {}
    uid = (metadata.get("uid") or (answer.get("details") or {}).get("uid") or "no uid").encode()
    answer = _without_nulls(msgspec.json.decode(msgspec.json.encode(answer).replace(uid, b"UID")))
    metadata = answer.get("metadata") or {}
    for name in _VOLATILE & metadata.keys():
        del metadata[name]
    if answer.get("kind") == "Status":
        _sort_causes(answer)
    return answer


def _unassigned(answer: Answer) -> Answer:
    """Return a Service without the address that each server gave it."""
    spec = answer.get("spec", {})
    if answer.get("kind") != "Service" or not str(spec.get("clusterIP", "")).startswith("10."):
        return answer
    return {**answer, "spec": {**spec, "clusterIP": "given", "clusterIPs": ["given"]}}


def _sort_causes(answer: Answer) -> None:
    """Order causes and errors, which the real server does not; leave out a message of many causes."""
    causes = (answer.get("details") or {}).get("causes") or []
    for each in [answer, *causes]:
        each["message"] = _QUOTED_OBJECT.sub(r"\1...\2", each.get("message", ""))
    head, several, listed = answer["message"].partition("errors:\n")
    if several:
        answer["message"] = head + several + "\n".join(sorted(listed.split("\n")))
    if len(causes) > 1:  # the real one repeats some
        by_text = {(each.get("field", ""), each["message"]): each for each in causes}
        answer["details"]["causes"] = [by_text[key] for key in sorted(by_text)]
        del answer["message"]


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _without_nulls(each)
            for name, each in value.items()
            if each is not None and name not in _TIMES
        }
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value
