"""A program that drives client-go's workqueue and controller-runtime's priority queue in fake time."""

from pathlib import Path

from distq.testing.go_module import GoModule

CLIENT_GO_VERSION = "0.36.3"
MODULE = GoModule(
    Path(__file__).parent, CLIENT_GO_VERSION, flags=("-trimpath",), programs={"oracle": ("test -c", ".")}
)
