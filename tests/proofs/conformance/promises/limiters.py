"""Limiters and metrics: RL of client-go's default_rate_limiters.go, MX of metrics.go."""

from tests.proofs.conformance.promises import different, same

_DELAYS = "a limiter that never lets an item come back returns 292 years"

ROWS = [
    same("RL-01", "an item's back-off doubles with each failure, on its own, until it is forgotten"),
    same("RL-02", "it stays at its most after many failures"),
    same("RL-03", "fast a few times, then slow; each item on its own"),
    same("RL-04", "the slowest of several decides, and each is charged"),
    same("RL-05", "a delay may be bounded"),
    different(
        "RL-06",
        "a bucket is the queue's, not an item's; forget gives nothing back; failures are counted beside it",
        "`NumRequeues` of a bucket is 0",
    ),
    same("RL-07", "a bucket begins full"),
    same("RL-08", "its debt has no bound"),
    same("RL-09", "an infinite rate delays nothing, with any burst"),
    different("RL-10", "a burst of nothing at a finite rate is refused when the limiter is made", _DELAYS),
    same("RL-11", "a rate of nothing lets only the burst through"),
    different(
        "RL-12", "time that goes back fills nothing; at most the burst is saved; ten years at most", _DELAYS
    ),
    different(
        "RL-13",
        "client-go's default for controllers is there, and has to be asked for: 5 ms to 1000 s, 10 a second",
        "the default limiter has a bucket of 10 retries a second",
    ),
    same("RL-14", "the default of items is exponential with the same cap"),
    different(
        "RL-15",
        "success, the last done, delete and requeue drop the failure record: nothing is kept of what is gone",
        "failure counts stay until `Forget`",
    ),
    same("RL-16", "add_rate_limited counts and delays, forget begins anew, num_requeues returns the count"),
    same("MX-01", "after the shutdown of a handle nothing of it is measured any more"),
    same("MX-02", "adds, depth, latency, work and longest run as in client-go's test, to the µs"),
    same("MX-03", "depth in the metrics counts what was added while held"),
    different(
        "MX-04",
        "gauges are of the queue, in each process; counters and histograms of this process",
        "metrics are those of one process",
    ),
]
