"""Build kube-apiserver and etcd from the Go module beside this file, once, and print where they are.

About three minutes and 2 GB of memory on two cores; a later call finds them built.
"""

from tests.envtest import MODULE, assets

if __name__ == "__main__":
    print(assets() or MODULE.build())  # noqa: T201  the answer of a program
