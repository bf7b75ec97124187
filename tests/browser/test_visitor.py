"""The tools of these tests notice what they are there to notice."""

from urllib.parse import quote

import pytest
from selenium.common.exceptions import WebDriverException

from tests.browser.visitor import new_visitor
from tests.upstream import wait_until

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


def test_a_page_that_another_one_replaces_meanwhile_is_looked_at_again(desk):
    words = "aborted by navigation: loader has changed while resolving nodes"
    errors = [WebDriverException(words)]

    def look():
        if errors:
            raise errors.pop()
        return True

    desk.wait_for(look)
    assert errors == []
    errors.append(WebDriverException("disconnected"))
    with pytest.raises(WebDriverException, match="disconnected"):
        desk.wait_for(look)


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
        wait_until(lambda: len(driver.window_handles) == tabs - 1, "the end of both tabs")
        for address in sites:
            after.open(f"{address}/sign-in")
            assert after.cookies() == {}
            assert after.run_async(read) == []
        assert after.run("return [innerWidth, new Date(0).getTimezoneOffset()]") == [1280, 0]
