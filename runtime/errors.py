"""What people ask for and cannot have:

ControlError
├── InvalidInputError       what was given cannot be used
│   ├── InvalidSlugError
│   └── InvalidCursorError
├── ConflictError           it is there already
│   ├── SlugTakenError
│   └── LimitReachedError
├── ForbiddenError          it is there, and belongs to a colleague
│   └── SignUpRefusedError
└── NotFoundError           it is not there, or belongs to another organisation

``field`` names the input that is at fault, where one is.
"""


class ControlError(Exception):
    """What a person asked for and cannot have. Its message says what to do instead."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class InvalidInputError(ControlError):
    """What was given cannot be used."""


class InvalidSlugError(InvalidInputError):
    """The text is not a slug."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "slug")


class InvalidCursorError(InvalidInputError):
    """The text is no cursor of this list."""

    def __init__(self) -> None:
        super().__init__("this is no cursor of this list; pass nextCursor as it came", "cursor")


class ConflictError(ControlError):
    """It is there already."""


class SlugTakenError(ConflictError):
    """The slug exists, or is reserved for another organisation."""

    def __init__(self, slug: str) -> None:
        super().__init__(f"the slug {slug!r} is taken; choose another", "slug")


class LimitReachedError(ConflictError):
    """There are as many as the service allows."""


class ForbiddenError(ControlError):
    """It is there, and only its owner may do that."""


class SignUpRefusedError(ForbiddenError):
    """Somebody without an account may not create one by signing in."""

    def __init__(self) -> None:
        super().__init__(
            "no account can be created for that address: ask the operator of this service, or an"
            " owner of an organisation here for an invitation"
        )


class NotFoundError(ControlError):
    """No such thing in this organisation."""
