"""The queue without Redis: its specification in plain Python, and a handle that uses it.

``state`` and its parts specify each operation of the scripts; random tests compare Redis with them.
``MemoryQueue`` is that state in one process, for tests and for programs of one process. The code is written
to be read, not to be fast: its operations go through all items.
"""

from distq.workqueue.memory.queue import MemoryQueue

__all__ = ["MemoryQueue"]
