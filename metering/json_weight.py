"""Tell JSON that is quick to parse from JSON that only looks small.

A parsed value takes some 60 bytes and 100 ns, however short it was: 30 MB of empty arrays in arrays take
more than a gigabyte and several seconds. What counts is how many objects, arrays and members there are
outside of strings, since the text of messages is merely copied.
"""

import re

_VALUES = (b"[", b"{", b",")
# To leave the strings out of the count takes as long as parsing, up to so many of these for each value.
_QUOTES, _BACKSLASHES, _BYTES = 2, 10, 80
# One that never closes goes to the end of the data: were it no match, the search would begin again at
# the next quote in it, and again, which takes the square of the time.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_STEP_BYTES = 256 * 1024


def is_light(data: bytes, max_values: int) -> bool:
    """Return whether there are at most so many values in a JSON text."""
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
    """Count only until that is certain: where there are many, counting is what takes time."""
    count = 0
    for start in range(0, len(data), _STEP_BYTES):
        count += sum(data.count(each, start, start + _STEP_BYTES) for each in characters)
        if count > limit:
            return True
    return False
