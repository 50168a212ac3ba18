"""The flows of queues: which namespaces have most items waiting, and which wait longest."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from distq.cli.durations import since
from distq.cli.output import note, print_json, print_table
from distq.wording import brief, counted

if TYPE_CHECKING:
    from distq.inspector import FlowInfo, Inspector

_HEADERS = [
    "QUEUE",
    "FLOW",
    "READY",
    "HELD-BACK",
    "PROCESSING",
    "OLDEST",
    "CLAIMED",
    "WAITED-P50",
    "WAITED-P99",
]


def print_flows(inspector: "Inspector", queues: Sequence[str], *, as_json: bool) -> None:
    """Print the flows of queues, as a table with notes of what it leaves out, or as a JSON object each."""
    looks = [inspector.flows(queue) for queue in queues]
    if as_json:
        for look in looks:
            for flow in look.flows:
                print_json(flow)
        return
    now = inspector.now()
    rows = [_row(flow, now) for look in looks for flow in look.flows]
    if rows:
        print_table(_HEADERS, rows)
    else:
        note("no item waits, and none was claimed in the last minutes")
    for look in looks:
        if look.is_sample:
            note(f"{look.queue}: estimated from {look.looked_at} of {look.ready} ready items")
        if look.left_out:
            note(f"{look.queue}: {counted(look.left_out, 'flow')} more")


def _row(flow: "FlowInfo", now: float) -> list[str]:
    return [
        flow.queue,
        "-" if flow.flow is None else flow.flow,
        f"{'~' if flow.sample and flow.ready else ''}{flow.ready}",
        f"{'~' if flow.sample and flow.held_back else ''}{flow.held_back}",
        str(flow.processing),
        since(flow.oldest_ready, now),
        str(flow.claimed),
        *("-" if seconds is None else brief(seconds) for seconds in (flow.waiting_p50, flow.waiting_p99)),
    ]
