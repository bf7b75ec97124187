"""A person at the browser: opens addresses, presses what has a name, fills in what has a label.

Each has cookies and storage of their own, so two visitors are two people. What is on a page is found
by role and name as a screen reader tells them; `page.js` knows how.
"""

import base64
import os
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import urljoin, urlsplit
from weakref import WeakKeyDictionary

from selenium.common.exceptions import (
    JavascriptException,
    StaleElementReferenceException,
    WebDriverException,
)
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select

from tests.browser.chromium import call_browser
from tests.upstream import wait_until

type Role = Literal["any", "button", "link", "menu"]

_PAGE_JS = (Path(__file__).parent / "page.js").read_text()
_SCREENSHOTS = "TAXIMETER_SCREENSHOTS"
_POLICY = re.compile(r"Content Security Policy|Permissions policy")
_PART_OF_A_PAGE = re.compile(r"\.(?:css|js|mjs|png|svg|woff2?)$")
# A dialog nobody expects is an error like another; the page goes on as if it had been dismissed.
_NO_DIALOGS = """
for (const [kind, answer] of [["alert", undefined], ["confirm", false], ["prompt", null]])
  window[kind] = (text) => { console.error(`${kind}: ${text}`); return answer; };
"""
_looked_at: WeakKeyDictionary[WebDriver, str] = WeakKeyDictionary()
_empty_jars: "WeakKeyDictionary[WebDriver, list[_Jar]]" = WeakKeyDictionary()
_MISSING = (JavascriptException, StaleElementReferenceException)
# What chromedriver says when another page replaces the one that it looks at; that has no class of its own.
_REPLACED = re.compile(r"aborted by navigation|execution context|loader has changed")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the browser's console."""

    source: str
    level: str
    message: str

    @property
    def is_violation(self) -> bool:
        return self.source == "security" and _POLICY.search(self.message) is not None

    def is_error(self, base_url: str) -> bool:
        """A script that failed, or a part of our page that could not be loaded. That a page itself
        answers 404 or 410 is for the test to say."""
        if self.level != "SEVERE" or self.is_violation:
            return False
        if self.source != "network":
            return True
        address = self.message.partition(" ")[0]
        is_ours = address.startswith(f"{base_url}/")
        return is_ours and _PART_OF_A_PAGE.search(urlsplit(address).path) is not None


