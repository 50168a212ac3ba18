"""The columns of the pages' tables, each with its help.

The help of a column is the title of its head, and is listed below the table: so it is read with a mouse, by
keyboard, on a touch screen and by a screen reader, without a script.
"""

from collections.abc import Sequence
from typing import NamedTuple


class PageColumn(NamedTuple):
    """A column: its head, its help in one sentence or two, and whether it has numbers."""

    name: str
    help: str
    is_number: bool = False


def _number(name: str, help_text: str) -> PageColumn:
    return PageColumn(name, help_text, is_number=True)


queue = PageColumn("Queue", "The queue, and its trace or pause if it has one.")
failing = _number("Failing", "Items that have failed since their last success, dead ones included.")
oldest = _number("Oldest", "How long the oldest item that is due has waited.")
done_rate = _number("Done/s", "Reconciles a second that succeeded lately, as workers report them.")
failed_rate = _number("Failed/s", "Reconciles a second that failed lately, as workers report them.")
workers = _number("Workers", "Open handles of worker processes.")
leader = PageColumn("Leader", "The process that watches the API server and adds items.")

key = PageColumn("Key", "The name of the item, mostly namespace/name of an object.")
state = PageColumn("State", "Where the item is now: ready, delayed, processing or dead.")
priority = _number("Priority", "Workers claim items of a higher priority first.")
failures = _number("Failures", "Failures since the last success.")
since = _number("Since", "How long the item has been in this state.")
last_failure = _number("Last failure", "How long ago the item failed last.")
due = _number("Due", "When the item becomes ready.")
next_retry = _number("Next retry", "When the item is tried again.")
revived = _number("Revived", "When a dead item becomes ready by itself.")
worker = PageColumn("Worker", "The worker that holds the item.")
last_error = PageColumn("Last error", "The first line of the last error.")
reason_and_error = PageColumn(
    "Reason and error", "Why the item is dead, and the first line of its last error."
)

_rates = (failing, oldest, done_rate, failed_rate, workers)

figures: Sequence[PageColumn] = (
    _number("Depth", "Items that wait now: ready, dirty, and delayed ones that are due."),
    *_rates,
    leader,
)
queues: Sequence[PageColumn] = (
    queue,
    PageColumn("Last hour", "How many items were ready, over the last hour."),
    _number("Ready", "Items that wait for a worker."),
    _number("Delayed", "Items that wait for their time, as for a retry."),
    _number("Processing", "Items that workers hold now."),
    _number("Dirty", "Processing items that were added again: they run once more."),
    _number("Dead", "Items that are not tried again until an event or a person revives them."),
    *_rates,
)
flows: Sequence[PageColumn] = (
    PageColumn("Flow", "What the keys have before their first slash: a namespace, mostly."),
    _number("Ready", "Items of the flow that wait for a worker."),
    _number("Held back", "Of these, items that wait for the end of a claim: the flow is at its limit."),
    _number("Oldest", "How long the oldest of them has waited."),
    _number("Processing", "Items of the flow that workers hold now."),
    _number("Claimed", "Items of the flow that workers claimed in the last five minutes."),
    _number("Waited p50", "How long half of these had waited at most."),
    _number("Waited p99", "How long 99 in a hundred of these had waited at most."),
)
errors: Sequence[PageColumn] = (
    _number("Items", "Failing items that have this error."),
    PageColumn("Error", "The first line of the error."),
    _number("Newest", "How long ago the last of these failures was."),
    PageColumn("One of them", "An item that has this error."),
)
across: Sequence[PageColumn] = (key, queue, state, failures, last_failure, next_retry, reason_and_error)
found: Sequence[PageColumn] = (queue, state, priority, failures, since, due, worker, reason_and_error)
handles: Sequence[PageColumn] = (
    PageColumn("Worker", "The name of the handle, and the resource that its Controller reconciles."),
    queue,
    PageColumn("Host", "The machine or Pod of the process."),
    _number("PID", "The number of the process on its host."),
    PageColumn("Version", "The version of distq that the process has."),
    _number("Up", "How long ago the handle was opened."),
    _number("Heartbeat", "How long ago the handle last reported. It is late after 15 seconds."),
    _number("Done", "Reconciles that succeeded since the handle was opened."),
    _number("Failed", "Reconciles that failed since the handle was opened."),
    done_rate,
    PageColumn("Runs now", "Items that the worker holds, and for how long."),
)
audit: Sequence[PageColumn] = (
    PageColumn("When", "When the action began, by the clock of Redis."),
    PageColumn(
        "Person",
        "The user of the dashboard, anonymous without a login; or of the command's machine.",
    ),
    PageColumn("From", "The address of the browser, or the machine of the command."),
    PageColumn("By", "A dashboard, or the command line."),
    PageColumn("Queue", "The queue of the action."),
    PageColumn("Action", "What the person asked for."),
    PageColumn("Outcome", "The result. It is missing if the process ended meanwhile."),
)
streams: Sequence[PageColumn] = (
    PageColumn("Resource", "The resource that is watched, and its namespace if it is one only."),
    PageColumn("Queue", "The queue to which its events add items."),
    PageColumn("State", "Listing until the first list is complete, then synced; gone without a leader."),
    leader,
    _number("Since", "How long this leader has led."),
    _number("Epoch", "The number of the leader's term: each new leader has a higher one."),
    _number("Position", "The version of the resource up to which all events are in Redis."),
    _number("Lag", "The age of the oldest event that is not in Redis yet."),
    _number("Lists", "Full lists that this leader made."),
    PageColumn("Last error", "The last error of this leader, and whether it still fails."),
)
