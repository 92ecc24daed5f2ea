"""A headless Chromium, driven by its DevTools protocol over a WebSocket."""

import base64
import json
import subprocess
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

from websockets.sync.client import connect

from tests.paper.test_browser import FLAGS

PATIENCE = 120.0  # seconds: a first run compiles


class Browser:
    """One window with one page. What the page loads, logs and throws is kept.

    Attributes
    ----------
    requests : list of str
        Addresses that were asked for, those of WebSockets too.
    complaints : list of str
        Errors, warnings and exceptions of the console.
    """

    def __init__(self, executable, folder, size=(1280, 860)):
        self.folder = Path(folder)
        flags = [flag for flag in FLAGS if "virtual-time" not in flag]
        self.process = subprocess.Popen(
            [
                executable,
                *flags,
                "--remote-debugging-port=0",
                f"--user-data-dir={self.folder / 'profile'}",
                f"--window-size={size[0]},{size[1]}",
                "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        told = self.folder / "profile" / "DevToolsActivePort"
        wait_for(lambda: told.exists() and len(told.read_text().split()) == 2, "a browser")
        port = told.read_text().split()[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
            target = next(t for t in json.load(answer) if t["type"] == "page")
        self.kept = ExitStack()
        opening = connect(target["webSocketDebuggerUrl"], max_size=None, proxy=None)
        self.socket = self.kept.enter_context(opening)
        self.count, self.requests, self.complaints = 0, [], []
        self.pointer = (0.0, 0.0)
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(self.folder))
        self.resize(*size)

    def close(self):
        self.kept.close()
        self.process.terminate()
        self.process.wait(20)

    def call(self, method, **parameters):
        """The result of a command; what happens meanwhile is noted."""
        self.send(method, **parameters)
        while True:
            message = json.loads(self.socket.recv(PATIENCE))
            if message.get("id") == self.count:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.note(message)

    def send(self, method, **parameters):
        """A command whose result nobody waits for."""
        self.count += 1
        self.socket.send(json.dumps({"id": self.count, "method": method, "params": parameters}))

    def note(self, message):
        method, told = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif method == "Network.webSocketCreated":
            self.requests.append(told["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(told["exceptionDetails"])[:500])
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning"):
            self.complaints.append(json.dumps(told["args"])[:500])
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.complaints.append(told["entry"]["text"])

    def resize(self, width, height, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def prefer(self, theme):
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def open(self, address):
        self.call("Page.navigate", url=address)

    def run(self, expression):
        """The value of an expression of JavaScript; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:500])
        return answer["result"].get("value")

    def until(self, expression):
        wait_for(lambda: self.run(expression), expression)

    def place(self, selector):
        """The middle of an element, scrolled to if it is out of sight."""
        found = f"document.querySelector({json.dumps(selector)})"
        x, y, inside = self.run(
            f"(() => {{ let r = {found}.getBoundingClientRect();"
            f"if (r.bottom > innerHeight || r.top < 0) {{ {found}.scrollIntoView();"
            f"r = {found}.getBoundingClientRect(); }}"
            "return [r.x + r.width / 2, r.y + r.height / 2, r.width > 0]; })()"
        )
        assert inside, f"{selector} cannot be seen"
        return x, y

    def mouse(self, kind, at, **more):
        self.pointer = at
        self.call("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], **more)

    def press(self, at):
        self.mouse("mouseMoved", at)
        self.mouse("mousePressed", at, button="left", clickCount=1)

    def move(self, at):
        self.mouse("mouseMoved", at, button="left", buttons=1)

    def release(self):
        self.mouse("mouseReleased", self.pointer, button="left", clickCount=1)

    def click(self, where):
        self.press(self.place(where) if isinstance(where, str) else where)
        self.release()

    def drag(self, points, each=None):
        """Press at the first point, move by way of the others, release at the last one."""
        self.press(points[0])
        for k, point in enumerate(points[1:]):
            self.move(point)
            if each is not None:
                each(k)
        self.release()

    def key(self, key, code=0, modifiers=0):
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                windowsVirtualKeyCode=code,
                modifiers=modifiers,
                **({"text": key} if len(key) == 1 and kind == "keyDown" else {}),
            )

    def slide(self, selector, value):
        """A slider as a hand leaves it."""
        self.run(
            f"(() => {{ const s = document.querySelector({json.dumps(selector)});"
            f"s.value = {value};"
            "s.dispatchEvent(new Event('input')); s.dispatchEvent(new Event('change')); })()"
        )

    def picture(self, path=None):
        """A screenshot in PNG."""
        content = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        if path is not None:
            Path(path).write_bytes(content)
        return content


def wait_for(condition, what):
    patient = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < patient, f"waited in vain for {what}"
        time.sleep(0.02)
