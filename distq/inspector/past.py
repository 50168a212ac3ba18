"""Reads a queue's history into the Inspector's samples."""

from distq.errors import ConfigError
from distq.inspector.info import Sample, Timestamp
from distq.redisio import history
from distq.redisio.durations import Durations
from distq.redisio.history import StoredSample
from distq.redisio.queue_store import QueueStore
from distq.redisio.round_trips import Read

_NUMBERS = ("ready", "delayed", "processing", "dirty", "dead", "failing", "workers", "done", "failed")


def samples(store: QueueStore, since: float, until: float, every: float) -> Read[list[Sample]]:
    """Return samples of the queue's past. Raises ConfigError for bad moments and steps."""
    if not 0 <= since <= until < 2**33 or not 0 < every < 2**33:
        raise ConfigError(
            f"bad history from {since} to {until}, every {every} s. Use seconds since the epoch, and a step "
            "above 0."
        )
    found = yield from history.samples(store, since, until, every=every)
    return [
        _sample(store.name, sample, before) for before, sample in zip([None, *found], found, strict=False)
    ]


def _sample(queue: str, sample: StoredSample, before: StoredSample | None) -> Sample:
    done, failed = _rates(before, sample)
    return Sample(
        queue=queue,
        at=Timestamp(sample.at),
        **{name: getattr(sample, name) for name in _NUMBERS},
        waited=None if sample.waited_ms is None else sample.waited_ms / 1000,
        paused=sample.paused > 0,
        done_per_second=done,
        failed_per_second=failed,
        waiting_p50=quantile(sample.waiting, 0.5),
        waiting_p99=quantile(sample.waiting, 0.99),
        working_p50=quantile(sample.working, 0.5),
        working_p99=quantile(sample.working, 0.99),
    )


def quantile(durations: Durations, share: float) -> float | None:
    """Return the duration that this share did not exceed, in seconds to four places."""
    seconds = durations.quantile(share)
    return None if seconds is None else round(seconds, 4)


def _rates(before: StoredSample | None, sample: StoredSample) -> tuple[float | None, float | None]:
    """Return successes and failures a second; None where the totals began anew, or after a gap."""
    if before is None or sample.after_gap or sample.done < before.done or sample.failed < before.failed:
        return None, None
    seconds = sample.at - before.at
    done, failed = sample.done - before.done, sample.failed - before.failed
    return round(done / seconds, 3), round(failed / seconds, 3)
