"""Build the program that drives the originals, once, and print where it is.

A minute or two on two cores, far less after ``python -m tests.envtest``: both use the same modules.
"""

from tests.oracle import MODULE

if __name__ == "__main__":
    print(MODULE.build())  # noqa: T201  the answer of a program
