"""Sign-in through OpenID Connect: the checks that every such provider needs."""

import asyncio
from abc import abstractmethod
from typing import Any
from urllib.parse import urlsplit

from authlib.integrations.starlette_client import StarletteOAuth2App
from authlib.oidc.core import UserInfo
from starlette.requests import Request
from starlette.responses import Response

from dashboard.sign_in.oauth import OAuthProvider, register
from dashboard.sign_in.provider import ProviderError
from runtime.settings import Settings

# Of the algorithms a provider may name, those that need its private key.
_SIGNATURES = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384"})
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_ALGORITHMS = "id_token_signing_alg_values_supported"
_LOADED = "_loaded_at"  # by Authlib, when it has loaded the document


class OpenIdProvider(OAuthProvider):
    """A provider of OpenID Connect; all checks are in this class, and a subclass only reads its settings.
    The checks: discovery document and token come from the issuer, the token is for this client and
    signed with the issuer's private key, and the issuer has verified the email address."""

    @abstractmethod
    def _read_client(self, settings: Settings) -> tuple[str, str | None, str | None]:
        """Return the issuer, and the id and secret of our client at the issuer, from the settings."""

    def _register(self, settings: Settings) -> StarletteOAuth2App:
        self._issuer, self._client_id, client_secret = self._read_client(settings)
        self._discovering = asyncio.Lock()
        return register(
            self.name,
            client_id=self._client_id,
            client_secret=client_secret,
            server_metadata_url=f"{self._issuer}/.well-known/openid-configuration",
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
        claims = token.get("userinfo")
        # Authlib makes one of an ID token that it has verified; another is a field of the response.
        if not isinstance(claims, UserInfo):
            raise TypeError("there is no ID token")
        email, is_verified = claims.get("email"), claims.get("email_verified")
        if not email or not isinstance(email, str):
            raise ProviderError(f"{self.title} sent no e-mail address of your account.")
        if is_verified is not True and is_verified != "true":
            raise ProviderError(
                f"{self.title} has not verified your e-mail address. Verify it there, then sign in"
                " again."
            )
        return email

    async def _discover(self) -> None:
        """Load the discovery document, unless it is loaded, and check that it is the issuer's own.

        Raises ValueError, and the errors of loading."""
        async with self._discovering:
            is_new = _LOADED not in self._app.server_metadata
            try:
                metadata = await self._app.load_server_metadata()
                self._check_issuer(metadata)
                if is_new:
                    kept = self._read_document(metadata)
                    metadata.clear()
                    metadata.update(kept)
            except Exception:
                self._app.server_metadata.clear()
                raise

    def _check_issuer(self, metadata: dict[str, Any]) -> None:
        if metadata["issuer"].rstrip("/") != self._issuer:
            raise ValueError("the discovery document is another issuer's")

    def _read_document(self, document: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a discovery document that are used.

        Authlib would take every other field as an option of its client: a proxy, whether to verify
        certificates, the scope, whether to use PKCE. Of the signature algorithms, only those that need
        the issuer's private key are kept. Raises ValueError for an endpoint without a safe address."""
        for name in _ENDPOINTS:
            self._check_endpoint(document[name])
        named = document.get(_ALGORITHMS, [])
        return {
            **{name: document[name] for name in ("issuer", _LOADED, *_ENDPOINTS)},
            _ALGORITHMS: [each for each in named if each in _SIGNATURES],
        }

    def _check_endpoint(self, url: str) -> None:
        """Check that an endpoint uses https, or the scheme of the issuer. Raises ValueError."""
        parts = urlsplit(url)
        schemes = ("https", urlsplit(self._issuer).scheme)
        if parts.scheme not in schemes or not parts.hostname or "@" in parts.netloc:
            raise ValueError("an endpoint has no safe address")
        if not url.isascii() or not url.isprintable() or parts.fragment:
            raise ValueError("an endpoint has no valid address")

    def _issuers(self) -> list[str]:
        """Return the values of ``iss`` that are accepted in tokens."""
        return [self._issuer, f"{self._issuer}/"]
