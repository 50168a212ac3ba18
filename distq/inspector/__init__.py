"""See and repair queues: what the command line and the dashboard are made of."""

from distq.inspector.info import ItemInfo, Listing, QueueInfo, State, StreamInfo, Timestamp, WorkerInfo
from distq.inspector.inspector import Inspector

__all__ = ["Inspector", "ItemInfo", "Listing", "QueueInfo", "State", "StreamInfo", "Timestamp", "WorkerInfo"]
