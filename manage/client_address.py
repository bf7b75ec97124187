"""The client's address, as the front door passes it to the web process.

Every connection to the web process comes from the proxy, which sends the client's address in a header
together with a secret mark. The header is removed here, so that no later code can mistake it for the
client's own, and ``scope["client"]`` is set to the client's address."""

from collections.abc import Sequence
from hmac import compare_digest

from starlette.types import ASGIApp, Receive, Scope, Send

CLIENT_HEADER = b"x-taximeter-client"


class ClientAddress:
    """Middleware that sets ``scope["client"]`` from the header of the front door.

    ``mark`` authenticates the front door; if it is empty, the header is never trusted."""

    def __init__(self, app: ASGIApp, mark: str) -> None:
        self._app = app
        self._mark = mark.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = scope["headers"]
            values = [value for name, value in headers if name == CLIENT_HEADER]
            client = find_client(values, self._mark)
            scope = {
                **scope,
                "headers": [header for header in headers if header[0] != CLIENT_HEADER],
                "client": scope.get("client") if client is None else (client, 0),
            }
        await self._app(scope, receive, send)


def find_client(values: Sequence[bytes], mark: bytes) -> str | None:
    """Return the address in ``<mark> <address>``, or None unless exactly one value has the right mark."""
    if len(values) != 1 or not mark:
        return None
    given_mark, _, address = values[0].partition(b" ")
    return address.decode("latin-1") if compare_digest(given_mark, mark) else None
