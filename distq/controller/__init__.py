"""Reconcilers over a shared queue, after controller-runtime: a Controller describes, a Manager runs.

This package describes and runs controllers; ``stream`` feeds their queues, ``worker`` works on them.

The path of an event: a StreamSource (only in the process that leads) turns it into keys in Redis, in one
commit with its place in the history; a Dispatcher (in every worker) claims keys and submits them to its
Executor; the next turn settles the results and errors of handlers.
"""

from distq.controller.controller import Controller
from distq.controller.manager import Manager

__all__ = ["Controller", "Manager"]
