"""Reading of submitted forms: the check that they come from this service's pages, and their fields.

Every form is read by this module, and its origin so checked. Bodies are limited in size.
"""

from collections.abc import Mapping
from urllib.parse import parse_qsl, urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

MAX_BYTES = 16_384
MAX_FIELDS = 20
FOREIGN = "This request came from another site and was refused. Submit the form on this page again."


async def read_form(request: Request, base_url: str) -> Mapping[str, str]:
    """Return the fields of a form; of a repeated field the first value. Raises HTTPException.

    Its status is 403 for a form from another site, 413 or 415 for a body of another size or type, else
    400."""
    if not is_same_origin(request.headers, base_url):
        raise HTTPException(403, FOREIGN)
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in ("", "application/x-www-form-urlencoded"):
        raise HTTPException(415, "Forms must be sent as application/x-www-form-urlencoded.")
    body = await read_body(
        request,
        MAX_BYTES,
        too_large=f"A form has at most {MAX_BYTES} bytes.",
        cut="This form did not come to its end.",
    )
    try:
        fields = parse_qsl(
            body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict"
        )
    except ValueError as error:
        raise HTTPException(400, "This form cannot be read.") from error
    return dict(reversed(fields))


def is_same_origin(headers: Mapping[str, str], base_url: str) -> bool:
    """Return whether a request comes from a page of this service.

    Browsers send ``Sec-Fetch-Site`` or at least ``Origin`` with every POST, and a page elsewhere can
    forge neither. ``Origin`` is compared with the base URL and with the host of the request."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = headers.get("origin")
    if origin is None:
        return False
    ours = {base_url, f"{urlsplit(base_url).scheme}://{headers.get('host', '')}"}
    return origin in ours


async def read_body(request: Request, max_bytes: int, too_large: str, cut: str) -> bytes:
    """Return the body of a request.

    Raises HTTPException: 413 with the message ``too_large``, or 400 with ``cut`` if the client
    disconnected."""
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > max_bytes:
                raise HTTPException(413, too_large)
    except ClientDisconnect as error:  # nobody is left to read this
        raise HTTPException(400, cut) from error
    return bytes(body)
