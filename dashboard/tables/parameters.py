"""Parameters of canned queries, as ``datasette-metadata.json`` declares them.

SQLite converts ``days=abc`` to 0 without an error. So parameters are checked against their declarations
here, and defaults are filled in, which the page displays. Plain Datasette ignores the declarations; the
generated SQL has the same defaults for it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dashboard.tables import arguments
from metering.formats import format_count


class InvalidParameterError(ValueError):
    """Raised if a parameter does not match its declaration. The message names the valid values."""


def complete(
    declared: Mapping[str, Mapping[str, Any]], given: Sequence[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Return the arguments of a request, with defaults for declared parameters that are missing or blank.

    Raises InvalidParameterError."""
    kept = [(name, value) for name, value in given if name not in declared or value.strip()]
    for name, value in kept:
        if name in declared:
            check(name, declared[name], value)
    present = {name for name, _ in kept}
    defaults = [
        (name, str(about["default"]))
        for name, about in declared.items()
        if name not in present and "default" in about
    ]
    return kept + defaults


def check(name: str, about: Mapping[str, Any], value: str) -> None:
    """Check a value against its declaration. Raises InvalidParameterError."""
    if about["type"] == "integer" and not _is_integer(value, about):
        least, most = about["minimum"], about["maximum"]
        wanted = f"a whole number from {format_count(least)} to {format_count(most)}"
    elif about["type"] == "choice" and value not in about["choices"]:
        wanted = " or ".join(about["choices"])
    else:
        return
    raise InvalidParameterError(f"{name} has to be {wanted}; it is {arguments.shorten(value)}.")


def _is_integer(value: str, about: Mapping[str, Any]) -> bool:
    return arguments.is_number(value) and bool(about["minimum"] <= int(value) <= about["maximum"])
