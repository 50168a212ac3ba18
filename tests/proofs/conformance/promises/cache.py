"""Informers: DF, IX, SI and the rest of client-go's tools/cache, but the Reflector."""

from tests.proofs.conformance.promises import different, not_applicable, same

ROWS = [
    same(
        "DF-01",
        "a delta says that an object was added, updated, deleted, listed, or handed over again",
        on=(),
    ),
    same("DF-02", "DeltaFIFO hands over all deltas of an object at once, RealFIFO each when it came", on=()),
    same("DF-03", "DeltaFIFO makes one of two deletions and keeps the state that was seen", on=()),
    same("DF-04", "DeltaFIFO ignores the deletion of what nobody knows; RealFIFO tells it", on=()),
    same("DF-05", "a list deletes what is known or queued and not in it, with its newest state", on=()),
    same("DF-06", "what is queued as deleted is not deleted again by a list", on=()),
    same("DF-07", "a resync hands over what is known and has no deltas waiting", on=()),
    same("DF-08", "synced means that all of the first list was processed, its deletions included", on=()),
    same("DF-09", "pop waits, hands over under the queue's lock, and ends when the queue is closed", on=()),
    same("DF-10", "a transform is applied once to what comes in, not to what is handed over again", on=()),
    not_applicable(
        "DF-11", "the key of deltas, of a missed deletion, of an object", "objects carry their key"
    ),
    not_applicable(
        "DF-12",
        "batches of up to 1000 deltas of different objects",
        "one lock is taken for each, and is cheap",
    ),
    same("DF-13", "bookmarks are not queued", on=()),
    not_applicable(
        "DF-14", "metrics of named informers", "they are alpha there; `pending` tells a handler's"
    ),
    same("DF-15", "an object added and deleted before anybody looked is told as both", on=()),
    same(
        "IX-01",
        "a store adds, updates, deletes, lists, gets, replaces; an object without a key is refused",
        on=(),
    ),
    same(
        "IX-02", "an index finds an object by each of its values, and forgets values without objects", on=()
    ),
    same("IX-03", "objects and keys by index; an unknown index is an error", on=()),
    same("IX-04", "an index may be added over what is kept; its name must be new", on=()),
    different(
        "IX-05",
        "an index function that fails changes nothing, and the informer goes on, and syncs",
        "an index function that fails panics",
        on=(),
    ),
    same("IX-06", "a replace builds all indices anew", on=()),
    same("IX-07", "the version of what was applied last is told", on=()),
    not_applicable("IX-08", "a transaction of several changes", "DF-12 is what needs it"),
    different(
        "IX-09",
        "each look decodes anew: who changes an object changes its own",
        "cached objects are shared",
        on=(),
    ),
    same("IX-10", "lists have no order", on=()),
    same("SI-01", "a handler may be registered several times", on=()),
    same("SI-02", "a late handler hears first of everything that is there", on=()),
    same("SI-03", "an informer and each handler tell when they have synced", on=()),
    different(
        "SI-04",
        "each handler has its resync period, of a second at least, whenever it comes",
        "a late handler's resync period is raised to the informer's",
        on=(),
    ),
    different(
        "SI-05",
        "what a list shows unchanged is told to no handler, at a resync to those whose time has come",
        "until its first resync a handler is notified of unchanged objects after each list",
        on=(),
    ),
    same("SI-06", "a handler may be removed at any time, and twice", on=()),
    same("SI-07", "a removal may wait until the handler has returned", on=()),
    same("SI-08", "an informer that has ended takes no handlers", on=()),
    different(
        "SI-09",
        "an informer is made with an error handler and a transform; where that fails it goes on, and syncs",
        "a transform that fails in a list fails the list: the informer never syncs",
        on=(),
    ),
    same("SI-10", "an informer runs once, and leaves no thread behind", on=()),
    different(
        "SI-11",
        "10,000 notifications wait for a handler at most; then the informer waits, and says so",
        "a slow handler's notifications fill memory",
        on=(),
    ),
    different(
        "SI-12",
        "a handler that fails hears of the next at once, and of the first list has heard",
        "a handler that fails pauses a second, and never has synced if it failed in the first list",
        on=(),
    ),
    same("SI-13", "with a filter an object is added when it begins to pass, deleted when it ceases", on=()),
    not_applicable("SI-14", "informers, handlers and indices with types", "objects are dicts"),
    same("SI-15", "handlers come and go while the resource changes", on=()),
    same("SI-16", "no handler can change what is cached", on=()),
    not_applicable("SI-17", "a name for each handler", "its thread has the informer's"),
    same("KF-01", "the key is namespace/name, or the name alone", on=()),
    same("KF-02", "the key of a missed deletion is the object's", on=()),
    same("KF-03", "a key is split into namespace and name; other text is refused", on=()),
    same("LI-01", "a lister lists by namespace and labels, with or without the index", on=()),
    same("EX-01", "an object expires when it is older than the ttl, and is dropped when looked at", on=()),
    same("MU-01", "the newer of the cache and of one's own write is read", on=()),
    not_applicable("SY-01", "a value computed once for all who wait", "functools and threading have it"),
    not_applicable("LW-01", "a wrapper says that it cannot stream lists", "what cannot is asked in pages"),
]
