"""Inspects and repairs queues; the command line and the dashboard are built on it."""

from distq.inspector.across import ItemsAcross, QueueItems
from distq.inspector.info import (
    AuditEntry,
    FlowInfo,
    Happening,
    ItemInfo,
    Listing,
    QueueFlows,
    QueueInfo,
    Repair,
    RepairStep,
    Sample,
    StreamInfo,
    Timestamp,
    TraceEvent,
    WorkerInfo,
)
from distq.inspector.inspector import Inspector
from distq.inspector.view import ErrorGroup, QueueNames, QueueView, Rows, View, Wanted
from distq.redisio.queue_reads import State

__all__ = [
    "AuditEntry",
    "ErrorGroup",
    "FlowInfo",
    "Happening",
    "Inspector",
    "ItemInfo",
    "ItemsAcross",
    "Listing",
    "QueueFlows",
    "QueueInfo",
    "QueueItems",
    "QueueNames",
    "QueueView",
    "Repair",
    "RepairStep",
    "Rows",
    "Sample",
    "State",
    "StreamInfo",
    "Timestamp",
    "TraceEvent",
    "View",
    "Wanted",
    "WorkerInfo",
]
