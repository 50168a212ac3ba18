"""The queue and its delays: WQ of client-go's queue.go, DQ of delaying_queue.go."""

from tests.proofs.conformance.promises import different, same

_SHUT_DOWN = "after `ShutDown` the workers empty the queue"
_ADD_AFTER_SHUT_DOWN = "`Add` and `AddAfter` after `ShutDown` are ignored"
_LEN = "`Len` counts what is queued"
_DRAIN_TROUBLE = "a drain may miss its end, leave a loop running, or be impossible to end"

ROWS = [
    same("WQ-01", "the methods are client-go's, spelled as Python does", on=()),
    same("WQ-02", "a queue is made with a name, a limiter, a clock and a provider of metrics", on=()),
    same("WQ-03", "an added item is pending, counted, and handed to one waiting get"),
    same("WQ-04", "an item that waits and is added again stays one item, at its place"),
    same("WQ-05", "an item that is added while held is dirty: counted, not handed out"),
    same("WQ-06", "further adds of a dirty item change nothing, except that a higher priority raises it"),
    different(
        "WQ-07", "a handle that was shut down still adds: all handles share the queue", _ADD_AFTER_SHUT_DOWN
    ),
    same("WQ-08", "get waits while there is nothing, and claims the next item"),
    different(
        "WQ-09", "get ends at once at the handle's shutdown; pending items are for the others", _SHUT_DOWN
    ),
    different(
        "WQ-10",
        "after ShutDown a handle gets no item any more; an item that was added again goes to others",
        "`Get` may report a shutdown, and return an item later",
    ),
    same("WQ-11", "the end of a claim makes a dirty item pending and wakes who waits for it"),
    same("WQ-12", "an item is held at most once; others wait for the end of the claim"),
    same("WQ-13", "no item is ready and held at once; what is ready, dirty, delayed or held adds up, always"),
    different("WQ-14", "depth counts ready, dirty and due items, not what is held or has time left", _LEN),
    different(
        "WQ-15",
        "first pending, first served; an item added while held has the place of that add",
        "an item added while it is processed queues up when `Done` is called",
    ),
    same("WQ-16", "a handle may be shut down again and again; nothing of it runs on"),
    same("WQ-17", "shut_down does not wait for what is held"),
    same("WQ-18", "shut_down_with_drain waits until all that the handle holds has ended"),
    same("WQ-19", "shut_down ends a running drain"),
    different(
        "WQ-20",
        "a drain may have a timeout, ends when the claims are taken away, and says what is left",
        "`ShutDownWithDrain` waits for ever for a worker that never calls `Done`",
    ),
    same("WQ-21", "shutting_down is true from the first shutdown on, of either kind"),
    same("WQ-22", "nothing of an item that is done and forgotten is kept, here: in no key of Redis"),
    different(
        "WQ-23",
        "the order is by priority, then by time; no other can be given",
        "the order can be replaced (the option `Queue`)",
        on=(),
    ),
    different(
        "WQ-D1",
        "a drain is about the claims of its handle, never about what is queued; nothing queued is lost",
        "`ShutDownWithDrain` returns while items are queued, if none is processed just then",
    ),
    different(
        "WQ-D2",
        "done of what is not held, or not any more, answers False and changes nothing",
        "`Done` of an item that is not processing may queue it twice",
    ),
    different("WQ-D3", "every drain that waits is woken by the last end", _DRAIN_TROUBLE),
    different("WQ-D4", "after either shutdown nothing of the handle runs on, delays or not", _DRAIN_TROUBLE),
    different("WQ-D5", "shutdown, drain, shutdown: the last one ends the drain", _DRAIN_TROUBLE),
    different(
        "DQ-01",
        "no delay is an add; one below zero is refused",
        "`AddAfter` with a negative delay is an add",
    ),
    same("DQ-02", "a delayed item is pending when its time has come, at that moment and not before"),
    same("DQ-03", "one entry an item; of several delays the earliest counts"),
    same("DQ-04", "items come in the order of their times, however late it is noticed"),
    same("DQ-05", "an item that was handed out does not come again by itself"),
    different(
        "DQ-06",
        "a plain add supersedes the delay, and what is pending takes none: one run, now; failures stay",
        "an item added while delayed, or delayed while queued, runs twice, now and then",
    ),
    different(
        "DQ-07",
        "delete cancels a delay, add hurries it, delete and add_after put it off",
        "a delay cannot be cancelled or postponed",
    ),
    different("DQ-08", "add_after and add_rate_limited work after a shutdown, too", _ADD_AFTER_SHUT_DOWN),
    different(
        "DQ-09",
        "a delay is kept when the call returns; there is no buffer to fill up",
        "`AddAfter` waits while its buffer of 1000 is full",
    ),
    different(
        "DQ-10", "delays outlive the handle and the process", "delays and back-off end with the process"
    ),
    same("DQ-11", "no get oversleeps for long: a lost wake-up costs a poll"),
    different(
        "DQ-12",
        "each delay is counted as a retry, by back-off, requeue_after or add_after; no delay is none",
        "the metric `retries` counts an `AddAfter` without a delay, too",
    ),
    same("DQ-13", "what has time left is not counted as waiting"),
]
