"""Sign-in through a provider by OAuth 2, with PKCE and state: the common part of all providers.

Any fault in a provider's response becomes a ProviderError, with one message for the visitor and one line
in the log. Neither contains a code, a token or a secret.
"""

import asyncio
import logging
import re
import ssl
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable
from functools import cache
from typing import Any

import httpx2
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.base_client.errors import MismatchingStateError
from authlib.integrations.starlette_client import OAuth, StarletteOAuth2App
from joserfc.errors import JoseError
from starlette.requests import Request
from starlette.responses import Response

from dashboard import rendering
from dashboard.addresses import HOME, local_path
from dashboard.sign_in.provider import ProviderError
from runtime.settings import Settings

TIMEOUT_S = 10.0
MAX_RESPONSE_BYTES = 1_000_000
MAX_NEXT_LENGTH = 1500  # browsers keep cookies of 4 KB; a longer address is forgotten

logger = logging.getLogger(__name__)


class OAuthProvider(ABC):
    """The common part of all providers. A subclass sets ``name`` and ``title``, and makes the requests."""

    name: str
    title: str

    def __init__(self, settings: Settings) -> None:
        self._callback = f"{settings.base_url}/sign-in/{self.name}/callback"
        self._app = self._register(settings)

    @abstractmethod
    def _register(self, settings: Settings) -> StarletteOAuth2App:
        """Return the Authlib client of this provider for these settings."""

    @abstractmethod
    async def _find_email(self, request: Request) -> str:
        """Return the verified email address of a visitor who returns from the provider. May raise any
        error."""

    async def begin(self, request: Request, next_path: str) -> Response:
        """Return a redirect to the provider's sign-in page. Raises ProviderError."""
        flow = await self._fetch(self._app.create_authorization_url(self._callback))
        address = flow.pop("url")
        await self._app.save_authorize_data(request, redirect_uri=self._callback, **flow)
        request.session[self._next_key] = next_path if len(next_path) <= MAX_NEXT_LENGTH else HOME
        return rendering.redirect(address)

    async def finish(self, request: Request) -> str:
        """Return the verified email address of a visitor who returns from the provider. Raises
        ProviderError."""
        if "error" in request.query_params:
            raise self._refused(request.query_params["error"])
        email: str = await self._fetch(self._find_email(request))
        return email

    def take_next_path(self, request: Request) -> str:
        """Return the path to redirect to after signing in, and forget it."""
        return local_path(str(request.session.pop(self._next_key, HOME)))

    async def _fetch[T](self, response: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await response
        except ProviderError:
            raise
        except MismatchingStateError:
            raise ProviderError(
                f"This sign-in was not started in this browser, or it has expired. Sign in with {self.title} again."
            ) from None
        except (httpx2.HTTPError, TimeoutError) as error:
            logger.warning("%s cannot be reached: %s", self.title, _describe(error))
            raise ProviderError(
                f"{self.title} does not respond. Try again, or sign in another way.", 502
            ) from None
        except AuthlibBaseError as error:
            logger.warning("%s refused a sign-in: %s", self.title, _describe(error))
            raise ProviderError(f"{self.title} refused. Sign in with {self.title} again.") from None
        # Any other shape of a response ends here: a list for an object, no JSON, a bad key.
        except Exception as error:
            logger.warning("%s sent an unusable response: %s", self.title, _describe(error))
            raise ProviderError(
                f"{self.title} sent an invalid response. Sign in another way.", 502
            ) from None

    def _refused(self, code: str) -> ProviderError:
        if code == "access_denied":
            return ProviderError(f"Access was denied at {self.title}.")
        logger.warning("%s refused a sign-in: %s", self.title, _clean(code))
        return ProviderError(f"{self.title} refused. Sign in with {self.title} again.")

    @property
    def _next_key(self) -> str:
        return f"{self.name}_next"


def register(name: str, *, client_kwargs: dict[str, Any], **options: Any) -> StarletteOAuth2App:
    """Return an Authlib client with these options, with PKCE and limits on time and size."""
    kwargs = {
        "code_challenge_method": "S256",
        "timeout": TIMEOUT_S,
        "verify": _trust(),
        "event_hooks": {"response": [_bound]},
        # What is compressed could be of any size once it is read.
        "headers": {"accept-encoding": "identity"},
    } | client_kwargs
    return OAuth().register(name, client_kwargs=kwargs, user_agent="taximeter", **options)


class _BoundedStream(httpx2.AsyncByteStream):
    """The body of a response, which raises httpx2.ReadError above ``MAX_RESPONSE_BYTES``."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MAX_RESPONSE_BYTES
        async for chunk in self._stream:
            left -= len(chunk)
            if left < 0:
                raise httpx2.ReadError("the response is too large")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _bound(response: httpx2.Response) -> None:
    """Limit the size of a response's body. Raises httpx2.DecodingError if the body is compressed."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx2.DecodingError("the response is compressed", request=response.request)
    if isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _BoundedStream(response.stream)


@cache
def _trust() -> ssl.SSLContext:
    """Return the TLS context with the certificate authorities, made once since reading them takes time."""
    return httpx2.create_ssl_context()


def _describe(error: BaseException) -> str:
    """Return a description of an error for the log. It has no texts of the provider, which may quote
    secrets."""
    match error:
        case httpx2.HTTPStatusError():
            return f"status {error.response.status_code} from {error.request.url.copy_with(query=None)}"
        case httpx2.HTTPError():
            return f"{type(error).__name__} {error}".rstrip()
        case AuthlibBaseError() | JoseError():
            return f"{type(error).__name__} {_clean(str(error.error))}"
        case _:
            return type(error).__name__


def _clean(code: str) -> str:
    return code if re.fullmatch(r"[a-z_]{1,40}", code) else "an unknown error"
