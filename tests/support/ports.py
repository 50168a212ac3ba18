"""Ports for servers of tests."""

import secrets
import socket
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from itertools import cycle

FIRST, BLOCKS, SIZE = 11000, 20, 550
"""Blocks of ports that systems do not give away, and neither those 10,000 above, which clusters use.

A block is large: a server that is away must not lose its port to the next ones of its process, as where the
nemesis runs fleets side by side.
"""


def free_port() -> int:
    """Return a port that no other program gets while its server is away.

    It is free, and so is the one 10,000 above, which a node of a cluster wants as well. This process chooses
    it again only after all others of its block.
    """
    return next(port for port in _own_ports() if _is_free(port) and _is_free(port + 10000))


@cache
def _own_ports() -> Iterator[int]:
    """Return the ports of a block that is this process's, over and over.

    Another process of tests, too, might choose a port between its choice here and its use.
    """
    first = secrets.randbelow(BLOCKS)
    for number in range(first, first + BLOCKS):
        claim = FIRST + SIZE * (number % BLOCKS)
        with suppress(OSError):  # another process has it
            socket.create_server(("127.0.0.1", claim)).detach()  # until this process ends
            return cycle(range(claim + 1, claim + SIZE))
    raise RuntimeError("all ports of tests are taken")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
