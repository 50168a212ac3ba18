"""controller-runtime's manager with the controllers of ``benchmarks.end_to_end``, to run beside ours."""

from pathlib import Path

from distq.testing.go_module import GoModule

VERSION = "0.24.1"
MODULE = GoModule(
    Path(__file__).parent,
    VERSION,
    flags=("-trimpath", "-ldflags=-s -w"),
    programs={"controller": ("build", "./controller")},
)
