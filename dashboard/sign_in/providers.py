"""Sign-in with GitHub (OAuth 2) and Google (OpenID Connect), both with PKCE and state.

A provider supplies an e-mail address, which it must have verified. No token is kept. Between the two
halves of a sign-in, its state is in a signed cookie that lives ten minutes and that only these
addresses read.

Whatever is wrong with a provider's response ends in a ProviderError, with one message for the visitor
and one line in the log, neither of which quotes a code, a token or a secret.
"""

import asyncio
import logging
import re
import ssl
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from functools import cache
from typing import Any

import httpx2
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.base_client.errors import MismatchingStateError
from authlib.integrations.starlette_client import OAuth, StarletteOAuth2App
from joserfc.errors import JoseError
from starlette.middleware.sessions import SessionMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from dashboard import rendering
from dashboard.addresses import HOME, local_path
from dashboard.pool import ControlPool
from dashboard.visitors import cookie_name
from runtime.settings import Settings

TIMEOUT_S = 10.0
FLOW_LIFE_S = 600
MAX_NEXT_LENGTH = 1500  # browsers keep cookies of 4 KB; a longer address is forgotten
_SECRET = "provider_flows"  # noqa: S105 - its name
# Of the algorithms a provider may name, those that need its private key.
_SIGNATURES = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384"})

logger = logging.getLogger(__name__)


class ProviderError(Exception):
    """The sign-in failed. The message is for the visitor; ``status`` is that of the page."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class Provider(ABC):
    """A sign-in provider. ``name`` is in addresses and in the audit log, ``title`` is its name for
    people."""

    name: str
    title: str

    def __init__(self, settings: Settings) -> None:
        self._callback = f"{settings.base_url}/sign-in/{self.name}/callback"
        self._app = self._register(settings)

    @abstractmethod
    def _register(self, settings: Settings) -> StarletteOAuth2App:
        """Return the client that Authlib makes of the settings."""

    @abstractmethod
    async def _find_email(self, request: Request) -> str:
        """Return the verified e-mail address of the visitor who comes back. May raise anything."""

    async def begin(self, request: Request, next_path: str) -> Response:
        """Return a redirect to the provider. Raises ProviderError."""
        flow = await self._fetch(self._app.create_authorization_url(self._callback))
        address = flow.pop("url")
        await self._app.save_authorize_data(request, redirect_uri=self._callback, **flow)
        request.session[self._next_key] = next_path if len(next_path) <= MAX_NEXT_LENGTH else HOME
        return rendering.redirect(address)

    async def finish(self, request: Request) -> str:
        """Return the verified e-mail address of the visitor who came back. Raises ProviderError."""
        if "error" in request.query_params:
            raise self._refused(request.query_params["error"])
        email: str = await self._fetch(self._find_email(request))
        return email

    def take_next_path(self, request: Request) -> str:
        """Return the path that the visitor wanted to go to."""
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
        # Any other shape an answer can take ends here: a list for an object, no JSON, a bad key.
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


class GitHub(Provider):
    name = "github"
    title = "GitHub"

    def _register(self, settings: Settings) -> StarletteOAuth2App:
        self._emails_url = f"{settings.github_api_url}/user/emails"
        return _register(
            self.name,
            client_id=settings.github_client_id,
            client_secret=settings.github_client_secret,
            authorize_url=f"{settings.github_url}/login/oauth/authorize",
            access_token_url=f"{settings.github_url}/login/oauth/access_token",
            client_kwargs={
                "scope": "user:email",
                "token_endpoint_auth_method": "client_secret_post",
            },
        )

    async def _find_email(self, request: Request) -> str:
        token = await self._app.authorize_access_token(request)
        response = await self._app.get(
            self._emails_url,
            token=token,
            params={"per_page": "100"},
            headers={"accept": "application/vnd.github+json", "x-github-api-version": "2022-11-28"},
        )
        if response.status_code in (403, 404):
            raise ProviderError("GitHub sent no e-mail address of your account.")
        response.raise_for_status()
        for each in response.json():
            if each["primary"] is True and each["verified"] is True:
                return str(each["email"])
        raise ProviderError(
            "Your primary e-mail address at GitHub is not verified. Verify it in GitHub's settings"
            " under Emails, then sign in again."
        )


class Google(Provider):
    name = "google"
    title = "Google"

    def _register(self, settings: Settings) -> StarletteOAuth2App:
        self._issuer = settings.google_issuer
        self._client_id = settings.google_client_id
        return _register(
            self.name,
            client_id=settings.google_client_id,
            client_secret=settings.google_client_secret,
            server_metadata_url=f"{settings.google_issuer}/.well-known/openid-configuration",
            client_kwargs={"scope": "openid email"},
        )

    async def begin(self, request: Request, next_path: str) -> Response:
        await self._fetch(self._discover())
        return await super().begin(request, next_path)

    async def _find_email(self, request: Request) -> str:
        await self._discover()
        options = {
            "iss": {"essential": True, "values": self._issuers()},
            "aud": {"essential": True, "value": self._client_id},
        }
        token = await self._app.authorize_access_token(request, claims_options=options)
        claims = token["userinfo"]
        if not claims.get("email"):
            raise ProviderError("Google sent no e-mail address of your account.")
        if claims.get("email_verified") not in (True, "true"):
            raise ProviderError(
                "Google has not verified your e-mail address. Verify it there, then sign in again."
            )
        return str(claims["email"])

    async def _discover(self) -> None:
        """Load the discovery document. It is accepted only from the issuer itself, and only
        signatures that take the issuer's private key."""
        metadata = await self._app.load_server_metadata()
        if metadata.get("issuer", "").rstrip("/") != self._issuer:
            self._app.server_metadata.clear()
            raise ValueError("the discovery document is another issuer's")
        named = metadata.get("id_token_signing_alg_values_supported", [])
        metadata["id_token_signing_alg_values_supported"] = [
            name for name in named if name in _SIGNATURES
        ]

    def _issuers(self) -> list[str]:
        issuer = self._issuer
        written = [issuer, f"{issuer}/"]
        # Google's own tokens may leave out the scheme.
        return (
            [*written, "accounts.google.com"]
            if issuer == "https://accounts.google.com"
            else written
        )


