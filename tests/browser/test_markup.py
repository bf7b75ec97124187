"""Markup that came with calls, names and addresses is shown as text on every page, and never runs.

The pages are found as a person finds them, by following links, so a page that is added is tested too.
That nothing was refused by the policy (a script that got in would be) every test here checks at its end,
and so it is with dialogs.
"""

import json
import re
from dataclasses import dataclass
from urllib.parse import quote, urljoin, urlsplit

import pytest

from runtime.clock import now
from store.control import api_keys, invitations, people
from store.control.database import ControlDatabase
from store.control.sign_in import SignIn
from tests.browser.looks import unfold
from tests.browser.site import Site
from tests.browser.visitor import Visitor
from tests.live.messages import Answer, text, tool_use
from tests.mailbox import html_of, text_of
from tests.proxy_endpoints import create_endpoint
from tests.upstream import answer, message_json

MARKS = (
    "<script>alert('script')</script>",
    "<img id=injected src=x onerror=alert('img')>",
    "\"><svg id=injected onload=alert('svg')>",
    "'onmouseover='alert(1)' id='injected",
    "</textarea></title></style></script><b id=injected>b</b>",
    "[link](javascript:alert('link'))",
    "<a id=injected href=\"javascript:alert('a')\">a</a>",
    "{{ 7 * 7 }}{% raw %}${alert(1)}",
    "<!--<base id=injected href=http://evil.example/>",
    "<style id=injected>* { display: none }</style>",
)
ALL_MARKS = " ".join(MARKS)
LONG = ALL_MARKS * 200
MOST_PAGES = 300
_STARTS = (
    "/",
    "/settings/endpoints",
    "/settings/people",
    "/traces",
    "/traces/usage",
    "/traces/usage_log",
    "/traces/cost_by_model",
)
_TABS = ("calls", "context", "savings", "tools")  # of a session
# The other tables and queries: the templates and scripts of those above.
_RESULT = re.compile(r"/traces/[a-z_]+")
_IDENTITY = re.compile(r"[0-9a-f-]{20,}|[0-9]+")
_FIND_INTRUDERS = """
const findIntruders = (page) => [
  ...page.querySelectorAll("#injected, base, [onerror], [onload], [onmouseover]"),
  ...[...page.scripts].filter((s) => s.textContent.includes("alert(")),
  ...[...page.links].filter((a) => !a.protocol.startsWith("http")),
].map((e) => e.outerHTML.slice(0, 200))
"""
# What would be wrong with a page. One that is parsed so runs nothing and loads nothing.
_READ = """
const read = async (address) => {
  const text = await (await fetch(address, {headers: {accept: "text/html"}})).text();
  const page = new DOMParser().parseFromString(text, "text/html");
  return page.querySelector("h1") ? findIntruders(page) : [`no page: ${text}`];
};
read(arguments[0]).then(done, (error) => done([String(error)]))
"""
# The file of a session has styles within, which the policy of a page that parses it refuses; it has a test of
# its own.
_DOWNLOADS = (
    *(".csv", ".json", ".jsonl", ".jsono", ".parquet", ".blob", ".db", "/export.html"),
    *("/healthz", "/request", "/response"),
)


@dataclass(frozen=True)
class Marked:
    """An organisation in which all that can have a name has an evil one."""

    site: Site
    session: str
    endpoint_slugs: tuple[str, ...]
    call_ids: tuple[int, ...]


@pytest.fixture(scope="module")
def marked(site: Site) -> Marked:
    slugs = tuple(f"marked-{number}" for number in range(len(MARKS)))
    with ControlDatabase(site.service.data_dir / "control.db") as control:
        session = make_organization(control, slugs)
    for number, slug in enumerate(slugs):
        send_marks(site, number, slug)
    assert site.count_calls("marked-%") == len(MARKS)
    return Marked(site, session, slugs, tuple(range(1, len(MARKS) + 1)))


