"""Sign-in with OpenID Connect: the checks that every such provider needs."""

from abc import abstractmethod

from authlib.integrations.starlette_client import StarletteOAuth2App
from starlette.requests import Request
from starlette.responses import Response

from dashboard.sign_in.oauth import OAuthProvider, register
from dashboard.sign_in.provider import ProviderError
from runtime.settings import Settings

# Of the algorithms a provider may name, those that need its private key.
_SIGNATURES = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384"})


class OpenIdProvider(OAuthProvider):
    """A provider of OpenID Connect. A subclass names its settings, and makes no check of its own.

    The discovery document and the token come from the issuer, the token is for this client and
    signed with the issuer's private key, and the issuer has verified the e-mail address."""

    @abstractmethod
    def _read_client(self, settings: Settings) -> tuple[str, str | None, str | None]:
        """Return the issuer, and the id and the secret of our client there."""

    def _register(self, settings: Settings) -> StarletteOAuth2App:
        self._issuer, self._client_id, client_secret = self._read_client(settings)
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
        claims = token["userinfo"]
        if not claims.get("email"):
            raise ProviderError(f"{self.title} sent no e-mail address of your account.")
        if claims.get("email_verified") not in (True, "true"):
            raise ProviderError(
                f"{self.title} has not verified your e-mail address. Verify it there, then sign in"
                " again."
            )
        return str(claims["email"])

    async def _discover(self) -> None:
        """Load the discovery document, which must be the issuer's own. Only signatures that take
        its private key are accepted."""
        metadata = await self._app.load_server_metadata()
        if metadata.get("issuer", "").rstrip("/") != self._issuer:
            self._app.server_metadata.clear()
            raise ValueError("the discovery document is another issuer's")
        named = metadata.get("id_token_signing_alg_values_supported", [])
        metadata["id_token_signing_alg_values_supported"] = [
            name for name in named if name in _SIGNATURES
        ]

    def _issuers(self) -> list[str]:
        """Return the names of the issuer that tokens may carry as ``iss``."""
        return [self._issuer, f"{self._issuer}/"]
