import pytest

from runtime.csv_cells import neutralize


@pytest.mark.parametrize(
    "text",
    [
        '=HYPERLINK("https://elsewhere.example","open")',
        "+1+cmd|' /C calc'!A0",
        "-2+3+cmd",
        "@SUM(A1)",
        "\uff1d1+1",
        "-",
        "--1",
        "+\u0661",
        "\tx",
        "\rx",
        "\nx",
        " =1+1",
        '"=1+1',
    ],
)
def test_what_a_spreadsheet_would_execute_gets_an_apostrophe_in_front(text):
    assert neutralize(text) == "'" + text


@pytest.mark.parametrize(
    "cell",
    [
        None,
        "",
        0,
        -1,
        -1.5,
        True,
        "-1",
        "+1.5",
        "-1.5e-07",
        "claude-opus-5-5",
        "a=b",
        "a;b",
        "1;-1;+2.5",
        b"=1",
    ],
)
def test_everything_else_stays_as_it_is(cell):
    assert neutralize(cell) is cell


@pytest.mark.parametrize("separator", [";", "\t", "\r", "\n", "\r\n"])
def test_so_does_what_becomes_a_cell_where_other_separators_are_used(separator):
    assert neutralize(f'a{separator}=1+1{separator} "@x') == f"a{separator}'=1+1{separator}' \"@x"
    assert neutralize(f"a {separator}=1+1") == f"a {separator}'=1+1"
    assert neutralize(f"-1{separator}=2") == f"-1{separator}'=2"


def test_long_text_takes_time_in_proportion_to_its_length():
    texts = [";" * 1_000_000, '; "' * 300_000, ";1" * 500_000, ";" + " " * 1_000_000]
    assert [neutralize(text) for text in texts] == texts
