import pytest

from store.csv_cells import neutralize


@pytest.mark.parametrize(
    "text",
    [
        '=HYPERLINK("https://elsewhere.example","open")',
        "+1+cmd|' /C calc'!A0",
        "-2+3+cmd",
        "@SUM(A1)",
        "\t=1+1",
        "\r=1+1",
        "\n=1+1",
        "\uff1d1+1",
        "-",
        "--1",
        "-1\n=2",
        "+\u0661",
    ],
)
def test_what_a_spreadsheet_would_execute_gets_an_apostrophe_in_front(text):
    assert neutralize(text) == "'" + text


@pytest.mark.parametrize(
    "cell",
    [None, "", 0, -1, -1.5, True, "-1", "+1.5", "-1.5e-07", "claude-opus-5-5", "a=b", " =1", b"=1"],
)
def test_everything_else_stays_as_it_is(cell):
    assert neutralize(cell) is cell
