"""A headless Chromium, by chromedriver's HTTP interface: enough to open a page, ask it and picture it."""

import base64
import json
import subprocess
import tempfile
import time
import urllib.error
import urllib.request


class Browser:
    """A browser; a context manager that ends it."""

    def __init__(self):
        self.profile = tempfile.TemporaryDirectory()
        self.driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        port = None
        for line in self.driver.stdout:
            if "started successfully on port" in line:
                port = line.split("port")[-1].strip(" .\n")
                break
        assert port, "chromedriver did not start"
        self.base = f"http://127.0.0.1:{port}"
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1400,1000",
                     f"--user-data-dir={self.profile.name}"]
        wanted = {"browserName": "chrome", "goog:chromeOptions": {"args": arguments}, "goog:loggingPrefs": {"browser": "ALL"}}
        session = self.ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.base += f"/session/{session['sessionId']}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.ask("DELETE", "", None)
        finally:
            self.driver.terminate()
            self.driver.wait()
            self.profile.cleanup()

    def ask(self, method, path, body):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{method} {path}: {error.read().decode()}") from error

    def open(self, url):
        self.ask("POST", "/url", {"url": url})

    def run(self, script):
        """What a script returns, such as `return document.title`."""
        return self.ask("POST", "/execute/sync", {"script": script, "args": []})

    def wait(self, script, seconds=60):
        """Waits until a script returns something true, and returns that."""
        until = time.monotonic() + seconds
        while True:
            found = self.run(script)
            if found:
                return found
            assert time.monotonic() < until, f"after {seconds} s still not: {script}\n{self.errors()}"
            time.sleep(0.2)

    def command(self, name, **parameters):
        return self.ask("POST", "/goog/cdp/execute", {"cmd": name, "params": parameters})

    def size(self, width, height):
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)

    def scheme(self, name):
        """`light` or `dark`."""
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def picture(self, path, whole=True):
        """Writes the page to a PNG file, or what of it is seen."""
        found = self.command("Page.captureScreenshot", captureBeyondViewport=whole, format="png")
        with open(path, "wb") as file:
            file.write(base64.b64decode(found["data"]))

    def errors(self):
        """What the page's console has: errors of scripts, and requests that were refused."""
        return [entry["message"] for entry in self.ask("POST", "/se/log", {"type": "browser"}) if entry["level"] == "SEVERE"]
