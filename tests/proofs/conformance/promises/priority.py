"""controller-runtime's priority queue: PQ."""

from tests.proofs.conformance.promises import different, same

_SHUT_DOWN = "after `ShutDown` the workers empty the queue"

ROWS = [
    same("PQ-01", "items are added now or later with a priority, several at once, and come with it"),
    same("PQ-02", "higher priority first, and in a level the first that was pending"),
    same("PQ-03", "one entry an item, with its highest priority and its earliest time; now is the earliest"),
    same("PQ-04", "raised, an item goes to the end of its new level; a lower or equal add keeps its place"),
    same("PQ-05", "an item that became due has the place of its due time"),
    different(
        "PQ-06",
        "a delayed item that is added has the place of that add",
        "a delayed item added again is ready at its old place (priority queue)",
    ),
    same("PQ-07", "what is held is passed over, and comes when it is free again"),
    different(
        "PQ-08",
        "depth counts a held item once it was added again, and no delayed one before its time",
        "`Len` counts what is queued",
    ),
    same("PQ-09", "an item that is added while held is pending the moment its claim ends"),
    different(
        "PQ-10",
        "a delay and a back-off are two calls, of which the earlier counts",
        "`AddWithOpts` takes delay and back-off together (priority queue)",
    ),
    same("PQ-11", "items that are added together back off each for itself"),
    same("PQ-12", "5 ms doubled up to 1000 s by default, without a bucket"),
    different(
        "PQ-13",
        "adds and depth count what is ready, by priority; a raise moves it, and begins its latency anew",
        "the latency of a raised item runs from its first add (priority queue)",
    ),
    different("PQ-14", "shutdown ends every get at once and leaves pending items to the others", _SHUT_DOWN),
    different(
        "PQ-15",
        "a handle may be shut down again and again, and drained",
        "a second `ShutDown` panics, and a drain waits for nothing (priority queue)",
    ),
    different(
        "PQ-16",
        "what a shutdown meets on its way is either handed out or left; all gets end",
        "an item in transit at the shutdown may be lost (priority queue)",
    ),
    same("PQ-17", "20 producers with 1000 items each and 100 consumers get along"),
    same("PQ-18", "a delayed item comes after its delay only"),
    same("PQ-19", "a waiting get has what is added, at once"),
    same(
        "PQ-20",
        "random adds and claims: the priority is the highest since the last claim, no item is with two",
    ),
    different(
        "PQ-21",
        "items are asked for, with state, priority and times",
        "all items are logged every 10 s at verbosity 5 (priority queue)",
    ),
    different(
        "PQ-22",
        "a held item is not among the ready ones, so it costs no get anything",
        "each hand-out scans all held items (priority queue)",
    ),
    same("PQ-23", "in a fair queue the namespaces of a priority take turns; a higher priority comes first"),
    different(
        "PQ-24",
        "items of one round come in the order of their keys, and no share outlasts the backlog",
        "a fair queue begins with the namespace that was added last, and remembers for ever whose turn it is "
        "(priority queue, pull request 3261)",
    ),
    different(
        "PQ-25",
        "a fair queue may limit how many items of one namespace are claimed at a time; the others go on",
        "a fair queue hands out what is next, and limits no namespace (priority queue, pull request 3261)",
    ),
]
