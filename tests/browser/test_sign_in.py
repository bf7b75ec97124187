"""Signing in by a link, and out, in a browser."""

from urllib.parse import quote

import pytest
from selenium.webdriver.common.keys import Keys

from tests.browser.site import SIGN_IN, find_printed_link
from tests.browser.visitor import new_visitor
from tests.mailbox import text_of

ANN = "ann@example.org"
ELSEWHERE = (
    "https://evil.example/",
    "//evil.example/",
    "/\\evil.example/",
    "/%09/evil.example/",
    "\\\\evil.example",
    "javascript:alert(1)",
    "/sign-out",
    "/%0d%0alocation:%20https://evil.example/",
    "http:evil.example",
)


def test_a_link_signs_in_once(browser, new_browser, site):
    link = next(word for word in site.run("users", "link").split() if "/sign-in/" in word)
    for _ in range(2):
        browser.open(link)  # programs that read mail open links too
        assert SIGN_IN in browser.names("button")
    browser.follow(SIGN_IN, "button")
    assert browser.path == "/"
    browser.see("local user")
    late = new_browser()
    late.open(link)
    assert SIGN_IN not in late.names("button")
    late.see("already used or has expired")
    late.open("/")
    assert late.path == "/sign-in"


def test_by_mail_who_is_new_gets_an_organisation_and_is_the_same_user_later(
    browser, new_browser, site
):
    browser.open("/traces/usage?model=claude-opus-5-5")
    assert browser.path == "/sign-in"
    browser.open(site.ask_for_mail(browser, ANN))
    mail = site.mailbox.wait_for(ANN)
    assert mail["subject"] == "Sign in to Taximeter"
    assert "It works once, for 15 minutes." in text_of(mail)
    browser.see(f"You will be signed in as {ANN}.")
    browser.follow(SIGN_IN, "button")
    assert browser.address == f"{site.url}/traces/usage?model=claude-opus-5-5"
    browser.see("Nothing has been recorded yet.")
    home = site.homes(ANN)
    assert len(home) == 1
    later = new_browser()
    later.open("/sign-in")
    later.open(site.ask_for_mail(later, ANN.upper()))
    later.follow(SIGN_IN, "button")
    later.see(ANN)
    assert site.homes(ANN) == home


def test_without_a_mail_server_the_link_is_printed_in_the_terminal(driver, lonely):
    with new_visitor(driver, f"http://{lonely.host}") as visitor:
        visitor.open("/settings")
        visitor.see("is printed in the terminal")
        visitor.fill("E-mail address", ANN)
        visitor.follow("Print me a link", "button")
        visitor.see("Check the terminal")
        visitor.open(find_printed_link(lonely, ANN))
        visitor.follow(SIGN_IN, "button")
        assert visitor.path == "/settings"
        visitor.see(ANN)


def test_a_link_of_another_service_is_nobodys(driver, browser, lonely, site):
    with new_visitor(driver, f"http://{lonely.host}") as visitor:
        visitor.open("/sign-in")
        visitor.fill("E-mail address", "carol@example.org")
        visitor.follow("Print me a link", "button")
    link = find_printed_link(lonely, "carol@example.org")
    browser.open(link.replace(lonely.host, site.service.host))
    assert SIGN_IN not in browser.names("button")
    browser.see("already used or has expired")


def test_a_forged_link_is_nobodys(browser):
    for token in ("", "forged", "A" * 43, "'--", "%00", "x" * 3000):
        browser.open(f"/sign-in/link?token={token}")
        assert SIGN_IN not in browser.names("button"), token
        browser.see("already used or has expired")
    browser.open("/")
    assert browser.path == "/sign-in"


def test_a_link_is_too_old_after_its_time(browser, site):
    browser.open("/sign-in")
    link = site.ask_for_mail(browser, "dora@example.org")
    browser.open(link)
    site.expire_links("dora@example.org")
    browser.follow(SIGN_IN, "button")
    browser.see("already used or has expired")
    browser.open(link)
    browser.see("already used or has expired")
    assert site.homes("dora@example.org") == []


@pytest.mark.parametrize("column", ["created_at", "seen_at"])
def test_a_session_that_is_too_old_ends(browser, site, column):
    who = f"old-{column[:4]}@example.org"
    site.sign_in_by_link(browser, who)
    browser.see(who)
    site.age_sessions(who, column)
    browser.follow("Settings", "link")
    assert browser.path == "/sign-in"
    assert browser.address.endswith("next=/settings")


def test_signing_in_leads_to_no_other_place(new_browser, site):
    """Neither who is signed in already, nor who signs in from there."""
    known, stranger = new_browser(), new_browser()
    site.sign_in(known)
    for target in ELSEWHERE:
        address = f"/sign-in?next={quote(target, safe='%')}"
        known.open(address)
        assert known.address == f"{site.url}/", target
        stranger.open(address)
        assert stranger.run("return document.querySelector('[name=next]').value") == "/", target
        for provider in ("GitHub", "Google"):
            link = stranger.find(f"Continue with {provider}").get_attribute("href")
            assert link == f"{site.url}/sign-in/{provider.lower()}", target


def test_what_a_form_was_made_to_say_leads_to_no_other_place(browser, site):
    browser.open("/sign-in")
    browser.run("document.querySelector('[name=next]').value = '//evil.example/'")
    browser.open(site.ask_for_mail(browser, "eve@example.org"))
    browser.follow(SIGN_IN, "button")
    assert browser.address == f"{site.url}/"


def test_signing_out_everywhere_ends_other_browsers_too(new_browser, site):
    here, there = new_browser(), new_browser()
    for visitor in (here, there):
        site.sign_in_by_link(visitor, "fay@example.org")
    here.open("/settings")
    here.see("You are signed in in 2 browsers")
    here.follow("Sign out everywhere", "button")
    assert here.path == "/sign-in"
    there.follow("Traces", "link")
    assert there.path == "/sign-in"


def test_the_keyboard_is_enough(browser, site):
    browser.open(site.make_link())
    browser.tab_to(SIGN_IN)
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
    site.sign_in_by_link(browser)
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
    site.sign_in_by_link(browser)
    browser.open("/traces")
    browser.open("/")
    browser.follow("Sign out", "button")
    for _ in ("/", "/traces"):
        browser.back()
        browser.wait_for(lambda: browser.path == "/sign-in", "the sign-in page")


def test_signing_out_leaves_other_browsers_signed_in(new_browser, site):
    here, there = new_browser(), new_browser()
    for visitor in (here, there):
        site.sign_in_by_link(visitor)
    here.follow("Sign out", "button")
    there.open("/")
    assert there.path == "/"


def test_a_forged_cookie_is_nobodys(browser):
    for session in ("forged", "x" * 3000, "'--"):
        browser.set_cookie("taximeter", session)
        browser.open("/")
        assert browser.path == "/sign-in", session


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
    browser.driver.switch_to.default_content()
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
