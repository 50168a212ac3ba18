"""Leader election and its locks: LE of client-go's tools/leaderelection, LK of its resourcelock."""

from tests.proofs.conformance.promises import API_SERVERS, different, not_applicable, same

ROWS = [
    same("LE-01", "times that contradict, missing callbacks and locks are refused, in this order", on=()),
    same("LE-02", "15, 10 and 2 seconds, and a jitter of 1.2", on=()),
    different(
        "LE-03",
        "a term runs on_started_leading in a thread and ends with on_stopped_leading; no term, no call",
        "`OnStoppedLeading` is also called if the process never led",
        on=API_SERVERS,
    ),
    different(
        "LE-04",
        "a follower looks after 1 to 2.2 retry periods, and at once when the lease ends or is released",
        "a free lease is found at the next retry",
        on=API_SERVERS,
    ),
    different(
        "LE-05",
        "a leader renews each retry period, and stops at its deadline, or at once for a rival's record",
        "a leader that lost its lease works on until its renew deadline",
        on=API_SERVERS,
    ),
    same("LE-06", "a leader updates the version that it knows, and reads only after a conflict", on=()),
    different(
        "LE-07",
        "who finds no record creates it; who had seen one waits as if it was still there",
        "a deleted Lease is free",
        on=API_SERVERS,
    ),
    same("LE-08", "a record counts from when it was received, by the follower's own clock", on=API_SERVERS),
    different(
        "LE-09",
        "a record holds for as long as it says itself, unless released; to erase the holder frees nothing",
        "a Lease is free if another client erased its holder",
        on=API_SERVERS,
    ),
    same(
        "LE-10", "a renewal keeps the term's time and transitions, a takeover counts one more", on=API_SERVERS
    ),
    same(
        "LE-11", "each new leader is announced, beside the election, also that there is none", on=API_SERVERS
    ),
    different(
        "LE-12",
        "a leader that is stopped frees its record, after its work has ended, also over conflicts",
        "`ReleaseOnCancel` is off, and frees the lease while the work may go on",
        on=API_SERVERS,
    ),
    same("LE-13", "the health check fails for a leader whose lease ran out too long ago", on=API_SERVERS),
    different(
        "LE-14",
        "a lease_duration of less than a second is refused; others are rounded up to whole seconds",
        "a lease of less than a second is stored as none",
        on=(),
    ),
    same("LE-15", "gauge of who leads, counter of renewals that had to read", on=()),
    not_applicable(
        "LE-16",
        "with coordinated election the control plane chooses among candidates",
        "it is alpha and off; ours takes part in what every API server has",
    ),
    not_applicable("LE-17", "candidates for it announce their versions", "there is no coordinated election"),
    same("LE-18", "a record comes back from the Lease as it was stored, to the µs", on=API_SERVERS),
    same(
        "LK-01",
        "the Lease: its fields, labels, events, and the conditions of its replacement",
        on=API_SERVERS,
    ),
    same("LK-02", "Endpoints: the record as JSON in an annotation, in whole seconds", on=API_SERVERS),
    same("LK-03", "ConfigMaps: the same", on=API_SERVERS),
    same("LK-04", "two locks at once: no process leads while they name different holders", on=API_SERVERS),
    different(
        "LK-05",
        "the locks that were removed work, and warn with the way to Leases",
        "locks older than Leases are refused",
        on=API_SERVERS,
    ),
    same("LK-06", "a call may take half the renew deadline, or a second if that is longer", on=()),
]
