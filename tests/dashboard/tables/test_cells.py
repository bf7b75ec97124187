"""Cells of tables and query results: what a page shows for what is stored."""

import html
import re

import pytest
from markupsafe import Markup

from dashboard.tables.cells import column_label, query_cells, render_value

UUID = "019b2f3a-5a0e-7c77-9d0f-2f6b54d1e0aa"


def text_of(markup):
    assert isinstance(markup, Markup)
    return html.unescape(re.sub(r"<[^>]+>", "", markup))


@pytest.mark.parametrize(
    ("column", "value", "shown"),
    [
        ("calls", 1234567, "1,234,567"),
        ("duration_ms", 1234.56789, "1,235"),
        ("duration_ms", 12.0, "12"),
        ("requests_percent", 90, "90.0"),
        ("hit_ratio", 0.0, "0.000"),
        ("requests_percent", 62.5, "62.5"),
        ("output_tokens_per_s", 45.678, "45.7"),
        ("hit_ratio", 0.873, "0.873"),
        ("anything", 0.0000012, "1.2e-06"),
        ("anything", float("inf"), "inf"),
        ("cost_cents", 1.25, "$0.0125"),
        ("cents", 123456, "$1,234.56"),
        ("cost_usd", 1234.5678, "$1,234.57"),
        ("rate_usd", 0.3, "$0.30"),
        ("status_code", 1529, "1529"),
        ("some_id", 1234567, "1234567"),
        ("created_at", "2026-01-02T03:04:05.678Z", "2026-01-02 03:04:05"),
        ("hour", "2026-01-02T03", "2026-01-02 03:00"),
        ("last_hour", "2026-01-02T03", "2026-01-02 03:00"),
        ("text", "2026-01-02T03", "2026-01-02T03"),
        ("session_id", UUID, "019b2f3a…e0aa"),
        ("session_id", "night shift", "night shift"),
        ("text", UUID, "019b2f3a…e0aa"),
        ("slug", "a\u202eb\x1b", "a⟨U+202E⟩b⟨U+001B⟩"),
    ],
)
def test_a_value_is_shown_as_people_read_it(column, value, shown):
    assert text_of(render_value(column, value, str(value))) == shown


@pytest.mark.parametrize(
    ("column", "value", "title"),
    [("cost_cents", 1.25, "1.25 cents"), ("text", UUID, UUID), ("cost_usd", 1.23456, "1.23456")],
)
def test_what_is_shortened_has_its_stored_value_in_a_title(column, value, title):
    assert f'title="{title}"' in render_value(column, value, str(value))


@pytest.mark.parametrize(
    ("column", "value", "address"),
    [
        ("usage_id", 7, "/calls/7"),
        ("entry_id", UUID, f"/calls/{UUID}"),
        ("session_id", "a/b c", "/sessions/a%2Fb%20c"),
        ("agent_id", "main&x=1", "/traces/usage?agent_id=main%26x%3D1"),
    ],
)
def test_an_identifier_links_to_its_calls(column, value, address):
    assert f'<a href="{address}"' in render_value(column, value, str(value))


@pytest.mark.parametrize(
    ("sql", "is_linked"),
    [
        ("select id from usage", True),
        ("select u.id from Usage_Log as u", True),
        ("select id from pieces", False),
        ("select id from usage_hourly", False),
    ],
)
def test_an_id_links_to_a_call_where_the_query_reads_calls(sql, is_linked):
    assert ('href="/calls/7"' in query_cells(["id"], ["7"], [7], sql)) == is_linked


def test_links_of_datasette_stay_with_their_characters_shown():
    link = Markup('<a href="https://example.org/">a\u202eb</a>')
    assert render_value("url", "https://…", link) == link.replace("\u202e", "⟨U+202E⟩")


def test_markup_in_a_value_or_a_column_name_is_escaped():
    evil = "<img src=x onerror=alert(1)>\"'"
    for column in ("slug", "session_id", "entry_id", evil):
        assert "<img" not in query_cells([column], [evil], [evil], "select 1")
    assert "<img" not in column_label(evil)


def test_a_heading_names_what_is_shown():
    assert column_label("slug") == "slug"
    assert text_of(column_label("cost_cents")) == "cost_usd"
    assert column_label("input_tokens_percent") == "input_tokens_<wbr>percent"
    assert column_label("cache_creation_input_tokens") == "cache_creation_<wbr>input_tokens"
    assert text_of(column_label("estimated_cents")) == "estimated_usd"
    assert "cost_cents" in column_label("cost_cents")
