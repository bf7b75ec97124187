"""The page of the last reconciliation: what members see, and nobody else."""

import re
from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest

from extensions.reconcile.comparison import Figures, Reported, compare
from extensions.reconcile.pages import MAX_ROWS
from extensions.reconcile.result_file import find_file, write_reconciliation
from extensions.reconcile.tests.test_result_file import make_reconciliation
from metering.token_counts import TokenCounts
from tests.dashboard.pages import Page


@pytest.fixture
def keep(settings):
    def keep(person, *items, **changes):
        result = make_reconciliation(**changes)
        if items:
            comparison = compare(items, [], open_day=date(2026, 2, 1))
            result = replace(result, comparison=comparison)
        write_reconciliation(settings.data_dir, person.organization_id, result)

    return keep


def reported(model, cents="1", **changes):
    figures = Figures(tokens=TokenCounts(1, 0, 0, 0), cost_cents=Decimal(cents))
    fields = {"day": date(2026, 1, 2), "kind": "tokens", "model": model, "figures": figures}
    return Reported(**(fields | changes))


def cells(page, row):
    return [
        cell.text
        for cell in Page(page).elements
        if cell.tag in ("td", "th") and cell.parents and cell.parents[-1].tag == "tr"
    ][row * 9 : row * 9 + 9]


def test_before_the_first_run_it_says_what_to_do(ann):
    page = ann.get("/reconciliation").text
    assert "No reports have been fetched" in page
    assert "<code>taximeter reconcile</code>" in page


def test_both_sides_stand_in_a_row_with_the_difference_and_its_causes(ann, keep):
    keep(ann)
    page = ann.get("/reconciliation").text
    assert cells(page, 1) == [
        "2026-01-02",
        "m",
        "$1.2379",
        "$1.0010",
        "+$0.2369",
        "10",
        "6",
        "+4",
        "no known price (1 call); not proxied (4 tokens)",
    ]
    assert "subscription (3 calls, $0.0725)" in page
    assert "wrkspc_01" in page
    assert "apikey_01" in page
    assert "<dt>not proxied</dt>" in page


def test_the_main_figures_are_dollars_and_whole_tokens(ann, keep):
    keep(ann, reported("m", "123456.78", figures=Figures(
        tokens=TokenCounts(12_345_678, 0, 0, 0), cost_cents=Decimal("123456.78"))))  # fmt: skip
    figures = ann.get("/reconciliation").text.partition("By day and model")[0]
    assert '<dd class="figure">$1,234.57 <small>12,345,678 tokens</small></dd>' in figures
    assert '<dd class="figure">+$1,234.57 <small>+12,345,678 tokens</small></dd>' in figures


def test_a_row_without_a_difference_agrees(ann, keep):
    keep(ann, reported("free", "0.001", figures=Figures(cost_cents=Decimal("0.001"))))
    page = ann.get("/reconciliation").text
    assert cells(page, 1)[-1] == "agrees"
    assert "<dt>" not in page.partition("By day and model")[2]


def test_list_prices_and_products_are_shown_where_the_reports_have_them(ann, keep):
    discounted = Figures(cost_cents=Decimal(80), discount_cents=Decimal(20))
    keep(ann, reported("m", figures=discounted, product="claude_console", requests=12))
    page = ann.get("/reconciliation").text
    assert 'list prices</dt><dd class="figure">$1.00</dd>' in page
    listed = page.partition('aria-label="By product of upstream"')[2].partition("</table>")[0]
    for cell in ('"row">claude_console<', ">$0.8000<", ">$1.0000<", ">12<"):
        assert cell in listed
    keep(ann)
    assert "By product" not in ann.get("/reconciliation").text


def test_members_of_another_organisation_do_not_see_it(ann, cid, keep):
    keep(ann)
    assert "apikey_01" not in cid.get("/reconciliation").text


def test_nobody_sees_it_without_signing_in(ann, keep):
    keep(ann)
    ann.browser.cookies.clear()
    answer = ann.get("/reconciliation")
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/sign-in")


def test_what_upstream_names_is_text_on_the_page(ann, keep):
    keep(ann, reported("<script>x</script>\u202e"))
    page = ann.get("/reconciliation").text
    assert "<script>x" not in page
    assert "⟨U+202E⟩" in page


def test_of_many_rows_the_first_are_shown(ann, keep):
    keep(ann, *(reported(f"m{number}") for number in range(MAX_ROWS + 1)))
    page = ann.get("/reconciliation").text
    assert len(re.findall(r"<td>\d{4}-\d\d-\d\d</td>", page)) == MAX_ROWS
    assert "The first 300 of 301 rows" in page


def test_a_file_that_cannot_be_read_is_said_and_the_page_works(ann, keep, settings):
    keep(ann)
    find_file(settings.data_dir, ann.organization_id).write_text("{")
    answer = ann.get("/reconciliation")
    assert answer.status_code == 200
    assert "cannot be read. Run taximeter reconcile again." in answer.text


def test_the_page_has_headings_labels_and_no_doubled_ids(ann, keep):
    keep(ann)
    page = Page(ann.get("/reconciliation").text)
    assert page.doubled_ids() == set()
    assert page.unnamed_controls() == []
    assert [each.text for each in page.find("h1")] == ["Reconciliation"]
