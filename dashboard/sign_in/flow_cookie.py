"""The state of a sign-in through a provider, in a signed cookie that expires after ten minutes."""

from starlette.middleware.sessions import SessionMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from dashboard.visitors import ControlPool, cookie_name
from runtime.settings import Settings

FLOW_LIFE_S = 600
_SECRET = "provider_flows"  # noqa: S105 - its name


class FlowCookie:
    """Middleware that keeps ``request.session`` in a signed cookie during a sign-in. The signing key is in
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
