"""What a worker waits for that has nothing to do: a line for who looks whether it works at all."""

from distq.redisio.queue_store import QueueStore
from distq.redisio.stream_store import stream_records
from distq.wording import duration
from distq.workqueue.queue import Queue


def waits_for(queue: Queue, *, watched: bool) -> str:
    """Return why there is nothing to claim, as far as Redis shows; ``watched``: informers feed the queue.

    Raises RedisError.
    """
    connection = queue.connection
    paused, catching_up = QueueStore(connection, queue.name).read(
        ("HGET", "meta", "paused"), ("HGET", "meta", "catching_up")
    )
    if paused:
        return f"the queue is paused, until: distq resume {queue.name}"
    if catching_up:
        return "a leader's watches catch up with the cluster first"
    records, now = stream_records(connection, queue.name).values(), connection.now()
    if not records:
        return "nothing to do; no informer has led yet" if watched else "nothing to do"
    gone = [since for record in records if (since := record.gone_since(now)) is not None]
    if len(gone) == len(records):
        return f"nothing to do; no leader for {duration(now - max(gone))}"
    unsynced = [record.about.get("resource") for record in records if record.about.get("synced") is False]
    if unsynced:  # a predicate that fails, say: the stream waits until it works
        return f"nothing to do; {unsynced[0]!s:.80} is not synced yet: its informer's log says why"
    fed = [moment for record in records if (moment := record.moment("fed"))]
    return f"nothing to do; last event {duration(now - max(fed))} ago" if fed else "nothing to do"