def make_organization(control: ControlDatabase, slugs: tuple[str, ...]) -> str:
    """Names are what people choose; the addresses could not get past our forms. The session of its
    owner."""
    with control.transaction() as db:
        organization = people.create_organization(db, " ".join(MARKS[:4]))
        users = [people.create_user(db, f"{number}@marked.example") for number in range(len(MARKS))]
        for mark, user_id in zip(MARKS, users, strict=True):
            db.execute("update users set email = ? where id = ?", (mark, user_id))
        for number, user_id in enumerate(users):
            people.join(db, organization.id, user_id, "member" if number else "owner")
        for mark in MARKS[:2]:
            api_keys.create(db, organization.id, users[0], mark)
            waiting = invitations.create(db, organization.id, "x@example.org", mark, now())
            db.execute("update invitations set email = ? where id = ?", (mark, waiting.id))
    for mark, slug in zip(MARKS, slugs, strict=True):
        create_endpoint(control, organization.id, mark, slug)
    session = SignIn(control).use_link(SignIn(control).make_link(users[0]))
    assert session is not None
    return session.token


def send_marks(site: Site, number: int, slug: str) -> None:
    """A call in which all that client and upstream can say is evil. The first is large."""
    mark = MARKS[number]
    said = Answer(
        content=[text(ALL_MARKS if number else LONG), tool_use(MARKS[1], {MARKS[2]: MARKS[3]})],
        message_id=MARKS[0],
    )
    scripts = (
        said.script(streamed=True),
        answer(200, message_json(mark, model=mark)),
        answer(400, json.dumps({"error": {"type": mark, "message": mark}}).encode()),
    )
    site.upstream.choose = lambda _request: scripts[number % 3]
    words = LONG if number == 0 else ALL_MARKS
    request = {
        "model": mark,
        "system": mark,
        "tools": [{"name": mark, "description": mark, "input_schema": {mark: mark}}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": words}]}],
        "metadata": {"user_id": mark},
    }
    site.call(
        json.dumps(request).encode(),
        slug,
        ("User-Agent", f"{mark.replace(' ', '/')}/1.0"),
        ("X-Claude-Code-Session-Id", mark),
    )


@pytest.fixture
def owner(marked: Marked, desk: Visitor, site: Site) -> Visitor:
    """Signed in where everything is marked."""
    desk.set_cookie(site.cookie, marked.session, httpOnly=True)
    return desk


def links_on(visitor: Visitor) -> list[str]:
    """Return the addresses of links on the page that stay within the service."""
    found = visitor.run("return [...document.links].map((a) => a.href)")
    return [href for href in found if href.startswith(f"{visitor.base_url}/")]


def kind_of(address: str) -> str:
    """Pages of the same kind differ by numbers and by what is asked of them."""
    parts = urlsplit(address)
    path = "/".join("#" if _IDENTITY.fullmatch(part) else part for part in parts.path.split("/"))
    names = sorted({pair.partition("=")[0] for pair in parts.query.split("&")})
    return f"{path}?{'&'.join(names)}"


def template_of(address: str) -> str:
    """Return the path of an address without ids. A session has a mark for one."""
    parts = urlsplit(kind_of(address)).path.split("/")
    return "/".join("#" if "%" in part else part for part in parts)


def walk(visitor: Visitor, starts: list[str]) -> set[str]:
    """Visit pages of every kind there is, looking for what should not be on them. The kinds.

    Those that have the template and scripts of a page that was opened, with other rows or another name, are
    only fetched and parsed."""
    waiting = [urljoin(visitor.base_url, start) for start in starts]
    first = set(waiting)
    seen: set[str] = set()
    opened: set[str] = set()
    asked: list[str] = []
    while waiting and len(seen) < MOST_PAGES:
        address = waiting.pop(0)
        parts = urlsplit(address)
        if kind_of(address) in seen or parts.path.endswith(_DOWNLOADS):
            continue
        seen.add(kind_of(address))
        if template_of(address) == "/sessions/#" and not parts.query:
            waiting += [f"{address}/{tab}" for tab in _TABS]
        is_result = _RESULT.fullmatch(parts.path) and address not in first
        if parts.query or is_result or template_of(address) in opened:
            asked.append(address)
            continue
        opened.add(template_of(address))
        visitor.open(address)
        assert_harmless(visitor)
        waiting += links_on(visitor)
    assert_harmless_as_parsed(visitor, asked)
    return seen


def assert_harmless(visitor: Visitor) -> None:
    """Check that no markup took effect, with everything unfolded and its parts loaded."""
    unfold(visitor)
    assert visitor.run(f"{_FIND_INTRUDERS}; return findIntruders(document)") == [], visitor.address


def assert_harmless_as_parsed(visitor: Visitor, addresses: list[str]) -> None:
    """Check that no markup would take effect on these pages, which are not opened."""
    read = f"{_FIND_INTRUDERS}; {_READ}"
    found = {address: visitor.run_async(read, address) for address in addresses}
    assert found == {address: [] for address in addresses}


def test_markup_is_harmless_on_every_page(marked, owner):
    bodies = [
        f"/traces/usage/{marked.call_ids[0]}/{side}/{view}"
        for side in ("request", "response")
        for view in ("read", "raw")
    ]
    owner.open("/settings/endpoints")
    endpoint = next(each for each in links_on(owner) if kind_of(each) == "/settings/endpoints/#?")
    kinds = walk(owner, [*_STARTS, f"{endpoint}/delete", *bodies])
    assert {
        "/?",
        "/settings/people?",
        "/settings/security?",
        "/settings/endpoints/#?",
        "/settings/endpoints/#/delete?",
        "/settings/keys/#/delete?",
        "/settings/members/#/remove?",
        "/traces?",
        "/calls?",
        "/calls/#?",
        "/calls/#/cost?",
        "/calls/#/raw?",
        "/calls/#/details?",
        "/traces/usage?",
        "/traces/usage/#/replay?",
        "/traces/usage/#/request/read?",
        "/traces/usage/#/response/raw?",
        "/traces/usage_log?",
    } <= kinds
    assert 30 < len(kinds) < MOST_PAGES, "all kinds were visited"
    assert owner.violations() == []


def test_markup_is_harmless_in_every_kind_of_call(marked, owner):
    for call_id in marked.call_ids[:4]:
        owner.open(f"/calls/{call_id}")
        assert_harmless(owner)
        owner.see(MARKS[0])


def test_markup_can_be_read_as_text(owner):
    owner.open("/traces?sql=select+distinct+request_model+from+usage&_size=100")
    for mark in MARKS:
        assert mark in owner.text
    owner.open("/traces?sql=select+request_body+from+usage_log+where+slug='marked-1'")
    assert MARKS[0] in owner.text
    owner.open("/settings/endpoints")
    for mark in MARKS:
        assert mark in owner.text


def test_markup_in_a_mail_is_text_and_its_link_is_harmless(marked, owner, new_browser):
    owner.open("/settings/people/invite")
    owner.run("document.forms.invite.noValidate = true")  # as another program would
    owner.fill("E-mail address", ALL_MARKS)
    owner.follow("Invite", "button")
    assert_harmless(owner)
    owner.see("is not a valid e-mail address")
    owner.fill("E-mail address", "reader@example.org")
    owner.follow("Invite", "button")
    mail = marked.site.mailbox.wait_for("reader@example.org")
    assert html_of(mail) is None
    assert MARKS[0] in text_of(mail)
    reader = new_browser()
    reader.open(f"/sign-in/link?token={text_of(mail).partition('token=')[2].split()[0]}")
    assert_harmless(reader)
    reader.see(MARKS[0])
    with reader.page_change():
        reader.run("return document.querySelector('main button')").click()
    assert_harmless(reader)
    reader.see("reader@example.org")


def test_markup_in_an_address_is_harmless(owner, new_browser):
    stranger = new_browser()
    for start in (
        "/traces/",
        "/traces?sql=select+",
        "/traces/usage?model=",
        "/traces/usage?_facet=",
    ):
        owner.open(start + quote(ALL_MARKS, safe=""))
        assert_harmless(owner)
    of_owner = (
        "/",
        "/settings/people?done=",
        "/settings/people?keys=",
        "/settings/",
        "/traces/usage/1/",
    )
    stranger.open("/sign-in?next=/" + quote(ALL_MARKS, safe=""))
    assert_harmless(stranger)
    of_stranger = (
        "/sign-in?next=",
        "/sign-in/link?token=",
        "/sign-in/github/callback?state=x&error=access_denied&error_description=",
        "/sign-in/google/callback?state=x&error=",
        "/traces/usage?",
    )
    for visitor, starts in ((owner, of_owner), (stranger, of_stranger)):
        assert_harmless_as_parsed(visitor, [start + quote(ALL_MARKS, safe="") for start in starts])
