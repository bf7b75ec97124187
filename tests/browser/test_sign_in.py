"""Signing in by a link, and out, in a browser."""

from urllib.parse import quote

import pytest
from selenium.webdriver.common.keys import Keys

BUTTON = "Sign in to Taximeter"


def test_a_link_signs_in_once(browser, new_browser, site):
    link = next(word for word in site.run("users", "link").split() if "/sign-in/" in word)
    for _ in range(2):
        browser.open(link)  # programs that read mail open links too
        assert BUTTON in browser.names("button")
    browser.follow(BUTTON, "button")
    assert browser.path == "/"
    assert f"{site.url}/proxy/default" in browser.text
    late = new_browser()
    late.open(link)
    assert BUTTON not in late.names("button")
    late.see("used or is too old")
    late.open("/")
    assert late.path == "/sign-in"


def test_the_keyboard_is_enough(browser, site):
    browser.open(site.make_link())
    browser.tab_to(BUTTON)
    with browser.page_change():
        browser.press(Keys.ENTER)
    assert browser.path == "/"
    browser.tab_to("Sign out")
    with browser.page_change():
        browser.press(Keys.ENTER)
    assert browser.path == "/sign-in"


def test_no_script_can_read_the_session(signed_in):
    signed_in.open("/")
    cookie = signed_in.cookies()["taximeter"]
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Lax", "/")
    assert signed_in.run("return document.cookie") == ""


def test_after_signing_out_nothing_is_shown_any_more(browser, new_browser, site):
    browser.open(site.make_link())
    browser.follow(BUTTON, "button")
    session = browser.cookies()["taximeter"]["value"]
    browser.follow("Sign out", "button")
    assert browser.path == "/sign-in"
    assert browser.cookies() == {}
    for path in ("/", "/traces"):
        browser.open(path)
        assert browser.path == "/sign-in"
    thief = new_browser()
    thief.set_cookie("taximeter", session)
    thief.open("/")
    assert thief.path == "/sign-in"


def test_the_way_back_shows_nothing_after_signing_out(browser, site):
    browser.open(site.make_link())
    browser.follow(BUTTON, "button")
    browser.open("/traces")
    browser.open("/")
    browser.follow("Sign out", "button")
    for _ in ("/", "/traces"):
        browser.back()
        browser.wait_for(lambda: browser.path == "/sign-in", "the sign-in page")


def test_signing_out_leaves_other_browsers_signed_in(new_browser, site):
    here, there = new_browser(), new_browser()
    for visitor in (here, there):
        visitor.open(site.make_link())
        visitor.follow(BUTTON, "button")
    here.follow("Sign out", "button")
    there.open("/")
    assert there.path == "/"


@pytest.mark.parametrize("session", ["forged", "x" * 3000, "'--"])
def test_a_forged_cookie_is_nobodys(browser, session):
    browser.set_cookie("taximeter", session)
    browser.open("/")
    assert browser.path == "/sign-in"


def test_a_page_of_somebody_else_cannot_sign_one_out(signed_in, site):
    form = f'<form method=post action="{site.url}/sign-out"><button>Win a prize</button></form>'
    signed_in.open("data:text/html," + quote(form))
    signed_in.follow("Win a prize")
    signed_in.open("/")
    assert signed_in.path == "/"


def test_no_page_can_be_framed(browser, site):
    frame = f'<iframe title=f src="{site.url}/sign-in"></iframe>'
    browser.open("data:text/html," + quote(frame))
    browser.driver.switch_to.frame(0)
    assert browser.driver.execute_script("return location.protocol") == "chrome-error:"
    browser.violations()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("size", "width"), [("wide", 1280), ("narrow", 390)])
def test_the_pages_to_sign_in_are_for_everybody(browser, site, scheme, size, width):
    browser.prefer(scheme)
    browser.resize(width, 844)
    pages = {"sign-in": "/sign-in", "sign-in-link": site.make_link(), "used-link": "/sign-in/link"}
    for name, path in pages.items():
        browser.open(path)
        assert browser.faults() == [], name
        browser.screenshot(f"{name}-{size}-{scheme}")
