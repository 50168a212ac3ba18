"""An emulated Kubernetes API server, so that tests, demo and sandbox need no cluster.

It answers as kube-apiserver 1.36 was seen to answer; the tests that say so run
on both. It keeps everything in memory and runs no controllers but the garbage
collector and that of namespaces.
"""

from distq.testing.apiserver.requests import RecordedRequest
from distq.testing.apiserver.server import EmulatedApiServer

__all__ = ["EmulatedApiServer", "RecordedRequest"]
