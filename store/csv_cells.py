"""Cells of CSV files that a spreadsheet would take for formulas.

What calls carry is written by whoever sends them. Text that begins with one of a few characters is run
when the file is opened, and a formula can fetch addresses and start programs:
https://owasp.org/www-community/attacks/CSV_Injection
"""

import re

# The full-width forms are what some spreadsheets also take for = + - @.
_BEGINS_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)


def neutralize[Cell](cell: Cell) -> Cell | str:
    """Return the cell with an apostrophe in front when a spreadsheet would execute it, else as it is.

    Numbers stay numbers, also those that are written as text."""
    if not isinstance(cell, str) or not cell.startswith(_BEGINS_FORMULA):
        return cell
    return cell if _NUMBER.fullmatch(cell) else f"'{cell}"
