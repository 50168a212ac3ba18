"""A proxy that loses the reply of each script once: the server did it, and the client cannot know."""

import contextlib
import socket
import struct
from collections.abc import Callable

from distq.redisio import scripts
from tests.support.tcp_proxy import TcpProxy


class LossyProxy(TcpProxy):
    """Forward to a Redis; while ``losing``, break the connection instead of the first reply to each call.

    The same call again is answered. ``lost`` names the scripts whose reply was lost, ``answered`` those
    that were repeated; ``between`` is called each time, when the server is done and no client has its reply.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        super().__init__(target)
        self.losing = False
        self.lost: list[str] = []
        self.answered: list[str] = []
        self.between: Callable[[], object] = lambda: None
        self._calls: set[bytes] = set()
        self._asked: dict[socket.socket, bytearray] = {}
        self._names = {scripts.load(name).sha.encode(): name for name in scripts.names()}

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):  # reset, or closed by the other direction
            if source.getsockname()[1] == self.port:
                asked = self._asked.setdefault(source, bytearray())
                while data := source.recv(1 << 16):
                    asked += data
                    sink.sendall(data)
            else:
                asked = self._asked.setdefault(sink, bytearray())
                while data := source.recv(1 << 16):
                    call = bytes(asked)
                    asked.clear()
                    if self._loses(call, data):
                        self._break(sink)
                        break
                    sink.sendall(data)
        self._end(source, sink)

    def _loses(self, call: bytes, reply: bytes) -> bool:
        name = next((name for sha, name in self._names.items() if sha in call[:200]), None)
        if not self.losing or name is None or reply.startswith(b"-NOSCRIPT"):
            return False
        if name == "heartbeat":
            call = b""  # it has the time as an argument, so the next one is the repetition
        if call in self._calls:
            self.answered.append(name)
            return False
        self._calls.add(call)
        self.lost.append(name)
        self.between()
        return True

    def _break(self, client: socket.socket) -> None:
        # closing without lingering sends a reset instead of an orderly end
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
