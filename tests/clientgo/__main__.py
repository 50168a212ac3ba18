"""Build client-go's informer and elector, once, and print where they are; 40 s after ``tests.envtest``."""

from tests.clientgo import MODULE

if __name__ == "__main__":
    print(MODULE.build())  # noqa: T201  the answer of a program
