"""Whether an informer may feed its queues, on which another program may work."""

from collections.abc import Sequence

from distq.clock import SYSTEM_CLOCK
from distq.redisio.queue_store import QueueStore
from distq.workqueue.admission import Admission
from distq.workqueue.queue import Queue


class Entrance:
    """Keeps an informer from queues on which another program works, for something else."""

    def __init__(self, queues: Sequence[Queue]) -> None:
        self._admissions = [
            (queue.purpose, Admission(QueueStore(queue.connection, queue.name), SYSTEM_CLOCK))
            for queue in queues
            if queue.purpose is not None
        ]

    def is_open(self) -> bool:
        """Look whether the queues may be fed; raise QueueTaken, RedisError."""
        return all(admission.look(purpose()) for purpose, admission in self._admissions)
