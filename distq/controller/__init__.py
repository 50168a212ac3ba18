"""Reconcilers over a shared queue, after controller-runtime: a Controller describes, a Manager runs.

Here is what describes and runs controllers; ``stream`` feeds their queues, ``worker`` works on them.

The path of an event: a StreamSource (only in the process that leads) turns it into keys in Redis, in one
commit with its place in the history; a Dispatcher (in every worker) claims keys and submits them to its
Executor; what handlers return or raise is settled in the next turn.
"""

from distq.controller.controller import Controller
from distq.controller.manager import Manager

__all__ = ["Controller", "Manager"]
