"""The queue without Redis: its specification in plain Python, and a handle to use it by.

``state`` and what it is made of say what each operation of the scripts means; random tests hold
Redis to it. ``MemoryQueue`` is that state in one process, for tests and for programs that need no
other process. It is made to be read: operations look at all items.
"""

from distq.workqueue.memory.queue import MemoryQueue

__all__ = ["MemoryQueue"]
