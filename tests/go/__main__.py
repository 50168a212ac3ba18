"""Build the Go programs that tests run beside ours, once, and print where they are: those named, or all.

On two cores kube-apiserver and etcd take about three minutes and 2 GB of memory, the others a minute each:
they use the same modules. A later call finds them built.
"""

import sys

from distq.errors import ConfigError
from distq.testing import envtest
from tests.go import clientgo, controllerruntime, oracle

BUILDS = {
    "envtest": envtest.build_assets,
    "oracle": oracle.MODULE.build,
    "clientgo": clientgo.MODULE.build,
    "controllerruntime": controllerruntime.MODULE.build,
}

if __name__ == "__main__":
    names = sys.argv[1:] or list(BUILDS)
    if unknown := [name for name in names if name not in BUILDS]:
        sys.exit(f"no module {unknown[0]} in tests/go. Name some of: {', '.join(BUILDS)}; or none for all.")
    for name in names:
        try:
            print(BUILDS[name](), flush=True)  # noqa: T201  the answer of a program
        except ConfigError as error:
            sys.exit(str(error))
