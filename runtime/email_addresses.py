"""E-mail addresses, in the normal form in which they are compared."""

import re
import unicodedata
from contextlib import suppress

from runtime.errors import InvalidInputError

MAX_EMAIL_LENGTH = 254
_CHARS = r"[^\s@<>\"'(),:;\[\]\\]+"
# An apostrophe is within a name, as in O'Neil; around one it would be a quote, which some programs remove.
_EMAIL = re.compile(f"{_CHARS}(?:'{_CHARS})*@{_CHARS}")


def parse_email(text: str) -> str:
    """Return an e-mail address in normal form: stripped and in lower case.

    Raises InvalidInputError for text that is not an e-mail address."""
    typed = text.strip()
    email = typed.lower()
    # The Kelvin sign is a k in lower case; most others that are like another letter stay unlike it.
    is_plain = unicodedata.is_normalized("NFKC", typed)
    fits = len(email) <= MAX_EMAIL_LENGTH and email.isprintable() and _EMAIL.fullmatch(email)
    # An encoded word would be decoded in the header of a mail (RFC 2047), to another address.
    if fits and is_plain and "=?" not in email:
        mailbox, _, domain = email.partition("@")
        with suppress(UnicodeError):
            return f"{mailbox}@{parse_domain(domain)}"
    raise InvalidInputError(
        f"{text!r} is not a valid e-mail address: use one such as ada@example.org", "email"
    )


def parse_domain(domain: str) -> str:
    """Return a domain in Unicode: ``bücher.example`` for ``xn--bcher-kva.example``.

    Raises UnicodeError for a domain that IDNA would change into another: ``straße`` into ``strasse``."""
    if not all(domain.split(".")):
        raise UnicodeError("a part of it is empty")
    if domain.isascii() and "xn--" not in domain:
        return domain
    try:
        read = domain.encode("idna").decode("idna")
    except UnicodeError:
        if domain.isascii():  # later rules know more names
            return domain
        raise
    if not domain.isascii() and read != domain:
        raise UnicodeError("it would be written as another")
    return read