class Visitor:
    """Make one with `new_visitor`, which also ends it."""

    def __init__(self, driver: WebDriver, window: str, base_url: str) -> None:
        self.driver = driver
        self.base_url = base_url
        self._window = window
        self._entries: list[Entry] = []

    # --- going somewhere ---

    def open(self, address: str) -> None:
        """A path of the service, or a whole address."""
        self._turn_to()
        self.driver.get(urljoin(self.base_url, address))

    def reload(self) -> None:
        self._turn_to()
        self.driver.refresh()

    def back(self) -> None:
        self._turn_to()
        self.driver.back()

    def click(self, name: str, role: Role = "any") -> None:
        """Press what has this name, in the middle, as a mouse does."""
        self.find(name, role).click()

    def follow(self, name: str, role: Role = "any") -> None:
        """Press it and wait for the page that comes."""
        with self.page_change():
            self.click(name, role)

    @contextmanager
    def page_change(self) -> Iterator[None]:
        """Wait at the end of the block until another page stands here, whole."""
        self._turn_to()
        mark = f"was_here_{uuid.uuid4().hex}"
        self.driver.execute_script(f"window.{mark} = true")
        yield
        script = f"return window.{mark} === undefined && document.readyState === 'complete'"
        self.wait_for(lambda: self.driver.execute_script(script), "another page")

    # --- what is there ---

    @property
    def address(self) -> str:
        self._turn_to()
        return str(self.driver.current_url)

    @property
    def path(self) -> str:
        return urlsplit(self.address).path

    @property
    def title(self) -> str:
        self._turn_to()
        return str(self.driver.title)

    @property
    def heading(self) -> str:
        return str(self.run("return squeeze(document.querySelector('h1')?.textContent)"))

    @property
    def text(self) -> str:
        """Return the text that can be read on the page."""
        return str(self.run("return document.body?.innerText ?? ''"))

    @property
    def source(self) -> str:
        """The page as it came, asked for again."""
        return str(self.run_async("fetch(location.href).then((a) => a.text()).then(done)"))

    def find(self, name: str, role: Role = "any") -> WebElement:
        """The only thing to press that has this name."""
        return self._find_only(
            f"a {role} named {name!r}",
            lambda: self.run("return findPressable(...arguments)", role, name),
            lambda: self.run("return listNames(...arguments)", role),
        )

    def field(self, label: str) -> WebElement:
        return self._find_only(
            f"a field labelled {label!r}",
            lambda: self.run("return findField(...arguments)", label),
            lambda: self.run("return listLabels()"),
        )

    def names(self, role: Role = "any") -> list[str]:
        """The names of all there is to press."""
        return list(self.run("return listNames(...arguments)", role))

    def labels(self) -> list[str]:
        """The labels of all fields that show."""
        return list(self.run("return listLabels()"))

    def see(self, text: str) -> None:
        """Wait until the page says so."""
        self.wait_for(lambda: text in self.text, lambda: f"{text!r} on the page:\n{self.text}")

    def wait_for(
        self, condition: Callable[[], object], what: str | Callable[[], str] = "the condition"
    ) -> None:
        """Look until the condition holds. A page that changes meanwhile is looked at again."""
        self._turn_to()

        def holds() -> object:
            try:
                return condition()
            except _MISSING:
                return False
            except WebDriverException as error:
                if not _REPLACED.search(str(error)):
                    raise
                return False

        try:
            wait_until(holds, "the condition")
        except TimeoutError as error:
            words = what if isinstance(what, str) else what()
            raise AssertionError(f"waited in vain at {self.address} for {words}") from error

    # --- fields and keys ---

    def fill(self, label: str, value: str) -> None:
        field = self.field(label)
        field.clear()
        field.send_keys(value)

    def choose(self, label: str, option: str) -> None:
        Select(self.field(label)).select_by_visible_text(option)

    def press(self, *keys: str) -> None:
        """Keys, to whatever has the focus: `visitor.press(Keys.TAB, Keys.ENTER)`."""
        self._turn_to()
        ActionChains(self.driver, duration=0).send_keys(*keys).perform()

    @property
    def focused(self) -> str:
        """The name or label of what has the focus."""
        return str(
            self.run(
                "const e = document.activeElement;"
                " return e.matches(FIELD) ? labelOf(e) : e === document.body ? '' : nameOf(e)"
            )
        )

    def tab_to(self, name: str, *, at_most: int = 60) -> None:
        """Press Tab until what has this name or label has the focus."""
        passed: list[str] = []
        for _ in range(at_most):
            self.press(Keys.TAB)
            passed.append(self.focused)
            if passed[-1] == name:
                return
        raise AssertionError(f"{name!r} is not reached by Tab; what is: {passed}")

    # --- how it looks ---

    def resize(self, width: int, height: int) -> None:
        self.cdp(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def prefer(self, scheme: Literal["dark", "light"]) -> None:
        # A colour that is on its way to another one is neither.
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.cdp("Emulation.setEmulatedMedia", features=features)

    def live_in(self, timezone: str) -> None:
        """Such as ``America/St_Johns``; holds from the next page on."""
        self.cdp("Emulation.setTimezoneOverride", timezoneId=timezone)

    def do_without_scripts(self) -> None:
        self.cdp("Emulation.setScriptExecutionDisabled", value=True)

    def screenshot(self, name: str) -> None:
        """The whole page as NAME.png in the folder that TAXIMETER_SCREENSHOTS names, if it does."""
        folder = os.environ.get(_SCREENSHOTS)
        if not folder:
            return
        picture = self.cdp("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"{name}.png").write_bytes(base64.b64decode(picture["data"]))

    def faults(self) -> list[str]:
        """Return the obstacles on this page for people who cannot see it or have a small screen."""
        return list(self.run("return findFaults()"))

    # --- cookies ---

    def cookies(self) -> dict[str, dict[str, Any]]:
        """All of this visitor's for this page, also those no script can read."""
        self._turn_to()
        return {cookie["name"]: cookie for cookie in self.driver.get_cookies()}

    def set_cookie(self, name: str, value: str, **more: Any) -> None:
        self.cdp("Network.setCookie", name=name, value=value, url=self.base_url, **more)

    # --- the console ---

    def violations(self) -> list[str]:
        """Return what the Content-Security-Policy has refused since the last call, on all pages."""
        return self._take(lambda entry: entry.is_violation)

    def errors(self) -> list[str]:
        """Return the other errors that the browser has logged since the last call."""
        return self._take(lambda entry: entry.is_error(self.base_url))

    def complaints(self) -> list[str]:
        """Both."""
        return self._take(lambda entry: entry.is_violation or entry.is_error(self.base_url))

    def _take(self, is_wanted: Callable[[Entry], bool]) -> list[str]:
        self._collect()
        taken = [entry.message for entry in self._entries if is_wanted(entry)]
        self._entries = [entry for entry in self._entries if not is_wanted(entry)]
        return taken

    def _collect(self) -> None:
        """The console tells in order: when it tells our mark, it has told what came before."""
        self._turn_to()
        mark = f"mark {uuid.uuid4().hex}"
        self.driver.execute_script("console.debug(arguments[0])", mark)

        def has_told_all() -> bool:
            entries = [
                Entry(entry["source"], entry["level"], entry["message"])
                for entry in self.driver.execute("getLog", {"type": "browser"})["value"]
            ]
            self._entries += [entry for entry in entries if "mark " not in entry.message]
            return any(mark in entry.message for entry in entries)

        self.wait_for(has_told_all, "our own mark in the console")

    # --- underneath ---

    def run(self, script: str, *arguments: object) -> Any:
        """JavaScript in the page, with what `page.js` defines."""
        self._turn_to()
        return self.driver.execute_script(f"{_PAGE_JS}\n{script}", *arguments)

    def run_async(self, script: str, *arguments: object) -> Any:
        """The same; the value is what the script calls `done` with."""
        self._turn_to()
        start = "const done = arguments[arguments.length - 1];"
        return self.driver.execute_async_script(f"{start}\n{_PAGE_JS}\n{script}", *arguments)

    def cdp(self, command: str, **parameters: object) -> Any:
        self._turn_to()
        return self.driver.execute_cdp_cmd(command, parameters)

    def _turn_to(self) -> None:
        """Have the driver look at this tab, if it does not yet.

        The tab is remembered, because to ask the driver would double the time of all tests."""
        if _looked_at.get(self.driver) != self._window:
            self.driver.switch_to.window(self._window)
            _looked_at[self.driver] = self._window

    def _find_only(
        self,
        what: str,
        look: Callable[[], Sequence[WebElement]],
        others: Callable[[], Sequence[str]],
    ) -> WebElement:
        found: list[WebElement] = []

        def is_there() -> bool:
            found[:] = look()
            return bool(found)

        self.wait_for(is_there, lambda: f"{what}; there are {sorted(set(others()))}")
        assert len(found) == 1, f"{what} is there {len(found)} times"
        return found[0]


@dataclass(frozen=True, slots=True)
class _Jar:
    """The cookies of a visitor, with an empty tab that keeps the process of the visitor's pages.

    To start a process takes longer than most tests."""

    context: str
    empty_tab: str

    @classmethod
    def make(cls, driver: WebDriver) -> Self:
        context = call_browser(driver, "Target.createBrowserContext")["browserContextId"]
        return cls(context, _open_tab(driver, context, is_drawn=False))

    def open_tab(self, driver: WebDriver, *, is_drawn: bool) -> str:
        """Open another tab, and return its window."""
        return _open_tab(driver, self.context, is_drawn=is_drawn)

    def empty(self, driver: WebDriver) -> None:
        """Forget the visitor: tabs, cookies, storage of every site, and what was fetched."""
        for target in call_browser(driver, "Target.getTargets")["targetInfos"]:
            is_tab = target["type"] == "page" and target["targetId"] != self.empty_tab
            if is_tab and target.get("browserContextId") == self.context:
                call_browser(driver, "Target.closeTarget", targetId=target["targetId"])
        driver.switch_to.window(self.empty_tab)
        driver.execute_cdp_cmd("Network.clearBrowserCache", {})
        everything = {"origin": "*", "storageTypes": "all"}
        driver.execute_cdp_cmd("Storage.clearDataForOrigin", everything)


def _open_tab(driver: WebDriver, context: str, *, is_drawn: bool) -> str:
    target = {
        "url": "about:blank",
        "browserContextId": context,
        # Frames are then drawn when they are asked for, which nobody does.
        "enableBeginFrameControl": not is_drawn,
    }
    return str(call_browser(driver, "Target.createTarget", **target)["targetId"])


@contextmanager
def new_visitor(driver: WebDriver, base_url: str, *, is_drawn: bool = False) -> Iterator[Visitor]:
    """Make a visitor with an empty jar of cookies.

    To draw pages takes a third of the processor time, and what is on a page, where, and in which colours
    is known without. So they are drawn where the visitor asks for it, or pictures are to be kept: only
    then are there frames of animation, events of scrolling, and images that are loaded when they come into
    view. A browser that is not chromium-headless-shell draws in any case.

    At the end nothing may be left in the console that no test has asked for: a violation of the
    policy anywhere fails the test it happened in."""
    home = driver.window_handles[0]
    jars = _empty_jars.setdefault(driver, [])
    jar = jars.pop() if jars else _Jar.make(driver)
    is_whole = False
    try:
        window = jar.open_tab(driver, is_drawn=is_drawn or _SCREENSHOTS in os.environ)
        driver.switch_to.window(window)
        _looked_at[driver] = window
        visitor = Visitor(driver, window, base_url)
        visitor.cdp("Page.addScriptToEvaluateOnNewDocument", source=_NO_DIALOGS)
        yield visitor
        assert not (complaints := visitor.complaints()), complaints
        is_whole = True
    finally:
        if is_whole:
            jar.empty(driver)
            jars.append(jar)
        else:
            with suppress(AssertionError):  # the test may have closed it
                call_browser(driver, "Target.disposeBrowserContext", browserContextId=jar.context)
        driver.switch_to.window(home)
        _looked_at[driver] = home
        driver.execute("getLog", {"type": "browser"})


@contextmanager
def lend(visitor: Visitor) -> Iterator[None]:
    """Let a test have a visitor that other tests have had: with the usual window and no cookies.

    What such a test stores otherwise, the next one finds."""
    visitor.cdp("Emulation.clearDeviceMetricsOverride")
    visitor.cdp("Emulation.setEmulatedMedia", features=[])
    visitor.cdp("Emulation.setTimezoneOverride", timezoneId="")
    visitor.cdp("Network.clearBrowserCookies")
    visitor.complaints()  # of a test that failed
    yield
    assert not (complaints := visitor.complaints()), complaints
