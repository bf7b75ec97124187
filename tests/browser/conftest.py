"""The pages in a real Chromium, over the real service. Without a Chromium these tests skip."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from selenium.webdriver.remote.webdriver import WebDriver

from tests.browser import chromium
from tests.browser.elsewhere import Place, run_place
from tests.browser.example import Example, make_example
from tests.browser.site import Site, run_site
from tests.browser.visitor import Visitor, lend, new_visitor

type VisitorFactory = Callable[[], Visitor]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/browser/"):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def driver() -> Iterator[WebDriver]:
    """The one browser of the suite."""
    if reason := chromium.why_missing():
        pytest.skip(reason)
    with chromium.run_chromium() as driver:
        yield driver


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A service for all tests that do not mind what others have done with it."""
    with run_site(tmp_path_factory.mktemp("site")) as site:
        yield site


@pytest.fixture(scope="session")
def example(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Example:
    """An organisation with some of everything."""
    return make_example(site, tmp_path_factory.mktemp("planted"))


@pytest.fixture(scope="session")
def running_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Another service, which knows no mail server and no provider."""
    with run_place(tmp_path_factory.mktemp("place")) as place:
        yield place


@pytest.fixture(scope="module")
def is_drawn() -> bool:
    """Return whether pages are drawn. A file whose tests scroll, or wait for images, says that they are."""
    return False


@pytest.fixture
def new_browser(driver: WebDriver, site: Site, is_drawn: bool) -> Iterator[VisitorFactory]:
    """Further visitors, each with cookies of their own."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(new_visitor(driver, site.url, is_drawn=is_drawn))


@pytest.fixture
def browser(new_browser: VisitorFactory) -> Visitor:
    """A visitor nobody knows."""
    return new_browser()


@pytest.fixture
def signed_in(browser: Visitor, site: Site) -> Visitor:
    """A visitor who is the local user, with no page open yet."""
    site.sign_in(browser)
    return browser


@pytest.fixture(scope="module")
def shared_visitor(driver: WebDriver, site: Site, is_drawn: bool) -> Iterator[Visitor]:
    """The visitor of all tests of a file that only read."""
    with new_visitor(driver, site.url, is_drawn=is_drawn) as visitor:
        yield visitor


@pytest.fixture
def desk(shared_visitor: Visitor) -> Iterator[Visitor]:
    """A visitor for tests that leave nothing behind but pages, cookies and what they emulate."""
    with lend(shared_visitor):
        yield shared_visitor


@pytest.fixture
def reader(desk: Visitor, site: Site) -> Visitor:
    """The local user, for a test that only reads."""
    site.sign_in(desk)
    return desk


@pytest.fixture
def rosa(desk: Visitor, site: Site, example: Example) -> Visitor:
    """The owner of the example, for a test that only reads."""
    site.sign_in(desk, example.email)
    return desk
