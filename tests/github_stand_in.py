"""GitHub as far as signing in with it goes: a small one on loopback that is as strict as the real one.

    with GitHub(ANN, callback="http://127.0.0.1:8080/sign-in/github/callback") as github:
        ...  # send a browser to github.url + "/login/oauth/authorize?…"

What it does as the real one: a code works once and for ten minutes; mistakes at the token endpoint
come with status 200; its answers are forms unless JSON is asked for; the API wants a User-Agent, and
hides the addresses (404) from a token without the scope. Where the real one lets a client be careless
(no state, no PKCE), this one refuses and keeps the reason in `faults`.

The API is at the root, as at api.github.com, and at `/api/v3`, as on servers of one's own.
"""

import base64
import hashlib
import secrets
import socket
import threading
import time
from dataclasses import dataclass, field
from html import escape
from typing import Any, Self
from urllib.parse import parse_qs, urlencode

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route

from tests.upstream import PATIENCE_S

CLIENT_ID = "Iv1.taximeter0000000"
CLIENT_SECRET = "the secret of the application at GitHub"
CODE_LIFE_S = 600
_EMAIL_SCOPES = {"user", "user:email"}
_TROUBLESHOOTING = (
    "/apps/managing-oauth-apps/troubleshooting-oauth-app-access-token-request-errors/"
)
_ERRORS = {
    "incorrect_client_credentials": "The client_id and/or client_secret passed are incorrect.",
    "redirect_uri_mismatch": "The redirect_uri MUST match the registered callback URL for this application.",
    "bad_verification_code": "The code passed is incorrect or expired.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Email:
    email: str
    primary: bool = True
    verified: bool = True
    visibility: str | None = "private"


@dataclass(frozen=True, slots=True)
class Person:
    """A person at GitHub. `emails` None: the address list cannot be had (the application may not read it)."""

    id: int
    login: str
    emails: tuple[Email, ...] | None = ()
    name: str | None = None


@dataclass(slots=True)
class _Grant:
    person: Person
    scopes: frozenset[str]
    redirect_uri: str
    challenge: str
    expires_at_s: float
    is_used: bool = False


@dataclass(frozen=True, slots=True)
class _Token:
    person: Person
    scopes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that came, with what it said in its query and its form."""

    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    form: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


class GitHub:
    """A stand-in of GitHub.

    With `at_once` a person who comes is sent back without a page, as one is who has allowed the
    application before. `instead[path]` is a status to answer with, or None for no answer at all."""

    def __init__(
        self, *people: Person, callback: str | None = None, at_once: str | None = None
    ) -> None:
        self.people = {person.login: person for person in people}
        self.callback = callback
        self.at_once = at_once
        self.instead: dict[str, int | None] = {}
        self.seen: list[Seen] = []
        self.faults: list[str] = []
        self.now = time.monotonic
        self._grants: dict[str, _Grant] = {}
        self._tokens: dict[str, _Token] = {}
        self._socket = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(
            self._make_app(), log_config=None, lifespan="off", timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="github", daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    @property
    def secrets(self) -> list[str]:
        """Return the codes and tokens that were given out, which nobody should keep."""
        return [*self._grants, *self._tokens]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._server.should_exit = True
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "GitHub did not stop"
        self._socket.close()

    def _make_app(self) -> Starlette:
        api = [
            Route("/user", self._user),
            Route("/user/emails", self._emails),
        ]
        return Starlette(
            routes=[
                Route("/login/oauth/authorize", self._authorize, methods=["GET"]),
                Route("/login/oauth/authorize", self._decide, methods=["POST"]),
                Route("/login/oauth/access_token", self._access_token, methods=["POST"]),
                *api,
                Mount("/api/v3", routes=api),
            ]
        )

    # --- in the browser ---

    async def _authorize(self, request: Request) -> Response:
        refusal = await self._before(request) or self._refuse_application(request)
        if refusal is not None:
            return refusal
        if self.at_once is not None:
            return self._send_back(request, self.at_once)
        buttons = "".join(
            f'<button name="login" value="{escape(login)}">Authorize as {escape(login)}</button>'
            for login in self.people
        )
        return HTMLResponse(
            "<!doctype html><html lang=en><title>Authorize application</title><main>"
            "<h1>Authorize application</h1><p>It wants to read your e-mail addresses.</p>"
            f"<form method=post>{buttons}<button name=login value=''>Cancel</button></form></main>"
        )

    async def _decide(self, request: Request) -> Response:
        refusal = await self._before(request) or self._refuse_application(request)
        if refusal is not None:
            return refusal
        form = await _read_form(request)
        return self._send_back(request, form.get("login", ""))

    def _refuse_application(self, request: Request) -> Response | None:
        asked = request.query_params
        if asked.get("client_id") != CLIENT_ID:
            return Response("Not Found", 404)
        if self.callback is not None and asked.get("redirect_uri") != self.callback:
            error = "redirect_uri_mismatch"
            query = {"error": error, "error_description": _ERRORS[error]}
            return _redirect(self.callback, query | {"state": asked.get("state", "")})
        return self._refuse_carelessness(request)

    def _refuse_carelessness(self, request: Request) -> Response | None:
        asked = request.query_params
        reasons = []
        if len(asked.get("state", "")) < 16:
            reasons.append("no state, or one that can be guessed")
        if (
            asked.get("code_challenge_method") != "S256"
            or len(asked.get("code_challenge", "")) != 43
        ):
            reasons.append("no code_challenge by S256")
        if asked.get("response_type", "code") != "code":
            reasons.append("a response_type other than code")
        self.faults += reasons
        return Response("; ".join(reasons), 400) if reasons else None

    def _send_back(self, request: Request, login: str) -> Response:
        asked = request.query_params
        target, state = asked["redirect_uri"], {"state": asked["state"]}
        person = self.people.get(login)
        if person is None:
            words = "The user has denied your application access."
            return _redirect(target, {"error": "access_denied", "error_description": words} | state)
        code = secrets.token_hex(10)
        self._grants[code] = _Grant(
            person=person,
            scopes=frozenset(asked.get("scope", "").replace(",", " ").split()),
            redirect_uri=target,
            challenge=asked["code_challenge"],
            expires_at_s=self.now() + CODE_LIFE_S,
        )
        return _redirect(target, {"code": code} | state)

    # --- from server to server ---

    async def _access_token(self, request: Request) -> Response:
        if (refusal := await self._before(request)) is not None:
            return refusal
        form = await _read_form(request)
        answer = self._exchange(form)
        if "application/json" in request.headers.get("accept", ""):
            return JSONResponse(answer)
        return Response(urlencode(answer), media_type="application/x-www-form-urlencoded")

    def _exchange(self, form: dict[str, str]) -> dict[str, str]:
        if (form.get("client_id"), form.get("client_secret")) != (CLIENT_ID, CLIENT_SECRET):
            return _error("incorrect_client_credentials")
        grant = self._grants.get(form.get("code", ""))
        if grant is None or grant.is_used or self.now() > grant.expires_at_s:
            return _error("bad_verification_code")
        grant.is_used = True
        if form.get("redirect_uri", grant.redirect_uri) != grant.redirect_uri:
            return _error("redirect_uri_mismatch")
        if _challenge(form.get("code_verifier", "")) != grant.challenge:
            return _error("bad_verification_code")
        token = f"gho_{secrets.token_hex(18)}"
        self._tokens[token] = _Token(grant.person, grant.scopes)
        return {
            "access_token": token,
            "scope": ",".join(sorted(grant.scopes)),
            "token_type": "bearer",
        }

    async def _user(self, request: Request) -> Response:
        token = await self._identify(request)
        if isinstance(token, Response):
            return token
        person = token.person
        public = (e.email for e in person.emails or () if e.visibility == "public")
        profile = {
            "login": person.login,
            "id": person.id,
            "type": "User",
            "name": person.name,
            "email": next(public, None),
        }
        return JSONResponse(profile, headers=_scope_headers(token, ""))

    async def _emails(self, request: Request) -> Response:
        token = await self._identify(request)
        if isinstance(token, Response):
            return token
        headers = _scope_headers(token, "user, user:email")
        if token.person.emails is None or not token.scopes & _EMAIL_SCOPES:
            return _problem(404, "Not Found", headers)
        found = [
            {
                "email": email.email,
                "primary": email.primary,
                "verified": email.verified,
                "visibility": email.visibility if email.primary else None,
            }
            for email in token.person.emails
        ]
        return JSONResponse(found, headers=headers)

    async def _identify(self, request: Request) -> _Token | Response:
        if (refusal := await self._before(request)) is not None:
            return refusal
        if not request.headers.get("user-agent"):
            return Response("Request forbidden by administrative rules.", 403)
        scheme, _, value = request.headers.get("authorization", "").partition(" ")
        if not value:
            return _problem(401, "Requires authentication")
        token = self._tokens.get(value)
        if token is None or scheme.lower() not in ("bearer", "token"):
            return _problem(401, "Bad credentials")
        return token

    async def _before(self, request: Request) -> Response | None:
        """Note what came; answer otherwise, or not at all, where the test says so."""
        path = request.url.path.removeprefix("/api/v3")
        form = await _read_form(request) if request.method == "POST" else {}
        self.seen.append(
            Seen(request.method, path, dict(request.query_params), form, dict(request.headers))
        )
        if path not in self.instead:
            return None
        status = self.instead[path]
        if status is None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            return Response(status_code=503)  # nobody is there to read it
        return _problem(status, "As the test wants it")


async def _read_form(request: Request) -> dict[str, str]:
    body = (await request.body()).decode()
    return {name: values[-1] for name, values in parse_qs(body, keep_blank_values=True).items()}


def _redirect(target: str, query: dict[str, str]) -> RedirectResponse:
    return RedirectResponse(f"{target}{'&' if '?' in target else '?'}{urlencode(query)}", 302)


def _challenge(verifier: str) -> str:
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _error(code: str) -> dict[str, str]:
    anchor = code.replace("_", "-")
    return {
        "error": code,
        "error_description": _ERRORS[code],
        "error_uri": f"{_TROUBLESHOOTING}#{anchor}",
    }


def _scope_headers(token: _Token, accepted: str) -> dict[str, str]:
    return {
        "x-oauth-scopes": ", ".join(sorted(token.scopes)),
        "x-accepted-oauth-scopes": accepted,
    }


def _problem(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    body: dict[str, Any] = {
        "message": message,
        "documentation_url": "https://docs.github.com/rest",
        "status": str(status),
    }
    return JSONResponse(body, status, headers)
