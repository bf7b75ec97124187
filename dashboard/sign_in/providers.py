"""The sign-in providers: GitHub (OAuth 2) and Google (OpenID Connect).

A provider returns an email address, which it must have verified. No token is stored.
"""

from authlib.integrations.starlette_client import StarletteOAuth2App
from starlette.requests import Request

from dashboard.sign_in.oauth import OAuthProvider, register
from dashboard.sign_in.openid import OpenIdProvider
from dashboard.sign_in.provider import Provider, ProviderError
from runtime.settings import Settings


class GitHub(OAuthProvider):
    name = "github"
    title = "GitHub"

    def _register(self, settings: Settings) -> StarletteOAuth2App:
        self._emails_url = f"{settings.github_api_url}/user/emails"
        return register(
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


class Google(OpenIdProvider):
    name = "google"
    title = "Google"

    def _read_client(self, settings: Settings) -> tuple[str, str | None, str | None]:
        return settings.google_issuer, settings.google_client_id, settings.google_client_secret

    def _issuers(self) -> list[str]:
        # Google's own tokens may leave out the scheme.
        is_google_itself = self._issuer == "https://accounts.google.com"
        return super()._issuers() + (["accounts.google.com"] if is_google_itself else [])


def configured(settings: Settings) -> list[Provider]:
    """Return the providers that the operator has configured."""
    providers: list[Provider] = []
    if settings.github_client_id is not None:
        providers.append(GitHub(settings))
    if settings.google_client_id is not None:
        providers.append(Google(settings))
    return providers
