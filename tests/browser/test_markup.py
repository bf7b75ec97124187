"""Markup that came with calls and names is shown as text on every page, and never runs.

The pages are found as a person finds them, by following links, so a page that is added is tested too.
That nothing was refused by the policy (a script that got in would be) every test here checks at its end.
"""

import json
from urllib.parse import quote, urljoin, urlsplit

import pytest

from store.control import ControlDatabase
from tests.browser.site import Site
from tests.browser.visitor import Visitor
from tests.live.messages import Answer, text, tool_use
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
MOST_PAGES = 45
_STARTS = ("/", "/traces", "/traces/usage", "/traces/usage_log", "/settings")


@pytest.fixture(scope="module")
def marked(site: Site) -> Site:
    """Every field a client, an upstream or a person can fill in says something evil."""
    site.upstream.choose = None
    with ControlDatabase(site.service.data_dir / "control.db") as control:
        organization = control.get_local_organization()
        for number, mark in enumerate(MARKS):
            control.create_endpoint(organization.id, mark, f"marked-{number}")
    before = len(site.service.settled_rows())
    said = Answer(
        content=[text(ALL_MARKS), tool_use(MARKS[1], {MARKS[2]: MARKS[3]})], message_id=MARKS[0]
    )
    for number, mark in enumerate(MARKS):
        site.upstream.enqueue(
            said.script(streamed=True)
            if number % 3 == 0
            else answer(200, message_json(mark, model=mark))
            if number % 3 == 1
            else answer(400, json.dumps({"error": {"type": mark, "message": mark}}).encode())
        )
        request = {
            "model": mark,
            "system": mark,
            "tools": [{"name": mark, "description": mark, "input_schema": {mark: mark}}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": ALL_MARKS}]}],
            "metadata": {"user_id": mark},
        }
        site.call(
            json.dumps(request).encode(),
            f"marked-{number}",
            ("User-Agent", f"{mark.replace(' ', '/')}/1.0"),
            ("X-Claude-Code-Session-Id", mark),
        )
    site.service.wait_for_rows(before + len(MARKS))
    return site


def links_on(visitor: Visitor) -> list[str]:
    """Where one can go from here without leaving the service."""
    found = visitor.run("return [...document.links].map((a) => a.href)")
    return [href for href in found if href.startswith(f"{visitor.base_url}/")]


def kind_of(address: str) -> str:
    """Pages of the same kind differ by numbers and by what is asked of them."""
    parts = urlsplit(address)
    path = "/".join("#" if part.isdigit() else part for part in parts.path.split("/"))
    names = sorted({pair.partition("=")[0] for pair in parts.query.split("&")})
    return f"{path}?{'&'.join(names)}"


def walk(visitor: Visitor) -> list[str]:
    """Visit pages of every kind there is, looking for what should not be on them."""
    waiting = [urljoin(visitor.base_url, start) for start in _STARTS]
    seen: dict[str, str] = {}
    while waiting and len(seen) < MOST_PAGES:
        address = waiting.pop(0)
        if kind_of(address) in seen or is_download(address):
            continue
        seen[kind_of(address)] = address
        visitor.open(address)
        assert_harmless(visitor)
        waiting += links_on(visitor)
    return list(seen.values())


def is_download(address: str) -> bool:
    parts = urlsplit(address)
    return parts.path.endswith((".csv", ".json", ".jsono", ".blob", ".db", "/healthz"))


def assert_harmless(visitor: Visitor) -> None:
    intruders = visitor.run(
        """return [
          ...document.querySelectorAll("#injected, base, [onerror], [onload], [onmouseover]"),
          ...[...document.scripts].filter((s) => s.textContent.includes("alert(")),
          ...[...document.links].filter((a) => !a.protocol.startsWith("http")),
        ].map((e) => e.outerHTML.slice(0, 200))"""
    )
    assert intruders == [], visitor.address
    assert not (violations := visitor.violations()), (visitor.address, violations)
    assert not (errors := visitor.errors()), (visitor.address, errors)


def test_markup_is_harmless_on_every_page(marked, signed_in):
    visited = walk(signed_in)
    paths = {urlsplit(address).path for address in visited}
    assert {"/", "/traces", "/traces/usage", "/traces/usage_log"} <= paths
    assert len(visited) > 20


def test_markup_can_be_read_as_text(marked, signed_in):
    signed_in.open("/traces?sql=select+distinct+request_model+from+usage&_size=100")
    for mark in MARKS:
        assert mark in signed_in.text
    signed_in.open("/traces?sql=select+request_body+from+usage_log+where+slug='marked-1'")
    assert MARKS[0] in signed_in.text


@pytest.mark.parametrize(
    "start", ["/sign-in?next=", "/traces?sql=select+", "/traces/usage?model=", "/traces/"]
)
def test_markup_in_an_address_is_harmless(signed_in, start):
    for mark in MARKS:
        signed_in.open(start + quote(mark, safe=""))
        assert_harmless(signed_in)
