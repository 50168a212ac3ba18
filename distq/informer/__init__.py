"""Lists and watches resources and hands what happens to them, in order, to a sink."""

from distq.informer.listwatch import ListWatch
from distq.informer.reflector import PositionMoved, Reflector, Sink

__all__ = ["ListWatch", "PositionMoved", "Reflector", "Sink"]
