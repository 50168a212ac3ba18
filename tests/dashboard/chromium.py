"""A real browser, driven over a pipe by the DevTools protocol: no package, no port, no download."""

import base64
import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_FLAGS = [
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--remote-debugging-pipe", "--hide-scrollbars", "--force-color-profile=srgb"),
]
_PATIENCE = 30.0


class Browser:
    """One page of a Chromium; ``console`` holds what its scripts complained of."""

    def __init__(self, requests: int, answers: int) -> None:
        self.console: list[str] = []
        self._requests, self._answers, self._rest = requests, answers, b""
        self._number, self._session = 0, ""
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{domain}.enable")

    def size(self, width: int, height: int = 900, *, dark: bool = False, scale: float = 1) -> None:
        """Show pages in a window of so many pixels of CSS, each ``scale`` wide in pictures, light or dark."""
        self._ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._ask("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, url: str) -> None:
        """Open a page and wait until it is loaded."""
        self._ask("Page.navigate", url=url)
        self.until(f"document.readyState === 'complete' && location.href === {json.dumps(url)}")

    def scripts(self, *, allowed: bool) -> None:
        """Let pages run their scripts or not; ``run`` works in both cases."""
        self._ask("Emulation.setScriptExecutionDisabled", value=not allowed)

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page, of a promise when it is kept."""
        answer = self._ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, userGesture=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, script: str) -> Any:
        """Wait for an expression to be true, and return its value."""
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            with contextlib.suppress(AssertionError):  # between two pages there is nothing to ask
                if value := self.run(script):
                    return value
            time.sleep(0.02)
        raise AssertionError(f"not within {_PATIENCE:.0f} s: {script}")

    def type(self, text: str) -> None:
        """Write into what has the focus."""
        self._ask("Input.insertText", text=text)

    def press(self, key: str) -> None:
        """Press and let go a key that writes nothing, by its name, as ArrowLeft."""
        for kind in ("rawKeyDown", "keyUp"):
            self._ask("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def point(self, x: float, y: float) -> None:
        """Move the mouse to a place of the window."""
        self._ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def touch(self, x: float, y: float) -> None:
        """Touch a place of the window with a finger, and let go."""
        self._ask("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self._ask("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """Write a picture of the page as PNG or WebP, the whole of it or what is in the window."""
        kind = {"format": path.suffix[1:]} | ({"quality": 75} if path.suffix == ".webp" else {})
        taken = self._ask("Page.captureScreenshot", captureBeyondViewport=whole, **kind, **self._area(whole))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(taken["data"]))

    def _area(self, whole: bool) -> dict[str, Any]:
        if not whole:
            return {}
        area = self._ask("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": area["width"], "height": area["height"], "scale": 1}}

    def _ask(self, method: str, **params: Any) -> Any:
        self._number += 1
        asked: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            asked["sessionId"] = self._session
        os.write(self._requests, json.dumps(asked).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self._note(answer)

    def _note(self, event: dict[str, Any]) -> None:
        if event.get("method") == "Log.entryAdded":
            self.console.append(event["params"]["entry"]["text"])
        elif event.get("method") == "Runtime.exceptionThrown":
            self.console.append(str(event["params"]["exceptionDetails"]))
        elif event.get("method") == "Runtime.consoleAPICalled":
            self.console += [str(each.get("value")) for each in event["params"]["args"]]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            read = os.read(self._answers, 1 << 16)
            assert read, "the browser is gone"
            self._rest += read
        text, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(text)
        return answer


@contextlib.contextmanager
def browser(program: str, profile: Path) -> Iterator[Browser]:
    """Run a Chromium with a profile of its own."""
    requests, ours_out = os.pipe()
    ours_in, answers = os.pipe()
    # a shell puts the two ends where Chromium looks for them, as descriptors 3 and 4
    command = f'exec "$0" "$@" 3<&{requests} 4>&{answers}'
    with subprocess.Popen(
        ["bash", "-c", command, program, *_FLAGS, f"--user-data-dir={profile}"],
        pass_fds=(requests, answers),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TZ": "America/New_York"},
    ) as process:
        os.close(requests)
        os.close(answers)
        try:
            yield Browser(ours_out, ours_in)
        finally:
            process.terminate()
            process.wait(timeout=30)
            os.close(ours_out)
            os.close(ours_in)
