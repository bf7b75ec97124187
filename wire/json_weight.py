"""A limit for JSON that is small as text and slow to parse.

A parsed value takes some 60 bytes and 100 ns, however short its text is: 30 MB of nested empty
arrays take more than a gigabyte and several seconds. The cost is therefore measured as the number
of objects, arrays and members outside of strings; the text of messages is only copied."""

import re

_VALUES = (b"[", b"{", b",")
# Leaving strings out of the count takes as long as parsing, up to so many of these for each value.
_QUOTES, _BACKSLASHES, _BYTES = 2, 10, 80
# A string that is never closed matches up to the end of the data. Otherwise the search would start again
# at each further quote, which takes quadratic time.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_STEP_BYTES = 256 * 1024


def is_light(data: bytes, max_values: int) -> bool:
    """Return whether a JSON text has at most ``max_values`` values.

    May be wrongly False for texts with very many quotes or backslashes, never wrongly True."""
    if len(data) <= max_values or not _has_more(data, _VALUES, max_values):
        return True
    if (
        len(data) > _BYTES * max_values
        or _has_more(data, (b"\\",), _BACKSLASHES * max_values)
        or data.count(b'"') - data.count(b'\\"') > _QUOTES * max_values
    ):
        return False
    return not _has_more(_STRING.sub(b"", data), _VALUES, max_values)


def _has_more(data: bytes, characters: tuple[bytes, ...], limit: int) -> bool:
    """Return whether the characters occur more than ``limit`` times.

    Counting stops as soon as that is certain, since counting many takes time."""
    count = 0
    for start in range(0, len(data), _STEP_BYTES):
        count += sum(data.count(each, start, start + _STEP_BYTES) for each in characters)
        if count > limit:
            return True
    return False
