"""What all pages share: templates, and how a request is refused."""

from collections.abc import Mapping
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from dashboard import formats
from dashboard.addresses import raw_path, requested, sign_in_address
from store.control.people import Caller

HERE = Path(__file__).parent
_NO_STORE = {"cache-control": "no-store"}
# For what is of traces: no other site may embed it either.
PRIVATE = {"cross-origin-resource-policy": "same-origin", "cache-control": "private, no-store"}
_templates = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
formats.add_filters(_templates)


def show(
    name: str,
    *,
    visitor: Caller | None = None,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    **context: object,
) -> Response:
    """A page for whoever is signed in."""
    text = _templates.get_template(name).render(visitor=visitor, **context)
    return HTMLResponse(text, status, {**_NO_STORE, **(headers or {})})


def go(path: str) -> Response:
    """After a form was carried out: a page that may be loaded anew."""
    return RedirectResponse(path, 303, _NO_STORE)


def ask_to_sign_in(request: Request) -> Response:
    """A browser is sent to the page; a program is told in JSON."""
    if is_for_program(request):
        return problem_json(
            401,
            "not_signed_in",
            "Sign in, or send a service API key as Bearer.",
            {"www-authenticate": "Bearer"},
        )
    return go(sign_in_address(requested(request.scope)))


def refuse(
    request: Request,
    status: int,
    code: str,
    message: str,
    headers: Mapping[str, str] | None = None,
    *,
    visitor: Caller | None = None,
) -> Response:
    """With a page or in JSON."""
    if is_for_program(request):
        return problem_json(status, code, message, headers)
    return show(
        "problem.html",
        visitor=visitor,
        status=status,
        headers=headers,
        code=status,
        message=message,
    )


def problem_json(
    status: int, code: str, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    """In the API's shape: an object ``error`` with a code for programs and a message for people."""
    body = {"error": {"code": code, "message": message}}
    return JSONResponse(body, status, {**_NO_STORE, **(headers or {})})


def is_for_program(request: Request) -> bool:
    """Does it want JSON, rather than a page?"""
    if "authorization" in request.headers:
        return True
    accept = request.headers.get("accept", "")
    if "application/json" in accept and "text/html" not in accept:
        return True
    return raw_path(request.scope).endswith((".csv", ".json", ".jsono", ".blob"))
