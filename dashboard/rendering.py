"""Rendering of pages, redirects and error responses."""

import re
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from dashboard import formats
from dashboard.addresses import raw_path, requested, sign_in_address
from dashboard.moments import find_zone
from dashboard.template_cache import TemplateCache
from runtime import extensions
from runtime.email_addresses import MAX_EMAIL_LENGTH
from runtime.extension_values import PageLink, Place
from store.control import names, slugs
from store.control.people import Caller

HERE = Path(__file__).parent
# Searched for in the source: compiling it to find them would take longer than loading what is compiled.
_REFERENCE = re.compile(r'{%-? *(?:extends|from|import|include) "([^"]+)"')
_NO_STORE = {"cache-control": "no-store"}
# Ends of addresses that programs ask for.
DATA_SUFFIXES = (".csv", ".json", ".jsonl", ".jsono", ".parquet", ".blob")
# For what is of traces: no other site may embed it either.
PRIVATE = {"cross-origin-resource-policy": "same-origin", "cache-control": "private, no-store"}
# For bytes that came from a body.
FILE_HEADERS = PRIVATE | {"content-security-policy": "sandbox; default-src 'none'"}
_templates = Environment(
    loader=FileSystemLoader(
        [HERE / "templates", *(each / "templates" for each in extensions.list_folders())]
    ),
    autoescape=True,
    auto_reload=False,  # it would look at each file for each page
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
formats.add_filters(_templates)
_templates.bytecode_cache = TemplateCache(_templates, __file__)


def list_links(place: Place, caller: Caller) -> list[PageLink]:
    """Return the links that extensions add at a place and that the caller may follow."""
    links: Iterable[PageLink] = chain(*extensions.call().page_links())
    is_owner = caller.role == "owner"
    return [each for each in links if each.place == place and (is_owner or not each.is_for_owners)]


_templates.globals["list_links"] = list_links
# How many characters fields of forms may have.
_templates.globals["longest"] = {
    "name": names.MAX_LENGTH,
    "slug": slugs.MAX_LENGTH,
    "email": MAX_EMAIL_LENGTH,
}


def load_templates(names: Iterable[str]) -> None:
    """Compile templates and those that they refer to, so that forks of this process share them."""
    left, loaded = set(names), set[str]()
    while left:
        name = left.pop()
        loaded.add(name)
        source = Path(str(_templates.get_template(name).filename)).read_text()
        left |= find_referenced(source) - loaded


def find_referenced(source: str) -> set[str]:
    """Return the names of the templates that the source of a template refers to."""
    return set(_REFERENCE.findall(source))


def render(
    name: str,
    *,
    visitor: Caller | None = None,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    **context: object,
) -> Response:
    """Return a page made from a template. ``visitor`` is the signed-in caller."""
    text = render_part(name, visitor=visitor, **context)
    return HTMLResponse(text, status, {**_NO_STORE, **(headers or {})})


def render_part(name: str, *, visitor: Caller | None = None, **context: object) -> str:
    """Return the HTML of a part of a page. Its times are in the zone of ``visitor``.

    Without ``visitor`` the template must not contain times."""
    zone = {} if visitor is None else {"zone": find_zone(visitor.time_zone)}
    return _templates.get_template(name).render(visitor=visitor, **zone, **context)


def redirect(path: str) -> Response:
    """Return a redirect to a page (303), which makes the browser request it by GET."""
    return RedirectResponse(path, 303, _NO_STORE)


def require_sign_in(request: Request) -> Response:
    """Return a redirect to the sign-in page for browsers, or a 401 in JSON for programs."""
    if is_for_program(request):
        return problem_json(
            401,
            "not_signed_in",
            "Sign in, or send a service API key as Bearer.",
            {"www-authenticate": "Bearer"},
        )
    return redirect(sign_in_address(requested(request.scope)))


def refuse(
    request: Request,
    status: int,
    code: str,
    message: str,
    headers: Mapping[str, str] | None = None,
    *,
    visitor: Caller | None = None,
) -> Response:
    """Return an error as a page for browsers, or in JSON for programs."""
    by_program = is_for_program(request)
    return report(status, code, message, headers, by_program=by_program, visitor=visitor)


def report(
    status: int,
    code: str,
    message: str,
    headers: Mapping[str, str] | None = None,
    *,
    by_program: bool,
    visitor: Caller | None = None,
    here: str = "",
) -> Response:
    """Return an error as a page, or in JSON if ``by_program``. ``here`` is the active entry of the
    navigation."""
    if by_program:
        return problem_json(status, code, message, headers)
    shown = {"code": status, "message": message, "here": here}
    return render("problem.html", visitor=visitor, status=status, headers=headers, **shown)


def problem_json(
    status: int, code: str, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error in the format of the API: an object ``error`` with ``code`` and ``message``."""
    body = {"error": {"code": code, "message": message}}
    return JSONResponse(body, status, {**_NO_STORE, **(headers or {})})


def is_for_program(request: Request) -> bool:
    """Return whether a request wants JSON or other data rather than a page."""
    if "authorization" in request.headers:
        return True
    accept = request.headers.get("accept", "")
    if "application/json" in accept and "text/html" not in accept:
        return True
    return raw_path(request.scope).endswith(DATA_SUFFIXES)
