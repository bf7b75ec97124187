"""axe-core looks at each kind of page, by the rules of WCAG 2 (A, AA) and its best practices.

It finds nothing. Its rules are not ours: it sees what the checks of ``page.js`` do not, and the reverse.
"""

import json
from typing import Literal

import pytest

from tests import ROOT
from tests.browser.site import Site
from tests.browser.visitor import Visitor
from tests.live.clients.programs import MODULES

_AXE = MODULES / "axe-core" / "axe.min.js"
# Rows of a table that differ in words alone fail by the same rules, so that two of each kind are enough.
_DROP_ROWS_LIKE_OTHERS = """
const kindOf = (row) => row.outerHTML.replace(/>[^<]*[^<\\s][^<]*/g, ">words").replace(/ (?!class|role|type|aria-hidden)([\\w-]+)="[^"]+"/g, " $1");
for (const table of document.querySelectorAll("table")) {
  const seen = new Map();
  for (const row of [...table.querySelectorAll("tbody tr")]) {
    const kind = kindOf(row), count = (seen.get(kind) ?? 0) + 1;
    seen.set(kind, count);
    if (count > 2) row.remove();
  }
}
"""
_RUN = """
axe.run(document, {resultTypes: ["violations"], ...arguments[0]}).then(
  (found) => done(found.violations.flatMap(
    (each) => each.nodes.map((node) => `${each.id}: ${node.target.join(" ")}: ${node.html.slice(0, 120)}`))),
  (error) => done([String(error)]),
);
"""

# All that differs in dark colours, since no rule of a style sheet asks for the scheme (`light-dark` does).
_OF_COLOURS = ["color-contrast", "link-in-text-block"]
_LOOKS: dict[Literal["light", "dark"], dict[str, object]] = {
    "light": {},
    "dark": {"runOnly": {"type": "rule", "values": _OF_COLOURS}},
}
_RULES_OF_COLOURS = """
return axe.getRules(["cat.color"]).filter((rule) => !rule.tags.includes("wcag2aaa")).map((rule) => rule.ruleId);
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not _AXE.exists(),
        reason="there is no axe-core; tests/live/node/install.sh installs it with npm",
    ),
]


def find_faults(visitor: Visitor, pages: dict[str, str]) -> dict[str, list[str]]:
    """Return what axe-core finds on pages in light and dark colours, by their names."""
    found = {}
    # In each page from now on. To send it to each takes five times as long.
    visitor.cdp("Page.addScriptToEvaluateOnNewDocument", source=_AXE.read_text())
    for name, address in pages.items():
        visitor.open(address)
        visitor.run(_DROP_ROWS_LIKE_OTHERS)
        for scheme, options in _LOOKS.items():
            visitor.prefer(scheme)
            if faults := visitor.run_async(_RUN, options):
                found[f"{name}, {scheme}"] = faults
    return found


def test_axe_finds_nothing_on_the_pages_of_an_organisation(rosa, example):
    rosa.resize(1280, 900)
    pages = example.pages()
    # A table as that of the lines of costs, with ten times as many columns.
    assert "cost-lines" in pages
    del pages["columns"]
    found = find_faults(rosa, pages)
    assert found == {}, json.dumps(found, indent=1)


def test_axe_finds_nothing_on_the_pages_for_signing_in(browser: Visitor, site: Site):
    pages = {"sign-in": "/sign-in", "link": site.make_link(), "used": "/sign-in/link?token=used"}
    found = find_faults(browser, pages)
    assert found == {}, json.dumps(found, indent=1)


def test_in_dark_colours_every_rule_about_colours_is_looked_at(browser: Visitor):
    browser.open("/sign-in")
    browser.run(_AXE.read_text())
    assert sorted(browser.run(_RULES_OF_COLOURS)) == _OF_COLOURS
    sheets = [path.read_text() for path in (ROOT / "dashboard" / "static").glob("*.css")]
    assert sheets
    assert not any("prefers-color-scheme" in sheet for sheet in sheets)
