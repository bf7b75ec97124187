"""The interface of a sign-in provider for pages, apart from the providers since those import Authlib."""

from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response


class ProviderError(Exception):
    """Raised if the sign-in failed. Its message is for the visitor; ``status`` is the HTTP status of the
    page."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class Provider(Protocol):
    """A sign-in provider. ``name`` is used in addresses and the activity log, ``title`` is displayed."""

    name: str
    title: str

    async def begin(self, request: Request, next_path: str) -> Response:
        """Return a redirect to the provider's sign-in page. Raises ProviderError."""

    async def finish(self, request: Request) -> str:
        """Return the verified email address of a visitor who returns from the provider. Raises
        ProviderError."""

    def take_next_path(self, request: Request) -> str:
        """Return the path to redirect to after signing in, and forget it."""
