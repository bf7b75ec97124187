"""The fields of a sign-in provider that pages need.

It is apart from the providers because those import Authlib.
"""

from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response


class ProviderError(Exception):
    """The sign-in failed. The message is for the visitor; ``status`` is that of the page."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class Provider(Protocol):
    """A sign-in provider. ``name`` is in addresses and in the audit log, ``title`` is its name for
    people."""

    name: str
    title: str

    async def begin(self, request: Request, next_path: str) -> Response:
        """Return a redirect to the provider. Raises ProviderError."""

    async def finish(self, request: Request) -> str:
        """Return the verified e-mail address of the visitor who came back. Raises ProviderError."""

    def take_next_path(self, request: Request) -> str:
        """Return the path that the visitor wanted to go to."""
