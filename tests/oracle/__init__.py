"""The originals, client-go's workqueue and controller-runtime's priority queue, run beside ours.

A Go program drives them in fake time (``oracle_test.go``). ``python -m tests.oracle`` builds it.
"""

from pathlib import Path

from tests.go_module import GoModule

CLIENT_GO_VERSION = "0.36.3"
MODULE = GoModule(
    Path(__file__).parent, CLIENT_GO_VERSION, flags=("-trimpath",), programs={"oracle": ("test -c", ".")}
)
