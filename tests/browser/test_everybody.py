"""Every page is for everybody: at any width, in the dark, without a mouse, and without JavaScript."""

from datetime import timedelta

from selenium.webdriver.common.keys import Keys

from metering.budget_periods import Span
from runtime import clock
from runtime.webhook_rule import WebhookRule
from store.control import budget_alerts, deliveries
from store.control.management import Management
from tests.browser.looks import ALL_LOOKS, assert_fit
from tests.browser.site import ACCOUNT, SIGN_IN
from tests.browser.visitor import Role, Visitor

CUT_OFF = """
return [...document.querySelectorAll(".scroll")]
  .filter((t) => t.offsetParent && !t.closest("details") && t.scrollWidth > t.clientWidth)
  .map((t) => `a table is cut off: ${t.ariaLabel}`)
"""
# Other tables of the database may be wider than the page, except on a phone, where their rows are cards.
OUR_TABLES = {
    "home", "home-times", "sessions", "session", "calls", "calls-by-session", "call", "call-cut",
    "tools", "savings", "savings-models", "settings",
}  # fmt: skip
_LEFT = """
return ["main > *, main > .narrow > *", ".brand"].map((all) =>
  Math.min(...[...document.querySelectorAll(all)].filter((each) => each.offsetParent && each.offsetWidth > 1)
    .map((each) => Math.round(each.getBoundingClientRect().left))));
"""
FITTING = {
    1280: OUR_TABLES | {"query"},
    820: OUR_TABLES,
    360: OUR_TABLES | {"query", "cost-lines"},
}


def test_no_page_stands_in_anybodys_way(rosa, example):
    def find_cut_off(name, width):
        return rosa.run(CUT_OFF) if name in FITTING[width] else []

    assert set(example.pages()) > OUR_TABLES
    assert_fit(rosa, example.pages(), find_more=find_cut_off)


def test_no_page_of_somebody_new_stands_in_anybodys_way(browser, site):
    outside = {"sign-in": "/sign-in", "link": site.make_link(), "used": "/sign-in/link"}
    assert_fit(browser, outside, ALL_LOOKS)
    site.sign_in(browser, "nobody-yet@example.org")
    assert_fit(browser, {"home": "/", "settings": "/settings", "traces": "/traces"})


def report_in_vain(site, email):
    """Use up a budget, and note that its webhook was told in vain, for a reason in long words."""
    rule = WebhookRule(allows_loopback=True)
    with site.control() as control:
        management = Management(control, site.service.data_dir, webhook_rule=rule)
        caller = management.find_caller(email)
        management.budgets.put_webhook(caller, f"http://127.0.0.1:9/{'services' * 9}")
        status = management.budgets.put(caller, None, period="month", limit_usd=10, action="warn")
        span = Span(clock.now(), clock.now() + timedelta(days=1))
        with control.transaction() as db:
            budget_alerts.make_alert(db, status.budget, span, 10.0, clock.now())
            for each in deliveries.list_due(db, clock.now(), 9):
                error = f"it did not respond: ConnectError({'connection' * 5})"
                deliveries.note_failed(
                    db, each, error, clock.now(), is_final=each.channel == "mail"
                )


def test_alerts_that_were_sent_fit_on_a_phone(browser, site):
    site.sign_in(browser, "alerted@example.org")
    report_in_vain(site, "alerted@example.org")

    def find_cut_off(_name, width):
        browser.screenshot(f"latest-alerts-{width}")
        return browser.run(CUT_OFF)

    assert_fit(browser, {"budgets": "/settings/budgets"}, ALL_LOOKS, find_more=find_cut_off)
    words = browser.run("return document.querySelector('[aria-label=\"Latest alerts\"]').innerText")
    assert "servicesservices" in words
    assert "given up" in words


def test_all_pages_begin_at_the_same_left_edge(browser, site, rosa, example):
    pages = [
        (rosa, example.pages()[name])
        for name in ("home", "calls", "tools", "settings", "search", "queries")
    ]
    for visitor, address in [*pages, (browser, "/sign-in")]:
        for width in (1280, 390):
            visitor.resize(width, 900)
            visitor.open(address)
            content, brand = visitor.run(_LEFT)
            assert content == brand, (address, width)


def test_a_long_outcome_runs_into_nothing_on_a_phone(rosa, example):
    rosa.open(example.pages()["calls"])
    rosa.run(
        "document.querySelectorAll('.outcome .mark').forEach((mark) => {"
        " mark.className = 'mark cut'; mark.textContent = 'cut by the client'; })"
    )
    for width in (360, 390):
        rosa.resize(width, 844)
        assert rosa.faults() == []


