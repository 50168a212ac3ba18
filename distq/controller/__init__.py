"""Reconcilers over a shared queue, after controller-runtime: Controller says what, Manager runs it.

The path of an event: Stream (only in the process that leads) turns it into keys in Redis, in one commit
with its place in the history; Dispatcher (in every worker) claims keys and hands them to handlers in
Slots; what they return or raise is settled in the next turn.
"""

from distq.controller.controller import Controller
from distq.controller.manager import Manager

__all__ = ["Controller", "Manager"]