class FlowCookie:
    """Middleware that keeps ``request.session`` in a signed cookie during a sign-in. Its key is in
    ``control.db``."""

    def __init__(self, app: ASGIApp, settings: Settings, pool: ControlPool) -> None:
        self._app = app
        self._pool = pool
        self._name = cookie_name(settings.base_url, "taximeter-provider")
        self._is_https = settings.base_url.startswith("https:")
        self._inner: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._inner is None:
            secret = await self._pool.run(lambda control: control.get_secret(_SECRET))
            self._inner = SessionMiddleware(
                self._app,
                secret.hex(),
                session_cookie=self._name,
                max_age=FLOW_LIFE_S,
                https_only=self._is_https,
            )
        await self._inner(scope, receive, send)


def configured(settings: Settings) -> list[Provider]:
    """Return the providers that the operator has configured."""
    providers: list[Provider] = []
    if settings.github_client_id is not None:
        providers.append(GitHub(settings))
    if settings.google_client_id is not None:
        providers.append(Google(settings))
    return providers


def _register(name: str, *, client_kwargs: dict[str, Any], **options: Any) -> StarletteOAuth2App:
    kwargs = {
        "code_challenge_method": "S256",
        "timeout": TIMEOUT_S,
        "verify": _trust(),
    } | client_kwargs
    return OAuth().register(name, client_kwargs=kwargs, user_agent="taximeter", **options)


@cache
def _trust() -> ssl.SSLContext:
    """Return the certificate authorities, once for all providers: reading them takes tens of
    milliseconds."""
    return httpx2.create_ssl_context()


def _describe(error: BaseException) -> str:
    """Return an error for the log. Error texts of providers may quote what was sent to them; codes
    do not."""
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
