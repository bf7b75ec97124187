import json
import sys

import pytest
from click.testing import CliRunner
from wcwidth import wcswidth

from manage.cli.main import cli
from manage.cli.terminal import (
    Colour,
    format_cost,
    format_count,
    format_text,
    format_time,
    make_bar,
    make_table,
    paint,
)

HOSTILE = [
    "\x1b[2J\x1b]0;owned\x07",
    "one\r\ntwo",
    "tab\there",
    "\x9b31m",
    "\u202egnp.exe",
    "\u2028line",
    "nul\0",
    "half \ud800 pair",
]
NAMES = [
    "plain",
    "日本語チーム",
    "\uff46\uff55\uff4c\uff4c",
    "Zoe\u0308",
    "🚕 meter",
    "👩\u200d🔬 lab",
    "한국어",
    "ไทย",
]


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_a_hostile_name_cannot_steer_the_terminal(text):
    assert format_text(text).isprintable()
    table = make_table(("NAME", "ID"), [(text, "1")])
    assert len(table) == 2
    assert all(line.isprintable() for line in table)


def test_columns_are_aligned_whatever_characters_the_cells_have():
    table = make_table(("NAME", "COUNT"), [(name, "1") for name in NAMES])
    places = {wcswidth(line[: line.rindex("  ")]) for line in table[1:]}
    widths = {wcswidth(line) for line in table[1:]}
    assert len(widths) == 1, (places, table)


def test_numbers_are_aligned_to_the_right():
    assert make_table(("A", "N"), [("x", "1"), ("yy", "1,000")], right=["N"]) == [
        "A       N",
        "x       1",
        "yy  1,000",
    ]


def test_a_long_row_is_neither_cut_nor_wrapped():
    (_, line) = make_table(("NAME", "ID"), [("n" * 500, "i" * 500)])
    assert line == "n" * 500 + "  " + "i" * 500


def test_a_table_without_rows_is_its_header():
    assert make_table(("NAME", "ID"), []) == ["NAME  ID"]


def test_bars_are_as_long_as_their_share(monkeypatch):
    monkeypatch.setattr("manage.cli.terminal.can_print", lambda text: True)
    assert make_bar(10, 10, width=4) == "████"
    assert make_bar(5, 10, width=4) == "██"
    assert make_bar(9, 16, width=2) == "█▏"
    assert make_bar(0.001, 10, width=4) == "▏"
    assert make_bar(0, 10) == make_bar(0, 0) == ""


def test_bars_are_plain_where_the_terminal_knows_no_blocks(monkeypatch):
    monkeypatch.setattr("manage.cli.terminal.can_print", lambda text: False)
    assert make_bar(10, 10, width=4) == "####"


def test_numbers_are_written_for_people():
    assert format_cost(1234567.8) == "$12,345.6780"
    assert format_cost(None) == format_count(None) == "-"
    assert format_count(1234) == "1,234"


def test_times_are_utc(far_from_utc):
    assert format_time("2026-01-02T03:04:05.678Z") == "2026-01-02 03:04"
    assert format_time(None) == "-"
    assert format_time("\x1bsoon").isprintable()


def test_json_survives_a_terminal_that_knows_only_ascii(data_dir, run):
    run("endpoints", "create", "Zoë 日本")
    result = CliRunner(charset="ascii").invoke(
        cli, ["endpoints", "list", "--json", "--data-dir", str(data_dir)]
    )
    assert json.loads(result.stdout)["items"][0]["name"] == "Zoë 日本"


@pytest.fixture
def terminal(monkeypatch):
    """A terminal that shows colours."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_a_terminal_has_colours(terminal):
    assert paint("lost", Colour.FAILED) == "\x1b[31mlost\x1b[0m"


@pytest.mark.parametrize(
    ("name", "value"), [("NO_COLOR", "1"), ("NO_COLOR", "0"), ("TERM", "dumb")]
)
def test_whoever_wants_no_colours_gets_none(terminal, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert paint("lost", Colour.FAILED) == "lost"


def test_an_empty_no_color_is_none(terminal, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "")
    assert paint("lost", Colour.FAILED) != "lost"


def test_a_pipe_has_no_colours(terminal, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    assert paint("lost", Colour.FAILED) == "lost"


@pytest.mark.parametrize("text", HOSTILE)
def test_recorded_codes_do_not_colour(terminal, text):
    painted = paint(text, Colour.FOUND)
    assert painted.removeprefix(Colour.FOUND).removesuffix("\x1b[0m").isprintable()