def test_text_stands_out_from_what_is_behind_it_in_the_dark_too(rosa):
    """The colours themselves are computed elsewhere; here, that they follow what a person prefers."""
    rosa.open("/")
    paper = "return getComputedStyle(document.body).backgroundColor"
    rosa.prefer("light")
    light = rosa.run(paper)
    rosa.prefer("dark")
    assert rosa.run(paper) != light


def name_from(visitor: Visitor, start: str, role: Role) -> str:
    """Return the only name that begins so, of what also says figures."""
    (found,) = (name for name in visitor.names(role) if name.startswith(start))
    return found


def test_all_of_it_works_without_scripts(browser, site):
    link = site.make_link("plain@example.org")
    browser.do_without_scripts()
    browser.open(link)
    browser.follow(SIGN_IN, "button")
    browser.follow("Settings", "link")
    browser.follow("New endpoint", "link")
    browser.fill("Name", "Plain")
    browser.follow("Create endpoint", "button")
    browser.see("The endpoint was created and is ready to use.")
    browser.follow("People & keys", "link")
    browser.follow("New key", "link")
    browser.fill("Name", "plain key")
    browser.follow("Create key", "button")
    browser.see("Copy it now")
    assert "Copy" not in browser.names("button"), "a button that does nothing"

    large = b'{"model": "claude-opus-5-5", "messages": [{"role": "user", "content": "%s"}]}'
    site.upstream.choose = None
    assert site.call(large % (b"Far away. " * 8000), "plain").status == 200
    assert site.count_calls("plain") == 1
    browser.follow("Calls", "link")
    browser.see("plain")
    with browser.page_change():
        browser.run("return document.querySelector('table.calls td a')").click()
    browser.see("Far away.")
    browser.follow(name_from(browser, "Cost & time $0.0001", "link"), "link")
    browser.see("List price")
    browser.follow("Conversation", "link")
    browser.click(name_from(browser, "Settings", "menu"), "menu")
    browser.follow("Open on a separate page", "link")
    browser.see("claude-opus-5-5")
    browser.follow("Conversation", "link")
    browser.see("Far away.")
    browser.follow("Raw", "link")
    browser.see('"role": "user"')

    browser.follow("Settings", "link")
    browser.follow("Plain", "link")
    browser.follow("Delete this endpoint", "link")
    browser.follow("Delete the endpoint", "button")
    browser.see("The endpoint was deleted")
    browser.click(ACCOUNT.format("plain"), "menu")
    browser.follow("Sign out", "button")
    assert browser.path == "/sign-in"


def test_the_keyboard_is_enough_from_signing_in_to_signing_out(browser, site):
    browser.open(site.make_link("keys@example.org"))
    browser.tab_to(SIGN_IN)
    with browser.page_change():
        browser.press(Keys.ENTER)
    browser.tab_to("Settings")
    with browser.page_change():
        browser.press(Keys.ENTER)
    browser.tab_to("New endpoint")
    with browser.page_change():
        browser.press(Keys.ENTER)
    browser.tab_to("Name")
    browser.press("Made by keys")
    browser.tab_to("Create endpoint")
    with browser.page_change():
        browser.press(Keys.ENTER)
    browser.see("The endpoint was created and is ready to use.")
    browser.see("/proxy/made-by-keys")
    browser.tab_to(ACCOUNT.format("keys"))
    browser.press(Keys.ENTER)
    browser.tab_to("Sign out")
    with browser.page_change():
        browser.press(Keys.ENTER)
    assert browser.path == "/sign-in"


def test_the_first_tab_leads_past_the_menu(rosa):
    rosa.open("/settings")
    rosa.press(Keys.TAB)
    assert rosa.focused == "Skip to the content"
    rosa.press(Keys.ENTER)
    rosa.press(Keys.TAB)
    assert rosa.focused == "Endpoints"


def test_names_and_texts_have_room_on_a_tablet(rosa, example):
    rosa.resize(820, 1180)
    rosa.open("/")
    heights = rosa.run(
        "return [...document.querySelectorAll('.two th[scope=row] a')]"
        ".map((a) => a.getBoundingClientRect().height)"
    )
    assert heights
    assert max(heights) < 30, "the name of a model is on one line"
    rosa.open(example.pages()["session"])
    widths = rosa.run(
        "return [...document.querySelectorAll('.prompt > ol > .line .what')]"
        ".map((e) => e.clientWidth / innerWidth)"
    )
    assert min(widths) > 0.4
