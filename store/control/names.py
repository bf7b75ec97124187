"""Names of organisations, endpoints and keys: any script, one line, at least one visible character."""

import unicodedata

from runtime.errors import InvalidInputError

MAX_LENGTH = 200
# Control characters and line ends could redraw the terminal that lists the name; surrogates are no
# text at all. Marks that only join or direct the text around them are part of many scripts.
_REFUSED = frozenset({"Cc", "Cs", "Zl", "Zp"})


def check_name(name: str, what: str) -> str:
    """Check a name, and return it without space around it.

    ``what`` is the named thing in the message, such as "a key". Raises InvalidInputError."""
    if len(name) > MAX_LENGTH:
        raise InvalidInputError(f"a name must not be longer than {MAX_LENGTH} characters", "name")
    name = name.strip()
    if any(unicodedata.category(character) in _REFUSED for character in name):
        raise InvalidInputError(
            "a name must be one line of text without control characters", "name"
        )
    if not any(_is_visible(character) for character in name):
        raise InvalidInputError(f"{what} needs a name", "name")
    return name


def _is_visible(character: str) -> bool:
    return unicodedata.category(character)[0] not in "CZ"
