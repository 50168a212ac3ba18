"""Chooses the flows of a queue that are worth a look: those with most items, and those that wait longest."""

from distq.inspector.info import FlowInfo, QueueFlows, Timestamp
from distq.inspector.past import quantile
from distq.redisio import flow_reads
from distq.redisio.flow_reads import Flow, FlowLook
from distq.redisio.limits import FLOWS_SHOWN
from distq.redisio.queue_store import QueueStore
from distq.redisio.round_trips import Read


def flows_of(store: QueueStore) -> Read[QueueFlows]:
    """Look at the flows of a queue, in two round trips at most."""
    found = yield from flow_reads.look(store)
    is_sample = found.looked_at < found.ready
    chosen = _chosen(found)
    flows = [_info(store.name, name, found.flows[name], is_sample=is_sample) for name in chosen]
    return QueueFlows(store.name, flows, len(found.flows) - len(flows), found.ready, found.looked_at)


def _chosen(found: FlowLook) -> list[str | None]:
    """Return a half of the flows by their items, the others by their waits; most items first."""
    by_items = sorted(found.flows, key=lambda name: _by_items(found.flows[name]))
    by_wait = sorted(found.flows, key=lambda name: _by_wait(found.flows[name]))
    # the halves may have flows in common: more by their items take these places
    first = [*by_items[: FLOWS_SHOWN // 2], *by_wait[: FLOWS_SHOWN // 2], *by_items]
    chosen = set(list(dict.fromkeys(first))[:FLOWS_SHOWN])
    return [name for name in by_items if name in chosen]


def _by_items(flow: Flow) -> tuple[int, int, int]:
    return -flow.ready, -flow.processing, -flow.waiting.total()


def _by_wait(flow: Flow) -> tuple[bool, int, float]:
    # flows of which no item waits come last
    return flow.since_us is None, flow.since_us or 0, -(flow.waiting.quantile(0.99) or 0.0)


def _info(queue: str, name: str | None, flow: Flow, *, is_sample: bool) -> FlowInfo:
    return FlowInfo(
        queue=queue,
        flow=name,
        ready=flow.ready,
        processing=flow.processing,
        oldest_ready=None if flow.since_us is None else Timestamp(flow.since_us / 1e6),
        claimed=flow.waiting.total(),
        waiting_p50=quantile(flow.waiting, 0.5),
        waiting_p99=quantile(flow.waiting, 0.99),
        sample=is_sample,
        held_back=flow.held_back,
    )
