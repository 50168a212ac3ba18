"""How what a queue's history holds becomes the Inspector's samples."""

from distq.errors import ConfigError
from distq.inspector.info import Sample, Timestamp
from distq.redisio import history
from distq.redisio.durations import Durations
from distq.redisio.history import StoredSample
from distq.redisio.queue_store import QueueStore
from distq.redisio.round_trips import Read


def samples(store: QueueStore, since: float, until: float, every: float) -> Read[list[Sample]]:
    """Describe the queue's past; raise ConfigError for moments and steps that are none."""
    if not 0 <= since <= until < 2**33 or not 0 < every < 2**33:
        raise ConfigError(
            f"bad history from {since} to {until}, every {every} s. Use seconds since the epoch, and a step "
            "of more than none."
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
        ready=sample.ready,
        delayed=sample.delayed,
        processing=sample.processing,
        dirty=sample.dirty,
        dead=sample.dead,
        failing=sample.failing,
        workers=sample.workers,
        waited=None if sample.waited_ms is None else sample.waited_ms / 1000,
        paused=sample.paused > 0,
        done=sample.done,
        failed=sample.failed,
        done_per_second=done,
        failed_per_second=failed,
        waiting_p50=_quantile(sample.waiting, 0.5),
        waiting_p99=_quantile(sample.waiting, 0.99),
        working_p50=_quantile(sample.working, 0.5),
        working_p99=_quantile(sample.working, 0.99),
    )


def _quantile(durations: Durations, share: float) -> float | None:
    seconds = durations.quantile(share)
    return None if seconds is None else round(seconds, 4)


def _rates(before: StoredSample | None, sample: StoredSample) -> tuple[float | None, float | None]:
    """Return what was done and what failed a second; nothing where the totals began anew, or after a gap."""
    if before is None or sample.after_gap or sample.done < before.done or sample.failed < before.failed:
        return None, None
    seconds = sample.at - before.at
    return round((sample.done - before.done) / seconds, 3), round(
        (sample.failed - before.failed) / seconds, 3
    )
