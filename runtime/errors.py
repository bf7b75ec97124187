"""Errors whose messages say what to do. Each error that the caller causes has an HTTP status.

ControlError
├── InvalidInputError       400  an input is not valid
│   ├── InvalidSlugError
│   └── InvalidCursorError
├── ForbiddenError          403  the thing exists, and belongs to a colleague
│   └── SignUpRefusedError
├── NotFoundError           404  the thing does not exist, or belongs to another organisation
└── ConflictError           409  the thing exists already
    ├── SlugTakenError
    └── LimitReachedError

The API, the pages and the command line all use ``status`` and ``code`` of these errors, and
``restore_error`` makes the same error again from a response of the API."""

from collections.abc import Mapping
from typing import ClassVar


class ControlError(Exception):
    """An error caused by the caller. Its message is a clause that says what to do instead.

    ``field`` names the invalid input, None if no single one is."""

    status: ClassVar[int] = 400
    code: ClassVar[str] = "invalid_input"

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class InvalidInputError(ControlError):
    """An input is not valid."""


class InvalidSlugError(InvalidInputError):
    """The text is not a valid slug."""


class InvalidCursorError(InvalidInputError):
    """The text is not a cursor of this list."""

    def __init__(self) -> None:
        super().__init__("this is not a cursor of this list; pass nextCursor as it came", "cursor")


class ForbiddenError(ControlError):
    """The thing exists, and only its owner may do this."""

    status = 403
    code = "forbidden"


class SignUpRefusedError(ForbiddenError):
    """The address has no account and may not create one by signing in."""

    def __init__(self) -> None:
        super().__init__(
            "no account can be created for that address: ask the operator of this service, or an"
            " owner of an organisation here for an invitation"
        )


class NotFoundError(ControlError):
    """There is no such thing in this organisation."""

    status = 404
    code = "not_found"


class ConflictError(ControlError):
    """The thing exists already."""

    status = 409
    code = "conflict"


class SlugTakenError(ConflictError):
    """The slug exists, or is reserved for another organisation."""

    code = "slug_taken"


class LimitReachedError(ConflictError):
    """A limit of the service on the number of things is reached."""


# One class for each code; of those with the same status, the base class first.
ERRORS = (InvalidInputError, ForbiddenError, NotFoundError, ConflictError, SlugTakenError)


# Codes of HTTP statuses that no ControlError has.
CODES: Mapping[int, str] = {error.status: error.code for error in reversed(ERRORS)} | {
    401: "unauthorized",
    405: "method_not_allowed",
    413: "too_large",
    415: "unsupported_media_type",
    429: "rate_limited",
    500: "internal_error",
    503: "unavailable",
}
OTHER_CODE = "refused"


def restore_error(
    status: int, code: object, message: str, field: str | None = None
) -> ControlError | None:
    """Return the error that an error response of the API describes, or None if it describes none.

    If this version does not know ``code``, the class is chosen by ``status``."""
    kinds = [kind for kind in ERRORS if kind.status == status]
    kind = next((kind for kind in kinds if kind.code == code), next(iter(kinds), None))
    return None if kind is None else kind(message, field)


def as_sentence(clause: str) -> str:
    """Return an error's message as a sentence. A URL at its beginning stays unchanged."""
    if clause[-1:] in (".", "!", "?"):
        return clause
    first = clause.partition(" ")[0]
    return f"{clause[0].upper()}{clause[1:]}." if first.isalpha() else f"{clause}."


class StartError(Exception):
    """The service cannot start. The message says why and what to do."""


class ChildError(Exception):
    """The service ends because of a child process. The message ends with the child's last lines."""
