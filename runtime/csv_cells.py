"""Cells of CSV files that a spreadsheet would execute as formulas.

The text of calls is untrusted. Text that begins with one of a few characters is executed when the
file is opened, and a formula can fetch addresses and start programs:
https://owasp.org/www-community/attacks/CSV_Injection

Where a comma is the decimal sign, spreadsheets separate cells at semicolons, and some take tabs:
there a cell of ours becomes several cells, and each of them may be a formula.
"""

import re

# The full-width forms are what some spreadsheets also take for = + - @.
_BEFORE_FORMULA = re.compile(
    r"\A(?=[\t\r\n])"  # left out by some, so that what follows begins the cell
    r'|(?:\A|(?<=[;\t\r\n]))(?=[ "]*[-=+@\uff1d\uff0b\uff0d\uff20])'
    r"(?![+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?:[;\t\r\n]|\Z))",
    re.ASCII,
)


def neutralize[Cell](cell: Cell) -> Cell | str:
    """Return the cell with an apostrophe before each place where a spreadsheet would execute a formula.

    A cell without such a place, and a number, also one written as text, is returned unchanged."""
    return _BEFORE_FORMULA.sub("'", cell) if isinstance(cell, str) else cell
