"""client-go's informer, run beside ours: the calls of its handler, as ``Notes`` writes them."""

import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.go.clientgo import MODULE
from tests.support.eventually import eventually


class OriginalInformer:
    """The Go program, following one resource in one namespace; a context manager."""

    def __init__(self, kubeconfig: Path, resource: str, namespace: str, *, resync_period: float = 0) -> None:
        flags = {"kubeconfig": kubeconfig, "resource": resource, "namespace": namespace}
        self._command = [
            str(MODULE.cached() / "informer"),
            *(f"-{name}={value}" for name, value in flags.items()),
            f"-resync={resync_period}s",
            "-calls",
        ]
        self.calls: list[str] = []
        self._stores: list[list[str]] = []
        self._synced = False

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._ask()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def has_synced(self) -> bool:
        """Return whether its first list is in its cache."""
        return self._synced

    def store(self) -> list[str]:
        """Return what is in its cache, sorted, each as ``name@version``."""
        before = len(self._stores)
        self._ask()
        eventually(lambda: len(self._stores) > before)
        return self._stores[-1]

    def _ask(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            word, *rest = line.split()
            if word == "synced":
                self._synced = True
            elif word == "store":
                self._stores.append(rest)
            elif word != "ready":
                self.calls.append(line.strip())
