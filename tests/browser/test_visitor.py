"""The tools of these tests notice what they are there to notice."""

from urllib.parse import quote

import pytest
from selenium.webdriver.common.keys import Keys

from tests.browser.visitor import new_visitor

STRICT = "<meta http-equiv=content-security-policy content=\"default-src 'none'\">"
SOUND = "<!doctype html><html lang=en><title>Page</title><main><h1>Page</h1>{}</main>"


def page(body: str, head: str = "") -> str:
    return "data:text/html," + quote(head + SOUND.format(body))


@pytest.mark.parametrize(
    "body",
    [
        "<script>console.log(1)</script>",
        "<p style='color: red'>red</p>",
        "<style>p { color: red }</style>",
        "<img alt='' src=http://127.0.0.1:9/x.png>",
        "<img alt='' src=x onerror=console.log(1)>",
        "<iframe title=x src='http://127.0.0.1:9/'></iframe>",
    ],
)
def test_what_the_policy_refuses_is_counted(desk, body):
    desk.open(page(body, STRICT))
    assert desk.violations()
    desk.errors()


def test_violations_are_still_known_on_the_next_page(desk):
    desk.open(page("<script>console.log(1)</script>", STRICT))
    desk.open("/sign-in")
    violations = desk.violations()
    assert len(violations) == 1
    assert "inline script" in violations[0]
    assert desk.violations() == [], "asked for is dealt with"


def test_a_script_that_fails_is_an_error(desk):
    desk.open(page("<script>no.such.thing</script>"))
    assert "no is not defined" in desk.errors()[0]


def test_a_part_of_our_page_that_is_missing_is_an_error(desk, site):
    desk.open("/sign-in")
    desk.run(
        """const sheet = document.createElement("link");
        sheet.rel = "stylesheet"; sheet.href = "/static/none.css"; document.head.append(sheet);"""
    )
    desk.wait_for(lambda: any("/static/none.css" in error for error in desk.errors()))


@pytest.mark.parametrize("dialog", ["alert", "confirm", "prompt"])
def test_a_dialog_is_an_error(desk, dialog):
    desk.open(page(f"<button onclick='{dialog}(1)'>Ask</button>"))
    desk.click("Ask")
    assert f"{dialog}: 1" in desk.errors()[0]


def test_a_page_without_faults_has_none(desk):
    desk.resize(390, 844)
    desk.open(
        page(
            "<h2>Form</h2><label>Name <input></label><label for=kind>Kind</label>"
            "<select id=kind><option>a</select><button>Go</button><img alt='' src=data:,>"
            "<a href='/'><svg aria-hidden=true></svg>Home</a>"
        )
    )
    assert desk.faults() == []


FAULTS = [
    ("<input>", "a field has no label"),
    ("<label for=a>A</label><input><input id=a>", "a field has no label"),
    ("<select><option>a</select>", "a field has no label"),
    ("<button></button>", "a button or link has no name"),
    ("<a href='/'><svg></svg></a>", "a button or link has no name"),
    ("<h1>Two</h1>", "not one first heading"),
    ("<h3>Third</h3>", "a heading skips a level"),
    ("<h2></h2>", "a heading says nothing"),
    ("<img src=data:,>", "a picture has no alternative"),
    ("<svg><path/></svg>", "a picture has no alternative"),
    ("<p id=a></p><p id=a></p>", "an id is there twice"),
    ("<table><tr><td>1</table>", "a table has no column headings"),
    (
        "<table><tr style='display: grid'><th style='grid-area: 1/1'>1"
        "<td style='grid-area: 1/1'>2</table>",
        "the cells of a row overlap",
    ),
    ("<p aria-describedby=nobody>x</p>", "a reference leads nowhere"),
    ("<main></main>", "not one main landmark"),
    ("<p style='width: 600px'>wide</p>", "the page scrolls sideways"),
]


def test_every_fault_is_found(desk, subtests):
    desk.resize(390, 844)
    desk.open(page(""))
    put = "document.querySelector('main').innerHTML = `<h1>Page</h1>${arguments[0]}`"
    for body, fault in FAULTS:
        desk.run(put, body)
        with subtests.test(body):
            assert fault in {found.partition(":")[0] for found in desk.faults()}


def test_visitors_share_no_cookies(new_browser):
    ann, bob = new_browser(), new_browser()
    ann.open("/sign-in")
    bob.open("/sign-in")
    ann.set_cookie("whose", "ann's")
    assert "whose" in ann.cookies()
    assert bob.cookies() == {}


def test_a_visitor_finds_nothing_of_another_who_was_there_before(driver, site):
    write = """localStorage.a = sessionStorage.b = 1;
        const request = indexedDB.open("c");
        request.onsuccess = () => { request.result.close(); done(); };"""
    read = """indexedDB.databases().then(
        (found) => done([...Object.keys(localStorage), ...Object.keys(sessionStorage), ...found]));"""
    sites = (site.url, site.url.replace("127.0.0.1", "localhost"))
    with new_visitor(driver, site.url) as before:
        before.resize(390, 844)
        before.live_in("America/St_Johns")
        for address in sites:
            before.open(f"{address}/sign-in")
            before.set_cookie("whose", "before's")
            before.run_async(write)
            assert before.run_async(read)
        before.run("window.open('/sign-in')")
        tabs = len(driver.window_handles)
    with new_visitor(driver, site.url) as after:
        assert len(driver.window_handles) == tabs - 1
        for address in sites:
            after.open(f"{address}/sign-in")
            assert after.cookies() == {}
            assert after.run_async(read) == []
        assert after.run("return [innerWidth, new Date(0).getTimezoneOffset()]") == [1280, 0]


def test_fields_and_buttons_are_found_by_name(desk):
    desk.open(
        page(
            "<form action=/sign-in><label>Your name <input name=a></label>"
            "<label for=b>Kind</label><select id=b><option>one<option>two</select>"
            "<button aria-label='Send it'>→</button></form>"
        )
    )
    desk.fill("Your name", "Ann")
    desk.choose("Kind", "two")
    assert desk.field("Kind").get_attribute("value") == "two"
    desk.tab_to("Send it")
    with desk.page_change():
        desk.press(Keys.ENTER)


def test_what_is_not_there_is_named_with_what_is(desk, monkeypatch):
    monkeypatch.setattr("tests.browser.visitor.PATIENCE_S", 0.1)
    desk.open(page("<button>Open</button>"))
    with pytest.raises(AssertionError, match=r"button named 'Close'; there are \['Open'\]"):
        desk.click("Close", "button")


def test_the_browser_can_be_elsewhere_and_in_the_dark(browser):
    browser.prefer("dark")
    browser.live_in("America/St_Johns")
    browser.resize(390, 844)
    browser.open("/sign-in")
    assert browser.run("return matchMedia('(prefers-color-scheme: dark)').matches")
    assert browser.run("return new Date(0).getTimezoneOffset()") == 210
    assert browser.run("return innerWidth") == 390


def test_pictures_are_kept_where_asked_and_only_there(desk, tmp_path, monkeypatch):
    monkeypatch.delenv("TAXIMETER_SCREENSHOTS", raising=False)
    desk.open("/sign-in")
    desk.screenshot("sign-in")
    monkeypatch.setenv("TAXIMETER_SCREENSHOTS", str(tmp_path / "shots"))
    desk.screenshot("sign-in")
    assert (tmp_path / "shots" / "sign-in.png").read_bytes().startswith(b"\x89PNG")
