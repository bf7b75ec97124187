"""One headless Chromium for the whole suite, driven over chromedriver.

It never leaves this machine: every name but loopback's is unknown to it, and ``rebound.test``, which is
loopback under a name of somebody else. Home and profile are a
folder of its own, the kernel chooses the port, and every process it has started is gone at the end.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import psutil
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.remote.webdriver import WebDriver
from urllib3.exceptions import HTTPError
from websocket import WebSocket, create_connection

from tests.live.service import Output, is_over
from tests.upstream import wait_until

START_S = 40.0
PATIENCE_S = 100.0  # with a page or a script, of a browser that gets little of the processor
TRIES = 5
_PORT = re.compile(r"started successfully on port (\d+)")
# The first draws no windows, and takes two thirds of the processor time.
_BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless=new",
    "--no-sandbox",  # it cannot be had as root, and the pages are ours
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",  # containers have a small one
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    # The sites of these tests are all on loopback and trust each other's processes: to start one for
    # each page would take most of the time.
    "--disable-site-isolation-trials",
    "--renderer-process-limit=1",
    "--disable-features=SpareRendererForSitePerProcess",
    "--disable-extensions",
    "--disable-hang-monitor",
    "--disable-popup-blocking",
    "--disable-prompt-on-repost",
    "--disable-sync",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP rebound.test 127.0.0.1, MAP * ~NOTFOUND,"
    " EXCLUDE 127.0.0.1, EXCLUDE localhost",
    "--lang=en-GB",
    "--no-first-run",
    "--no-proxy-server",
    "--password-store=basic",
    "--test-type=webdriver",
    "--window-size=1280,900",
)
_connections: WeakKeyDictionary[WebDriver, WebSocket] = WeakKeyDictionary()


def why_missing() -> str | None:
    """Why there can be no browser here, None when there can."""
    if shutil.which("chromedriver") is None:
        return "there is no chromedriver; `apt-get install chromium chromium-driver` brings one"
    if _find_browser() is None:
        return "there is no Chromium; `apt-get install chromium chromium-driver` brings one"
    return None


@contextmanager
def run_chromium() -> Iterator[WebDriver]:
    """Ended whatever happens, with all its processes."""
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": name,
            "TMPDIR": name,
            "LANG": "C.UTF-8",
            "TZ": "UTC",
        }
        with (
            _no_proxy(),
            _run_browser(environment, folder / "profile") as address,
            _run_driver(environment) as port,
            _open_session(port, address) as driver,
        ):
            yield driver


def call_browser(driver: WebDriver, method: str, **parameters: object) -> dict[str, Any]:
    """Send a command of the DevTools protocol to the browser itself, and return the result.

    Those that a driver sends go to the page that it looks at."""
    connection = _connections[driver]
    connection.send(json.dumps({"id": 1, "method": method, "params": parameters}))
    while (answer := json.loads(connection.recv())).get("id") != 1:
        pass
    assert "error" not in answer, answer
    return dict(answer["result"])


@contextmanager
def _run_browser(environment: dict[str, str], profile: Path) -> Iterator[str]:
    """Run Chromium, and give the address of its DevTools: host and port, and the path of the browser.

    It is not for chromedriver to start: to have several jars of cookies that would need WebDriver BiDi,
    whose server is a page that is told of all others. That takes a fifth of the processor time."""
    process = subprocess.Popen(  # noqa: S603 - one of ours
        [
            _find_browser() or "chromium",
            *_FLAGS,
            "--remote-debugging-port=0",
            f"--user-data-dir={profile}",
            "about:blank",
        ],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    file = profile / "DevToolsActivePort"
    try:
        wait_until(
            lambda: (
                process.poll() is not None or (file.exists() and len(file.read_text().split()) == 2)
            ),
            "the port of Chromium",
            patience_s=START_S,
        )
        assert process.poll() is None, f"Chromium ended with {process.returncode}"
        port, path = file.read_text().split()
        yield f"127.0.0.1:{port}{path}"
    finally:
        _end(process)


@contextmanager
def _run_driver(environment: dict[str, str]) -> Iterator[int]:
    """Run chromedriver, and give its port.

    The kernel chooses it for IPv4. Chromedriver ends when another process has the same one for IPv6, and
    is then started again."""
    said = ""
    for _ in range(TRIES):
        process = subprocess.Popen(  # noqa: S603 - what the path says is chromedriver
            [shutil.which("chromedriver") or "chromedriver", "--port=0"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        assert process.stdout
        output = Output(process.stdout)
        try:
            if port := _wait_for_port(process, output):
                yield port
                return
        finally:
            _end(process)
            output.close()
        said = output.text
    raise AssertionError(f"chromedriver ended {TRIES} times:\n{said}")


def _wait_for_port(process: "subprocess.Popen[str]", output: Output) -> int | None:
    """Return the port that chromedriver listens on, or None when it has ended."""
    wait_until(
        lambda: process.poll() is not None or _PORT.search(output.text),
        "chromedriver's port",
        patience_s=START_S,
    )
    found = _PORT.search(output.text)
    return int(found[1]) if found else None


@contextmanager
def _open_session(port: int, address: str) -> Iterator[WebDriver]:
    options = webdriver.ChromeOptions()
    options.debugger_address = address.partition("/")[0]
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Remote(f"http://127.0.0.1:{port}", options=options)
    try:
        driver.set_page_load_timeout(PATIENCE_S)
        driver.set_script_timeout(PATIENCE_S)
        connection = create_connection(f"ws://{address}", PATIENCE_S, suppress_origin=True)
        with closing(connection):
            _connections[driver] = connection
            yield driver
    finally:
        with suppress(WebDriverException, HTTPError, OSError):  # it may have died; `_end` follows
            driver.quit()


@contextmanager
def _no_proxy() -> Iterator[None]:
    """Selenium asks the environment for a proxy, also to reach this machine."""
    names = ("no_proxy", "NO_PROXY")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "127.0.0.1,localhost"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _end(process: "subprocess.Popen[str] | subprocess.Popen[bytes]") -> None:
    """Kill Chromium or chromedriver and what it has started, and see them gone.

    Most are in its process group, which is killed in one step: none of it can start another meanwhile."""
    family: list[psutil.Process] = []
    with suppress(psutil.NoSuchProcess):
        family = psutil.Process(process.pid).children(recursive=True)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for child in family:
        with suppress(psutil.NoSuchProcess):
            child.kill()
    wait_until(
        lambda: all(map(is_over, [*family, *_list_group(process.pid)])),
        "the end of the browser's processes",
    )


def _list_group(group: int) -> Iterator[psutil.Process]:
    for pid in psutil.pids():
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getpgid(pid) == group:
                yield psutil.Process(pid)


def _find_browser() -> str | None:
    return next(filter(None, map(shutil.which, _BROWSERS)), None)
