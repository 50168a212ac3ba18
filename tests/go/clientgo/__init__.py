"""client-go's informer and elector as programs, to run beside ours."""

from pathlib import Path

from distq.testing.go_module import GoModule

VERSION = "0.36.3"
MODULE = GoModule(
    Path(__file__).parent,
    VERSION,
    flags=("-trimpath", "-ldflags=-s -w"),
    programs={"informer": ("build", "./informer"), "elector": ("build", "./elector")},
)
