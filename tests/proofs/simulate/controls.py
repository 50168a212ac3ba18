"""Mistakes planted in the protocol: the simulator must find each within a bounded number of seeds."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

from distq.controller.event import EventType
from distq.controller.stream import relist
from distq.controller.stream.committer import NEVER, Committer, Known
from distq.controller.stream.relist import Replacement
from distq.controller.stream.routing import Replaced, Route, Router
from distq.controller.stream.stream_source import StreamSource
from distq.informer.wire import RawObject
from distq.redisio.commit import Commit
from distq.workqueue.claim_deadline import ClaimDeadline
from distq.workqueue.memory.entries import Ending, Item, Policy
from distq.workqueue.memory.items import Items
from distq.workqueue.memory.state import QueueState
from distq.workqueue.memory.streams import Streams
from distq.workqueue.turn_client import TurnClient
from tests.proofs.simulate import simulated_informer
from tests.proofs.simulate.model_cluster import Lease, ModelCluster


@dataclass(frozen=True)
class Control:
    """A mistake: ``owner.name`` does ``instead`` of what it does."""

    name: str
    owner: Any
    attribute: str
    instead: Callable[..., Any]

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Make the mistake."""
        with mock.patch.object(self.owner, self.attribute, self.instead):
            yield


_commit = Streams.commit
_turn = QueueState.turn
_end = QueueState._end
_enqueue = Items.enqueue
_committer_commit = Committer.commit
_begin_list = StreamSource.begin_list
_end_list = StreamSource.end_list
_route = Router.route


def _no_compare_and_set(streams: Streams, now: int, stream: str, commit: Commit) -> Any:
    stored = streams.all.get(stream)
    return _commit(streams, now, stream, replace(commit, after=stored.batch if stored else ""))


def _no_epoch(streams: Streams, now: int, stream: str, commit: Commit) -> Any:
    stored = streams.all.get(stream)
    return _commit(streams, now, stream, replace(commit, replaces=stored.epoch if stored else ""))


def _checkpoint_first(committer: Committer, change: Commit) -> None:
    _committer_commit(committer, Commit(new=change.new))
    _committer_commit(committer, change)


def _list_as_plain_set(relisted: Replacement, obj: RawObject, before: Known, _: Replaced) -> Route | None:
    return relisted._router.route_listed(obj, before)


def _checkpoint_with_first_page(source: StreamSource) -> None:
    _begin_list(source)
    source._committer.commit(Commit(new=source.list_watch.version()))


def _new_keys_only(
    router: Router,
    kind: EventType,
    obj: RawObject,
    before: Known,
    replaced: Replaced = None,
    *,
    in_list: bool = False,
) -> Route:
    return _route(router, kind, obj, before if in_list else NEVER, in_list=in_list)


def _transitions(cluster: ModelCluster, lease: Lease) -> str:
    return str(cluster.transitions)


def _zombies_settle(state: QueueState, **inputs: Any) -> Any:
    if state.sessions.live(inputs["number"], inputs["nonce"]) is None:
        for ending in inputs["endings"]:
            state.items.claims.pop(ending.item, None)
    return _turn(state, **inputs)


def _no_dirty(
    items: Items,
    now: int,
    names: Sequence[Item],
    priority: int,
    *,
    keep_pending: bool = False,
    link: str = "",
) -> int:
    free = [name for name in names if name not in items.claims]
    return _enqueue(items, now, free, priority, keep_pending=keep_pending, link=link)


def _no_replay(state: QueueState, **inputs: Any) -> Any:
    session = state.sessions.all.get(inputs["number"])
    if session is not None and session.op == inputs["op"]:
        inputs["after"], session.op = "", "-"
    return _turn(state, **inputs)


def _no_order_of_turns(state: QueueState, **inputs: Any) -> Any:
    return _turn(state, **inputs | {"after": ""})


def _forgets_to_put_back(items: Items, item: Item, stood: Any) -> None:
    del item, stood


def _counted(items: Items, now: int) -> int:
    items.stamp += 1
    return items.stamp


def _leak_failures(state: QueueState, now: int, number: int, ending: Ending, policy: Policy) -> bool:
    failure = state.items.failures.get(ending.item)
    ended = _end(state, now, number, ending, policy)
    if failure is not None:
        state.items.failures[ending.item] = failure
    return ended


CONTROLS = (
    Control("no compare-and-set", Streams, "commit", _no_compare_and_set),
    Control("no epoch", Streams, "commit", _no_epoch),
    Control("epoch by leaseTransitions", simulated_informer, "epoch_of", _transitions),
    Control("checkpoint before keys", Committer, "commit", _checkpoint_first),
    Control("list as plain set", Replacement, "_route", _list_as_plain_set),
    Control("checkpoint before the list", StreamSource, "begin_list", _checkpoint_with_first_page),
    Control("no tombstones", relist, "write_all_tombstones", lambda *_, **__: None),
    Control("no probe", StreamSource, "_probe", lambda _: None),
    Control("410 is resumed", StreamSource, "expired", lambda source: None),
    Control("settle without fence", QueueState, "turn", _zombies_settle),
    Control("no dirty", Items, "enqueue", _no_dirty),
    Control("no replay of turns", QueueState, "turn", _no_replay),
    Control("no order of turns", QueueState, "turn", _no_order_of_turns),
    Control("lapsed items vanish", Items, "put_back", _forgets_to_put_back),
    Control("heartbeat by count", TurnClient, "knows", lambda client, turn: True),
    Control("late fence", ClaimDeadline, "extend", lambda deadline, sent_at: None),
    Control("new owner only", Router, "route", _new_keys_only),
    Control("fences by a counter", Items, "next_stamp", _counted),
    Control("leaked failures", QueueState, "_end", _leak_failures),
)
