"""Signing in by a link, and out, in a browser.

What the service answers is for ``tests/dashboard/sign_in``; here, what a browser makes of it.
"""

from urllib.parse import quote

from tests.browser.site import ACCOUNT, SIGN_IN

ANN, FAY = "ann@example.org", "fay@example.org"
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
# Where these addresses lead, each without leaving the page: the browser follows as it would there.
FOLLOW = """
Promise.all(arguments[0].map(async (address) => (await fetch(address)).url)).then(
  done, (error) => done(String(error)));
"""
# What the forms and links of the pages at these addresses lead to.
READ = """
Promise.all(arguments[0].map(async (address) => {
  const text = await (await fetch(address)).text();
  const page = new DOMParser().parseFromString(text, "text/html");
  const links = [...page.links].filter((each) => each.textContent.startsWith("Continue with"));
  return [page.querySelector("[name=next]").value, ...links.map((each) => each.href)];
})).then(done, (error) => done(String(error)));
"""


def test_a_link_signs_in_once(browser, new_browser, site):
    link = site.make_link()
    browser.open(link)
    browser.follow(SIGN_IN, "button")
    assert browser.path == "/"
    browser.see("local user")
    cookie = browser.cookies()[site.cookie]
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Lax", "/")
    assert browser.run("return document.cookie") == "", "no script can read the session"
    late = new_browser()
    late.open(link)
    assert SIGN_IN not in late.names("button")
    late.see("already used or has expired")
    assert late.cookies() == {}


def test_signing_in_leads_to_no_other_place(new_browser, site):
    """Neither who is signed in already, nor who signs in from there."""
    known, stranger = new_browser(), new_browser()
    site.sign_in(known)
    pages = [f"/sign-in?next={quote(target, safe='%')}" for target in ELSEWHERE]
    stranger.open("/sign-in")
    ours = ["/", f"{site.url}/sign-in/github", f"{site.url}/sign-in/google"]
    assert stranger.run_async(READ, pages) == [ours] * len(ELSEWHERE)
    known.open("/help/costs")
    assert known.run_async(FOLLOW, pages) == [f"{site.url}/"] * len(ELSEWHERE)


def test_after_signing_out_nothing_is_shown_in_this_browser_any_more(browser, site):
    site.sign_in(browser, FAY)
    browser.open("/traces")
    session = browser.cookies()[site.cookie]["value"]
    browser.open("/")
    browser.click(ACCOUNT.format("fay"), "menu")
    browser.follow("Sign out", "button")
    assert browser.path == "/sign-in"
    assert browser.cookies() == {}
    for _ in ("/", "/traces"):
        browser.back()
        browser.wait_for(lambda: browser.path == "/sign-in", "the sign-in page")
    browser.set_cookie(site.cookie, session)
    browser.open("/")
    assert browser.path == "/sign-in", "the session has ended"


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
