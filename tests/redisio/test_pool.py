"""Connections that rest are asked whether the server closed them, unless they just worked."""

from distq.redisio.connection import Connection


def test_a_server_that_closed_all_connections_costs_no_call(connection: Connection) -> None:
    """As after a restart or a failover: once one of them is found closed the others are looked at first."""
    connection.execute("PING")
    pool = connection._ready_servers().of("").pool
    for taken in [pool.take() for _ in range(12)]:
        pool.give_back(taken)
    other = pool.make()
    other.connect()
    other.send_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    assert int(other.read_response()) >= 12
    other.disconnect()
    assert connection.execute("PING") in {b"PONG", "PONG"}
