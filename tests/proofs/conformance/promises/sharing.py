"""What becomes of the originals' assumptions when many processes share the queue: RD."""

from tests.proofs.conformance.promises import different

_CLAIMS = "what a worker holds is held until the process ends"
_LEN = "`Len` counts what is queued"
_SHUT_DOWN = "after `ShutDown` the workers empty the queue"

ROWS = [
    different("RD-01", "the items of a worker that died come back when its session has lapsed", _CLAIMS),
    different(
        "RD-02", "a worker that was taken for dead is cancelled, and what it settles is refused", _CLAIMS
    ),
    different(
        "RD-03",
        "a late or a second end of a claim changes nothing",
        "a `Done` that comes late ends another worker's hold of the item",
    ),
    different(
        "RD-04",
        "outcome, back-off and end of the claim are one step, so no crash falls between",
        "`AddRateLimited`, then `Done`: two calls",
    ),
    different(
        "RD-05",
        "shutdown is the handle's; pause and resume are the queue's, for all handles",
        "`Add` and `AddAfter` after `ShutDown` are ignored",
    ),
    different(
        "RD-06", "a handle that shuts down ends its gets at once, for others take the rest", _SHUT_DOWN
    ),
    different("RD-07", "delays follow the server's clock alone", "delays follow the clock of the process"),
    different(
        "RD-08",
        "due items are promoted by the next claim; no process has to run for it",
        "delays follow the clock of the process",
    ),
    different(
        "RD-09",
        "one of all waiting gets, in any process, is woken for an add; a lost wake-up costs a poll",
        "the leader does all the work",
    ),
    different(
        "RD-10",
        "back-off outlives deploys; forget, requeue and delete begin anew",
        "delays and back-off end with the process",
    ),
    different(
        "RD-11",
        "items of one priority that are due in the same ms come in the order of their keys",
        "items that fall due at once come in the order of their adds (priority queue)",
    ),
    different("RD-12", "a bucket is the fleet's", "a bucket belongs to a process"),
    different(
        "RD-13",
        "times are whole µs, delays whole ms, exact in the server's numbers; not ns",
        "delays follow the clock of the process",
    ),
    different(
        "RD-14",
        "what a Redis lost is noticed, and what informers add is replayed",
        "a new leader lists everything and reconciles it",
    ),
    different(
        "RD-15",
        "each operation is one script over keys of one slot, and leaves a sound queue",
        "a mutex protects the queue",
    ),
    different("RD-16", "depth is ready, dirty and due; the other states are counted beside it", _LEN),
    different(
        "RD-17",
        "an item's latency begins with its first add that was not served, from any process",
        "metrics are those of one process",
    ),
    different("RD-18", "what a deposed leader adds is refused", "the leader does all the work"),
    different(
        "RD-19",
        "after a terminal error the item is dead with its record, until it is requeued, deleted or succeeds",
        "a TerminalError is logged and forgotten",
    ),
    different(
        "RD-20", "only who lists waits for a list; workers begin at once", "the leader does all the work"
    ),
]
