# SPDX-License-Identifier: GPL-2.0-or-later
"""A headless Chromium that a test drives: the DevTools protocol over a pair of pipes, messages ended by NUL."""
import base64
import contextlib
import json
import os
import select
import time

from harness import PATIENCE_S, at_exit, need_tool, spawn, temporary_dir, wait_until

OPTIONS = (
    "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --hide-scrollbars --disable-sync "
    "--disable-background-networking --disable-component-update --disable-extensions --remote-debugging-pipe"
).split()
KEYS = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "/": 191, "Home": 36, "End": 35}
SHIFT = 8


class Browser:
    """problems: what the page said on its console. requests: whatever was asked for but the page itself."""

    def __init__(self, width=1200, height=800):
        chromium = need_tool("chromium")
        theirs_in, self.out = os.pipe()
        self.input, theirs_out = os.pipe()
        # Its pipes are descriptors 3 and 4.
        argv = ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash", chromium, *OPTIONS]
        argv += [f"--user-data-dir={temporary_dir()}", f"--window-size={width},{height}", "about:blank"]
        with open(os.devnull, "w", encoding="ascii") as nowhere:
            spawn(argv, pass_fds=(theirs_in, theirs_out), stdout=nowhere, stderr=nowhere)
        os.close(theirs_in)
        os.close(theirs_out)
        at_exit(os.close, self.out)
        at_exit(os.close, self.input)
        self.buffer, self.number, self.session = b"", 0, None
        self.events, self.problems, self.requests, self.page = [], [], [], None
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        self._listen()

    def _listen(self):
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")

    def _message(self):
        deadline = time.monotonic() + PATIENCE_S
        while b"\0" not in self.buffer:
            readable, _, _ = select.select([self.input], [], [], max(0, deadline - time.monotonic()))
            assert readable, "the browser does not answer"
            data = os.read(self.input, 1 << 20)
            assert data, "the browser ended"
            self.buffer += data
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def _take(self, event):
        method, what = event.get("method"), event.get("params", {})
        self.events.append(method)
        if method == "Runtime.exceptionThrown":
            self.problems.append(what["exceptionDetails"])
        elif method == "Log.entryAdded":
            self.problems.append(what["entry"])
        elif method == "Runtime.consoleAPICalled":
            self.problems.append(what["args"])
        elif method == "Network.requestWillBeSent" and what["request"]["url"] not in (self.page, "data:,"):
            self.requests.append(what["request"]["url"])

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self._take(answer)

    def open(self, path):
        self.visit("file://" + path)

    def visit(self, url):
        self.page = url.split("#")[0]
        self.events.clear()
        self.call("Page.navigate", url=url)
        while "Page.loadEventFired" not in self.events:
            self._take(self._message())
        self.drawn()

    def evaluate(self, expression):
        """The value of a JavaScript expression, a promise's when it has come."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, (expression, answer)
        return answer["result"].get("value")

    def drawn(self):
        """Waits until what was changed is drawn."""
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def text(self, selector):
        return self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")

    @contextlib.contextmanager
    def frame(self):
        """Within it all is done in the page's one sandboxed frame, which is a target of its own."""
        page, self.session = self.session, None

        def find():
            return next((t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "iframe"), None)

        self.session = self.call("Target.attachToTarget", targetId=wait_until(find, "the frame")["targetId"], flatten=True)["sessionId"]
        self._listen()
        yield
        self.session = page

    def wait_for(self, expression):
        return wait_until(lambda: self.evaluate(expression), expression, step=0.2)

    def look(self, width, height, scheme):
        """The window's size, and whether it is "light" or "dark"."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.drawn()

    def screenshot(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def press(self, *keys, modifiers=0):
        for key in keys:
            for kind in ("keyDown", "keyUp"):
                self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=KEYS[key], modifiers=modifiers)
        self.drawn()

    def type(self, text):
        self.call("Input.insertText", text=text)
        self.drawn()

    def click(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.drawn()

    def drag(self, from_x, to_x, y):
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=from_x, y=y, button="left", clickCount=1)
        for x in ((from_x + to_x) / 2, to_x):
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, button="left", buttons=1)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=to_x, y=y, button="left", clickCount=1)
        self.drawn()

    def choose(self, selector, value):
        """Of a check box true or false, of a list the value of an entry."""
        field, where = "checked" if isinstance(value, bool) else "value", f"document.querySelector({json.dumps(selector)})"
        self.evaluate(f"{where}.{field} = {json.dumps(value)}; {where}.dispatchEvent(new Event('change'))")
        self.drawn()
