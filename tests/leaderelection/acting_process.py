"""A process that competes for a Lease by our election, as ``tests/go/clientgo/elector`` does by client-go's.

It takes the same flags and prints the same lines, with times in ns of the machine's monotonic clock:
"NS leading", "NS working" whenever it acts, "NS stopped", "NS sees IDENTITY". A line on standard input, or
its end, makes it stop; then it releases the Lease if -release is given.
"""

import argparse
import os
import sys
import threading
import time

from distq.client import Client
from distq.leaderelection import LeaderElectionConfig, LeaderElector, LeaseLock

ACT_EVERY = 0.005
"""Seconds."""


def main() -> None:
    """Act until the term ends."""
    flags = _flags()
    stop = threading.Event()

    def act(over: threading.Event) -> None:
        say("leading")
        while not over.is_set():
            begun = time.monotonic_ns()  # first, or a process that is frozen in between acts in the past
            if elector.may_act():
                say("working", begun)
            time.sleep(ACT_EVERY)

    lock = LeaseLock(Client(flags.kubeconfig), flags.namespace, flags.lease, identity=flags.identity)
    elector = LeaderElector(
        LeaderElectionConfig(
            lock=lock,
            on_started_leading=act,
            on_stopped_leading=lambda: say("stopped"),
            on_new_leader=lambda identity: say(f"sees {identity}"),
            lease_duration=seconds(flags.lease_duration),
            renew_deadline=seconds(flags.renew_deadline),
            retry_period=seconds(flags.retry_period),
            release_on_cancel=flags.release,
        )
    )
    threading.Thread(target=heed, args=(stop,), daemon=True).start()
    elector.run(stop)


def heed(stop: threading.Event) -> None:
    """Stop when a line says so."""
    sys.stdin.readline()
    stop.set()


def say(what: str, at: int | None = None) -> None:
    """Print a line at once, whole."""
    os.write(1, f"{time.monotonic_ns() if at is None else at} {what}\n".encode())


def seconds(duration: str) -> float:
    """Read a duration as Go writes it, e.g. 2.5s."""
    return float(duration.removesuffix("s"))


def _flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("kubeconfig", "namespace", "lease", "identity"):
        parser.add_argument(f"-{name}", required=True)
    for name in ("lease-duration", "renew-deadline", "retry-period"):
        parser.add_argument(f"-{name}", required=True)
    parser.add_argument("-release", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
