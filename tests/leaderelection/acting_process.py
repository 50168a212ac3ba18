"""A process that competes for the tests' Lease, and prints the time whenever it acts as the leader.

Usage: python -m tests.leaderelection.acting_process KUBECONFIG NAMESPACE IDENTITY
"""

import sys
import threading
import time

from distq.client import Client
from distq.leaderelection import LeaderElectionConfig, LeaderElector, LeaseLock
from tests.leaderelection.participants import LEASE, SHORT


def main(kubeconfig: str, namespace: str, identity: str) -> None:
    """Act until the term ends."""
    lock = LeaseLock(Client(kubeconfig), namespace, LEASE, identity=identity)

    def act(over: threading.Event) -> None:
        while not over.is_set():
            if elector.may_act():
                sys.stdout.write(f"{time.monotonic()}\n")
                sys.stdout.flush()
            time.sleep(0.002)

    elector = LeaderElector(
        LeaderElectionConfig(lock=lock, on_started_leading=act, on_stopped_leading=lambda: None, **SHORT)
    )
    elector.run(threading.Event())


if __name__ == "__main__":
    main(*sys.argv[1:])
